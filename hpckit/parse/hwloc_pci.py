"""The PCI tree of hwloc's XML.

Source: hwloc, topology-xml.c (how pci_busid, pci_type, bridge_pci are written) and misc.h,
hwloc__pci_link_speed (what pci_link_speed is).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hpckit.model.gpu_ids import NVSWITCH
from hpckit.model.pci import PciAddress, PciDevice, PcieLink
from hpckit.parse.hwloc_numa import Places
from hpckit.parse.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.parse.hwloc_values import decimal, info

_TYPE: Final = re.compile(
    r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\] \[([0-9a-f]{4}):([0-9a-f]{4})\]"
    r" [0-9a-f]{2}(?: [0-9a-f]{2})?",
    re.ASCII | re.IGNORECASE,
)
_GB: Final = 1e9
_BUSES: Final = re.compile(
    r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-([0-9a-f]{2})\]", re.ASCII | re.IGNORECASE
)


class _Ids(NamedTuple):
    class_code: int | None = None
    vendor: int | None = None
    device: int | None = None
    subsystem_vendor: int | None = None
    subsystem_device: int | None = None


def pci_devices(tree: HwlocTree, places: Places) -> tuple[PciDevice, ...]:
    """The PCI functions in the order of the file. Raises ParseError.

    Of a link hwloc keeps speed times width: 15.75 GB/s are 16 lanes at 8 GT/s, or 8 at 16.
    """
    seen: set[PciAddress] = set()
    found: list[PciDevice] = []
    for one in tree.of(Kind.PCI):
        device = _device(tree, places, one)
        if device.address in seen:
            message = f"PCI function {device.address} twice"
            raise tree.document.refuse(one.element, message, "each function once")
        seen.add(device.address)
        found.append(device)
    return tuple(found)


def lost_bridges(tree: HwlocTree) -> tuple[HwlocObject, ...]:
    """The functions that are not on the bus below the bridge that the file puts them under.

    hwloc leaves bridges out unless it was asked for them. Raises ParseError.
    """
    return tuple(one for one in tree.of(Kind.PCI) if _lacks_bridge(tree, one))


def _lacks_bridge(tree: HwlocTree, one: HwlocObject) -> bool:
    parent = one.parent
    if parent is None or parent.element.get("bridge_pci") is None:
        return True
    domain, bus = _bus_below(tree, parent)
    return not tree.address(one).startswith(f"{domain:04x}:{bus:02x}:")


def _device(tree: HwlocTree, places: Places, one: HwlocObject) -> PciDevice:
    speed = decimal(tree.document, one.element, "pci_link_speed")
    above = one.parent.function if one.parent else None
    ids = _ids(tree, one)
    return PciDevice(
        address=tree.address(one),
        parent=tree.address(above) if above else None,
        host_bridge=_host_bridge(tree, one),
        class_code=ids.class_code,
        vendor_id=ids.vendor,
        device_id=ids.device,
        subsystem_vendor_id=ids.subsystem_vendor,
        subsystem_device_id=ids.subsystem_device,
        name=info(one.element, "PCIDevice") or one.name or _nvswitch(one),
        numa_index=places.numa_index(one),
        link=PcieLink(bandwidth_bytes_per_s=speed * _GB) if speed else None,
    )


def _nvswitch(one: HwlocObject) -> str | None:
    """Hwloc has NVML say what an NVSwitch is (topology-nvml.c), also of one without numbers."""
    return NVSWITCH if one.element.get("subtype") == NVSWITCH else None


def _ids(tree: HwlocTree, one: HwlocObject) -> _Ids:
    """The numbers of pci_type; 0000 in place of a vendor is one that was not read."""
    text = one.element.get("pci_type")
    if text is None:
        return _Ids()
    match = _TYPE.fullmatch(text)
    if match is None:
        expected = "class, ids and revision, as 0302 [10de:2335] [10de:18bf] a1"
        raise tree.document.refuse(one.element, f"pci_type is {text[:60]!r}", expected)
    found = _Ids(*(int(digits, 16) for digits in match.groups()))
    if not found.vendor:
        return _Ids()
    return found if found.subsystem_vendor else _Ids(*found[:3])


def _host_bridge(tree: HwlocTree, one: HwlocObject) -> str | None:
    """The root complex; None if a bridge below it is missing, for then so is what shares it."""
    bridge = one.host_bridge
    is_cut_off = one.parent is bridge and _lacks_bridge(tree, one)
    if bridge is None or bridge.element.get("bridge_pci") is None or is_cut_off:
        return None
    domain, bus = _bus_below(tree, bridge)
    return f"pci{domain:04x}:{bus:02x}"


def _bus_below(tree: HwlocTree, bridge: HwlocObject) -> tuple[int, int]:
    text = bridge.element.get("bridge_pci") or ""
    match = _BUSES.fullmatch(text)
    if match is None:
        message = f"bridge_pci is {text[:40]!r}"
        raise tree.document.refuse(bridge.element, message, "domain and buses, as 0000:[50-54]")
    return int(match[1], 16), int(match[2], 16)
