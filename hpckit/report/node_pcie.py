"""PCIe links in words: a device's own, and what is slower above it, said once."""

from __future__ import annotations

from typing import Final

from hpckit.model.hardware import NodeTopology
from hpckit.model.node_places import Branch
from hpckit.model.node_words import is_narrow, pcie_bytes_per_s, pcie_words
from hpckit.model.pci import PciAddress, PcieLink

_SLOW: Final = "(slowest on the way; links slow down when idle)"
_NARROW: Final = "(narrowest on the way)"


class PcieWays:
    """The links of a node's PCI devices; what a switch's line has said is not said again."""

    def __init__(self, topology: NodeTopology) -> None:
        self._own = {one.address: one.link or one.effective for one in topology.pci}
        self._whole = {one.address: one.effective or one.link for one in topology.pci}
        self._told: dict[PciAddress, PcieLink | None] = {}

    def tell(self, branch: Branch) -> None:
        """Take what is slow on the way up to a switch as said, for all that is below it."""
        if branch.bridge is not None:
            link = self._whole.get(branch.bridge.address)
            self._told.update(dict.fromkeys(_below(branch), link))

    def of_switch(self, branch: Branch) -> tuple[str, bool]:
        """The words for the link above a switch, and if it is narrow.

        Where one on its way up is slower than it, or than a device below, it is the slowest.
        """
        if branch.bridge is None:
            return "", False
        address = branch.bridge.address
        own, whole, told = (of.get(address) for of in (self._own, self._whole, self._told))
        below = [self._own.get(one) for one in _below(branch)]
        faster = [link for link in (own, *below) if _is_slower(whole, link)]
        if whole is None or not faster or (told is not None and not _is_slower(whole, told)):
            return _marked(own)
        words, is_odd = _marked(whole)
        is_less_wide = any((whole.width or 0) < (link.width or 0) for link in faster if link)
        return f"{words} {_NARROW if is_less_wide else _SLOW}", is_odd

    def of_device(self, address: PciAddress | None) -> tuple[str, bool]:
        """The words for the link of a device, and whether it is narrow.

        What is slower above it is told where no line of a switch above does.
        """
        if address is None:
            return "", False
        own, whole, told = (of.get(address) for of in (self._own, self._whole, self._told))
        words, is_odd = _marked(own)
        if not _is_slower(whole, own) or (told is not None and not _is_slower(whole, told)):
            return words, is_odd
        above, is_narrow_above = _marked(whole)
        return f"{words}, way up {above}", is_odd or is_narrow_above


def _below(branch: Branch) -> list[PciAddress]:
    found = [device.pci for device in branch.devices() if device.pci is not None]
    return found + _switches(branch)


def _switches(branch: Branch) -> list[PciAddress]:
    found = []
    for below in branch.branches:
        found += [] if below.bridge is None else [below.bridge.address]
        found += _switches(below)
    return found


def _marked(link: PcieLink | None) -> tuple[str, bool]:
    return pcie_words(link) + (" NARROW" if is_narrow(link) else ""), is_narrow(link)


def _is_slower(one: PcieLink | None, other: PcieLink | None) -> bool:
    rates = pcie_bytes_per_s(one), pcie_bytes_per_s(other)
    return rates[0] is not None and rates[1] is not None and rates[0] < rates[1]
