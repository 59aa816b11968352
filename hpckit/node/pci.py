"""PCI devices: their addresses, classes and place in the tree.

Sources: pci.ids (classes), the PCI Express Base Specification (link speeds), Linux
Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from hpckit.core.errors import InvalidValue
from hpckit.core.late import regex
from hpckit.core.values import dataclass

PciAddress = NewType("PciAddress", str)
"""`dddd:bb:dd.f` in lower case; a domain above ffff has more digits, as Linux writes it."""

_ADDRESS = regex(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[01][0-9a-f])"
    r"(?:\.(?P<function>[0-7]))?",
    re.ASCII,
)

ADDRESS_EXPECTED: Final = "a PCI address such as 0000:3b:00.0"

CLASS_VGA: Final = 0x0300
CLASS_3D: Final = 0x0302
CLASS_DISPLAY: Final = 0x0380
CLASS_ETHERNET: Final = 0x0200
CLASS_NETWORK: Final = 0x0280
CLASS_INFINIBAND: Final = 0x0207
CLASS_FABRIC: Final = 0x0208
CLASS_OTHER_BRIDGE: Final = 0x0680
CLASS_ACCELERATOR: Final = 0x1200

DEEPEST_TREE: Final = 128
"""Bridges above a device; a PCI domain has 256 buses, and real trees about seven levels."""

PCIE_GT_PER_S: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
"""The rate of a lane by generation, which is also its code in the registers of a link."""

PCIE_WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})
"""Of a link, in lanes; Linux says 0, 63 or 255 where the width is not known."""

GPU_CLASSES: Final = frozenset({CLASS_VGA, CLASS_3D, CLASS_DISPLAY, CLASS_ACCELERATOR})
NIC_CLASSES: Final = frozenset({CLASS_ETHERNET, CLASS_NETWORK, CLASS_INFINIBAND, CLASS_FABRIC})


@lru_cache(maxsize=4096)
def pci_address(text: str) -> PciAddress:
    """An address in its one spelling; `00000000:3B:00.0` (NVML) is `0000:3b:00.0`.

    Without a domain it is 0000, without a function 0. Raises ValueError.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"expected {ADDRESS_EXPECTED}, got {text[:40]!r}")
    domain = int(match["domain"] or "0", 16)
    return PciAddress(f"{domain:04x}:{match['bus']}:{match['device']}.{match['function'] or '0'}")


def address_or_none(text: str) -> PciAddress | None:
    """An address in its one spelling; None for what is none, as drivers write it for unknown."""
    try:
        return pci_address(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """The link above a PCIe device: lanes, and GT/s of each (2.5, 5, 8, 16, 32, 64, 128).

    An idle GPU trains its speed down and keeps its width, so only the width tells of a bad slot.
    `bandwidth_bytes_per_s` is that of all lanes in one direction, where a source tells it (hwloc,
    which tells neither speed nor width).
    """

    speed_gt_per_s: float | None = None
    width: int | None = None
    max_speed_gt_per_s: float | None = None
    max_width: int | None = None
    bandwidth_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """One function on the PCI tree; `parent` is the bridge above it, None at the top.

    `class_code` is 16 bits (base class and subclass), `vendor_id` … are as pci.ids has them.
    `host_bridge` is the root complex, such as `pci0000:40`, where the source names it.
    `numa_index` None is unknown: Linux's -1 is that. `effective` is the narrowest width and the
    slowest speed on the way up to the root.
    """

    address: PciAddress
    parent: PciAddress | None = None
    host_bridge: str | None = None
    class_code: int | None = None
    vendor_id: int | None = None
    device_id: int | None = None
    subsystem_vendor_id: int | None = None
    subsystem_device_id: int | None = None
    name: str | None = None
    driver: str | None = None
    numa_index: int | None = None
    link: PcieLink | None = None
    effective: PcieLink | None = None
    physfn: PciAddress | None = None


def check_tree(devices: Iterable[PciDevice]) -> None:
    """Raises InvalidValue for a tree with a loop, a device twice or below one that comes later."""
    parents = {device.address: device.parent for device in devices}
    depths: dict[PciAddress, int] = {}
    for device in devices:
        parent = device.parent
        if device.address in depths:
            raise InvalidValue("pci", f"{device.address[:40]} twice", "unique addresses")
        if parent is not None and parent in parents and parent not in depths:
            raise InvalidValue("pci", f"{parent[:40]} late", "a bridge before the devices below it")
        depths[device.address] = 0 if parent is None else depths.get(parent, 0) + 1
        if depths[device.address] > DEEPEST_TREE:
            expected = f"at most {DEEPEST_TREE} levels"
            raise InvalidValue("pci", f"more at {device.address[:40]}", expected)
