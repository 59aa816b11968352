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
import re
from collections.abc import Iterable, Set
from typing import Final, TypeVar

from hpckit.core.late import regex
from hpckit.node.path import PathKind
from hpckit.node.pci import (
    CLASS_ACCELERATOR,
    CLASS_OTHER_BRIDGE,
    GPU_CLASSES,
    PciAddress,
    PciDevice,
    PcieLink,
)
from hpckit.node.topology import GpuVendor

# Makers of PCI devices by number. Source: pci.ids.
AMAZON: Final = 0x1D0F
AMD: Final = 0x1002
BROADCOM: Final = 0x14E4
BROADCOM_LSI: Final = 0x1000
"""Whose PCIe switches bear the number of LSI."""
CRAY: Final = 0x17DB
GOOGLE: Final = 0x1AE0
HABANA: Final = 0x1DA3
INTEL: Final = 0x8086
MELLANOX: Final = 0x15B3
MICROSOFT: Final = 0x1414
NVIDIA: Final = 0x10DE
PENSANDO: Final = 0x1DD8


Number = TypeVar("Number", int, float)

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
        """The bridges above a device, the nearest first."""
        if address not in self._above:
            chain: list[PciAddress] = []
            at = self._devices.get(address)
            while at is not None and at.parent is not None:
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

    def _are_one(self, upper: PciAddress, lower: PciAddress) -> bool:
        upper_device, lower_device = self._devices.get(upper), self._devices.get(lower)
        if upper_device is None or lower_device is None:
            return False
        generation = _broadcom_generation(upper_device, level=0)
        return generation is not None and generation == _broadcom_generation(lower_device, level=1)


def _least(link: PcieLink | None, above: PcieLink) -> PcieLink:
    if link is None or link == above:
        return above
    if above == _NO_LINK:
        return link
    return PcieLink(
        **{name: lesser(getattr(link, name), getattr(above, name)) for name in _LINK_FIELDS}
    )


def lesser(one: Number | None, other: Number | None) -> Number | None:
    """The smaller of two numbers of which either may be unknown."""
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


# Which PCI functions are GPUs to compute on, or NVSwitches. Source: pci.ids.
GPU_VENDORS: Final = {NVIDIA: GpuVendor.NVIDIA, AMD: GpuVendor.AMD, INTEL: GpuVendor.INTEL}
"""The makers of GPUs by PCI vendor."""

NVSWITCH: Final = "NVSwitch"
"""What hwloc calls one, by which it is known where its numbers could not be read."""

# Rage XL, RV100 and ES1000: the graphics of servers before 2015.
_AMD_SERVER_GRAPHICS: Final = frozenset({0x4752, 0x5159, 0x515E, 0x5969})

# Where Intel's graphics within a CPU are, and their virtual functions (i915, intel_vgpu).
_INTEL_INTEGRATED: Final = regex(r"0000:00:02\.[0-7]", re.ASCII)


def gpu_vendor(device: PciDevice) -> GpuVendor | None:
    """Who made it, if it is a GPU: a server's own display is none, nor is Intel's class 1200."""
    vendor = GPU_VENDORS.get(device.vendor_id or 0)
    if device.class_code not in GPU_CLASSES:
        return None
    if vendor is GpuVendor.AMD and device.device_id in _AMD_SERVER_GRAPHICS:
        return None
    is_integrated = _INTEL_INTEGRATED.fullmatch(device.address) is not None
    if vendor is GpuVendor.INTEL and (device.class_code == CLASS_ACCELERATOR or is_integrated):
        return None
    return vendor


def is_nvswitch(device: PciDevice) -> bool:
    """Whether a device is a switch between GPUs: the one bridge of NVIDIA's that is none of PCI."""
    is_bridge = device.class_code == CLASS_OTHER_BRIDGE and device.vendor_id == NVIDIA
    return is_bridge or device.name == NVSWITCH


# What the numbers and drivers of PCI functions tell of NICs. Source: pci.ids.
CXI_DRIVERS: Final = frozenset({"cxi_core", "cxi_ss1", "cxi_eth"})
"""Those of Slingshot."""

_EFA: Final = range(0xEFA0, 0xEFB0)

# Of the drivers mlx4, mlx5; igbvf, ixgbevf, iavf, idpf, fm10k; bnxt_en; ionic; mana.
_VIRTUAL: Final = {
    MELLANOX: frozenset(
        {0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E, 0xA2D3}
    ),
    INTEL: frozenset(
        {0x10CA, 0x1520, 0x152D, 0x152F, 0x10ED, 0x1515, 0x1565, 0x15A8, 0x15C5, 0x152E, 0x1530}
        | {0x1564, 0x15A9, 0x15B4, 0x57AD, 0x154C, 0x1571, 0x37CD, 0x37D9, 0x1889, 0x145C}
        | {0x15A5}
    ),
    BROADCOM: frozenset(
        {0x1606, 0x1607, 0x1608, 0x1609, 0x16BD, 0x16C1, 0x16C2, 0x16C3, 0x16C4, 0x16C5, 0x16CB}
        | {0x16D3, 0x16DC, 0x16E1, 0x16E5, 0x16E6, 0x1806, 0x1807, 0x1808, 0x1809, 0x1819}
        | {0x181B, 0xD800}
    ),
    PENSANDO: frozenset({0x1003}),
    MICROSOFT: frozenset({0x00BA}),
}


def is_efa(device: PciDevice) -> bool:
    """Whether it is Amazon's Elastic Fabric Adapter."""
    return device.vendor_id == AMAZON and device.device_id in _EFA


def is_virtual_nic(device: PciDevice) -> bool:
    """Whether its number is one of virtual functions, which a guest sees without the physical."""
    return device.device_id in _VIRTUAL.get(device.vendor_id or 0, ())
