"""The PCIe links that traffic passes on its way from one device to another.

Below a switch that both hang on nothing goes up to the CPU. The uppermost port of switches in two
tiers may tell a speed that it has not got: those of OCI's H100 say 5 GT/s. NCCL flattens such
switches. Source: NCCL, src/graph/topo.cc, ncclTopoFlattenBcmSwitches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hpckit.model.busbw import PcieRate
from hpckit.model.pci import PciAddress, PciDevice, PcieLink

Tree = Mapping[PciAddress, PciDevice]


def shared(tree: Tree, ends: Sequence[PciAddress | None], *, by_all: bool) -> set[PciAddress]:
    """The bridges above the ends: where traffic to one of them turns, or with `by_all` to any."""
    above = [{device.address for device in _upward(tree, end)} - {end} for end in ends]
    if not above:
        return set()
    return set.intersection(*above) if by_all else set.union(*above)


def slowest_pcie(
    tree: Tree, addresses: Iterable[PciAddress | None], ends: Collection[PciAddress]
) -> PcieRate | None:
    """The slowest of several devices' ways to where they turn; None where one is not known."""
    found = [pcie_rate(tree, address, ends) for address in addresses]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return min(known, key=lambda one: one.speed_gt_per_s * one.width)


def pcie_rate(
    tree: Tree, address: PciAddress | None, ends: Collection[PciAddress]
) -> PcieRate | None:
    """The narrowest link below the bridges `ends`, at the speed it can have: idle ones train down.

    A device below none of them has its links up to the CPU.
    """
    links = list(_links(tree, address, ends))
    speeds = [one.max_speed_gt_per_s or one.speed_gt_per_s for one in links]
    widths = [one.max_width or one.width for one in links]
    known = [speed for speed in speeds if speed]
    wide = [width for width in widths if width]
    if not known or not wide:
        return None
    return PcieRate(speed_gt_per_s=min(known), width=min(wide))


def _links(
    tree: Tree, address: PciAddress | None, ends: Collection[PciAddress]
) -> Iterator[PcieLink]:
    for device in _upward(tree, address):
        if device.address in ends:
            return
        if device.link is not None:
            yield device.link


def _upward(tree: Tree, address: PciAddress | None) -> Iterator[PciDevice]:
    """A device and the bridges above it."""
    seen: set[PciAddress] = set()
    device = None if address is None else tree.get(address)
    while device is not None and device.address not in seen:
        seen.add(device.address)
        yield device
        device = None if device.parent is None else tree.get(device.parent)
