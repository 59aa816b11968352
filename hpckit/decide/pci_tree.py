"""The PCI tree of a node as paths see it: what lies above a device, and how narrow it is.

Two kinds of tree come in, told apart by whether a device knows its root complex
(`PciDevice.host_bridge`, of the device itself or of what is above it):

- a full one (sysfs, hwloc, lspci): root complex, root port, then for each switch its upstream port
  and a downstream port, then the device. A switch is two bridges.
- NCCL's (its topology files): NCCL climbs two levels at a time and names no root complex
  (ncclTopoGetXmlFromSys in NCCL's src/graph/xml.cc), so a switch is one bridge, there are no root
  ports, and below a CPU everything lies side by side.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Set
from typing import Any, Final

from hpckit.model.path import PathKind
from hpckit.model.pci import PciAddress, PciDevice, PcieLink
from hpckit.model.pci_vendors import BROADCOM_LSI

_NO_LINK: Final = PcieLink()
_LINK_FIELDS: Final = tuple(field.name for field in dataclasses.fields(PcieLink))

_PEX_GEN4: Final = 0xC010
_PEX_GEN5: Final = 0xC030
_LOW_BITS: Final = 0xF000


class PciTree:
    """An index of PCI devices by address, with the bridges above each."""

    def __init__(self, devices: Iterable[PciDevice]) -> None:
        self._devices = {device.address: device for device in devices}
        # A node has thousands of pairs of devices, and each asks these of both.
        self._above: dict[PciAddress, tuple[PciAddress, ...]] = {}
        self._switches: dict[PciAddress, tuple[PciAddress, ...]] = {}
        self._host_bridges: dict[PciAddress, str | None] = {}
        self._effective: dict[PciAddress, PcieLink] = {}
        self._meeting: dict[tuple[PciAddress, PciAddress], int] = {}

    @property
    def addresses(self) -> Set[PciAddress]:
        """The addresses of the devices."""
        return self._devices.keys()

    def above(self, address: PciAddress) -> tuple[PciAddress, ...]:
        """The bridges above a device, the nearest first; a circle ends where it would close."""
        known = self._above.get(address)
        if known is not None:
            return known
        chain: list[PciAddress] = []
        at = self._devices.get(address)
        while at is not None and at.parent is not None and at.parent not in {address, *chain}:
            chain.append(at.parent)
            at = self._devices.get(at.parent)
        self._above[address] = tuple(chain)
        return self._above[address]

    def way_up(self, address: PciAddress) -> list[PciDevice]:
        """The device at an address and the bridges above it, the nearest first."""
        way = (address, *self.above(address))
        return [self._devices[each] for each in way if each in self._devices]

    def host_bridge(self, address: PciAddress) -> str | None:
        """The root complex of a device, None in a tree that names none."""
        if address not in self._host_bridges:
            named = (one.host_bridge for one in self.way_up(address))
            self._host_bridges[address] = next((name for name in named if name), None)
        return self._host_bridges[address]

    def numa_index(self, address: PciAddress) -> int | None:
        """The NUMA node of a device, or of the nearest bridge above it that has one."""
        known = (one.numa_index for one in self.way_up(address))
        return next((index for index in known if index is not None), None)

    def effective(self, address: PciAddress) -> PcieLink | None:
        """The slowest speed and the narrowest width over a device and the bridges above it.

        What a bridge does not tell takes no part; None where none of them tells anything.
        """
        least = _NO_LINK
        for device in reversed(self.way_up(address)):
            if device.address not in self._effective:
                self._effective[device.address] = _least(device.link, least)
            least = self._effective[device.address]
        return None if least == _NO_LINK else least

    def shared(self, a: PciAddress, b: PciAddress) -> PathKind | None:
        """PIX or PXB where two devices meet below their CPU, else None.

        PIX is at most one switch: both hang on one link (the functions of a card), or each is
        behind one port of the same switch. Every further bridge makes it PXB, also those that a
        Broadcom switch shows for its virtual ones: nvidia-smi counts them.
        """
        above_a, above_b = self.above(a), self.above(b)
        if above_a and above_b and above_a[-1] != above_b[-1]:
            return None
        if is_one_card(a, b):
            return PathKind.PIX
        if not above_a or not above_b:
            return None
        ends = above_a[0], above_b[0]
        if ends not in self._meeting:
            together = sum(map(operator.eq, reversed(above_a), reversed(above_b)))
            self._meeting[ends] = max(len(above_a), len(above_b)) - together
        ports = 0 if self.host_bridge(a) is None else 1
        return PathKind.PIX if self._meeting[ends] <= ports else PathKind.PXB

    def switches(self, address: PciAddress) -> tuple[PciAddress, ...]:
        """What NCCL sees as the switches above a device, the nearest first, Broadcom's as one."""
        if address not in self._switches:
            self._switches[address] = self._merged(address)
        return self._switches[address]

    def _merged(self, address: PciAddress) -> tuple[PciAddress, ...]:
        above = self.above(address)
        if self.host_bridge(address) is not None:
            above = above[1::2]
        kept: list[PciAddress] = []
        whole: PciAddress | None = None
        for bridge in reversed(above):
            if whole is not None and self._are_one(whole, bridge):
                whole = None
                continue
            kept.append(bridge)
            whole = bridge
        return tuple(reversed(kept))

    def with_effective(self, devices: Iterable[PciDevice]) -> tuple[PciDevice, ...]:
        """The devices with `PciDevice.effective`."""
        return tuple(
            dataclasses.replace(device, effective=self.effective(device.address))
            for device in devices
        )

    def _are_one(self, upper: PciAddress, lower: PciAddress) -> bool:
        upper_device, lower_device = self._devices.get(upper), self._devices.get(lower)
        if upper_device is None or lower_device is None:
            return False
        generation = _broadcom_generation(upper_device, level=0)
        return generation is not None and generation == _broadcom_generation(lower_device, level=1)


def _least(link: PcieLink | None, above: PcieLink) -> PcieLink:
    """The smaller of each; what one of the two does not tell is as the other has it."""
    if link is None or link == above:
        return above
    if above == _NO_LINK:
        return link
    return PcieLink(
        **{name: _lesser(getattr(link, name), getattr(above, name)) for name in _LINK_FIELDS}
    )


def _lesser(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def is_one_card(a: PciAddress, b: PciAddress) -> bool:
    """Whether two addresses are functions of one card, or the same."""
    return a[:-1] == b[:-1]


def _broadcom_generation(device: PciDevice, *, level: int) -> int | None:
    """The PCIe generation of a Broadcom switch that shows itself as two levels.

    Source: getBcmGen in NCCL's src/graph/topo.cc; in generation 5 the subsystem tells the level.
    """
    if device.vendor_id != BROADCOM_LSI or device.subsystem_vendor_id != BROADCOM_LSI:
        return None
    part = (device.subsystem_device_id or 0) & _LOW_BITS
    if device.device_id == _PEX_GEN4 and part == 0xA000:  # noqa: PLR2004  NCCL's figure
        return 4
    return 5 if device.device_id == _PEX_GEN5 and part == level << 12 else None
