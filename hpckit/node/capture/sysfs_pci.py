"""The PCI tree from /sys/bus/pci/devices and /sys/devices/pci*.

A device's parents are the folders on the way to it. Sources: Linux Documentation/ABI/testing/
sysfs-bus-pci; drivers/pci/pci-sysfs.c (uevent, link speed and width).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from hpckit.core.index_list import IndexList, index_list
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.node.capture.sysfs import SysfsTree, printable
from hpckit.node.capture.sysfs_cpu import GPUS, gpu_numa
from hpckit.node.pci import (
    CLASS_ACCELERATOR,
    PCIE_GT_PER_S,
    PCIE_WIDTHS,
    PciAddress,
    PciDevice,
    PcieLink,
    address_or_none,
    pci_address,
)
from hpckit.node.pci_tree import AMAZON, GOOGLE, HABANA, gpu_vendor
from hpckit.node.topology import Accelerator, Gpu, GpuUuid, GpuVendor, NumaNode, Unknown

# Sources: PCI Local Bus Specification 3.0, 6.1 (header); PCI-to-PCI Bridge Architecture
# Specification 1.2, 3.2 (bus numbers); PCI Express Base Specification, 7.5.3 (link registers);
# Linux include/uapi/linux/pci_regs.h.
_HEADER_BYTES: Final = 64
_STATUS: Final = 0x06
_HAS_CAPABILITIES: Final = 0x10
_HEADER_TYPE: Final = 0x0E
_BRIDGE: Final = 1
_FIRST_CAPABILITY: Final = 0x34
_PCI_EXPRESS: Final = 0x10
_LINK_CAPABILITIES: Final = 0x0C
_LINK_STATUS: Final = 0x12
_MOST_CAPABILITIES: Final = 48
_NO_DEVICE: Final = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class PciConfig:
    """A device's header: the numbers of a PciDevice, and the buses below a bridge."""

    numbers: dict[str, int]
    buses: tuple[int, int] | None
    link: PcieLink | None


def parse_pci_config(text: str) -> PciConfig | None:
    """The header of a `config` file that was read as text; None for less than one."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) < _HEADER_BYTES or _word(data, 0) == _NO_DEVICE:
        return None
    is_bridge = data[_HEADER_TYPE] & 0x7F == _BRIDGE
    places = {"vendor_id": 0, "device_id": 2, "class_code": 0x0A}
    if not is_bridge:
        places |= {"subsystem_vendor_id": 0x2C, "subsystem_device_id": 0x2E}
    return PciConfig(
        numbers={name: _word(data, at) for name, at in places.items()},
        buses=(data[0x19], data[0x1A]) if is_bridge and data[0x19] else None,
        link=_config_link(data),
    )


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _config_link(data: bytes) -> PcieLink | None:
    if not _word(data, _STATUS) & _HAS_CAPABILITIES:
        return None
    at = data[_FIRST_CAPABILITY] & ~3
    for _ in range(_MOST_CAPABILITIES):
        if at < _HEADER_BYTES or at + _LINK_STATUS + 2 > len(data):
            return None
        if data[at] == _PCI_EXPRESS:
            most, now = _word(data, at + _LINK_CAPABILITIES), _word(data, at + _LINK_STATUS)
            link = PcieLink(
                speed_gt_per_s=PCIE_GT_PER_S.get(now & 0xF),
                width=_config_width(now),
                max_speed_gt_per_s=PCIE_GT_PER_S.get(most & 0xF),
                max_width=_config_width(most),
            )
            return None if link == PcieLink() else link
        at = data[at + 1] & ~3
    return None


def _config_width(register: int) -> int | None:
    lanes = register >> 4 & 0x3F
    return lanes if lanes in PCIE_WIDTHS else None


DEVICES: Final = "sys/bus/pci/devices"

_ADDRESS: Final = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.ASCII)
_ROOT: Final = regex(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
_SPEED: Final = regex(r"(\d{1,4}(?:\.\d{1,3})?) ?GT/s(?: PCIe)?", re.ASCII)
_LANES: Final = regex(r"\d{1,3}", re.ASCII)
_HEX: Final = regex(r"(?:0x)?([0-9a-fA-F]{1,8})", re.ASCII)
_DEEPEST: Final = 64
_PAGE: Final = 4096
"""As long as a file of sysfs is at most (Linux, Documentation/filesystems/sysfs.rst)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    address: PciAddress
    folder: str
    parent: PciAddress | None
    host_bridge: str | None


def parse_pci(tree: SysfsTree, numa: Iterable[NumaNode]) -> tuple[PciDevice, ...]:
    """The devices in the order of a walk through the tree. Raises ParseError."""
    places = _places(tree)
    configs = {
        address: parse_pci_config(tree.text(f"{place.folder}/config") or "")
        for address, place in places.items()
    }
    parents, by_cpus = _parents(places, configs), _by_cpus(numa)
    devices = {
        address: _device(tree, place, configs[address], parents[address], by_cpus)
        for address, place in places.items()
    }
    return _walk(tree, devices)


def address_in(path: str) -> PciAddress | None:
    """The PCI device that something in /sys/devices belongs to: the last on the way to it.

    None for what has no such folder above it, or hangs on a bus below it, as USB devices do.
    """
    found = None
    for part in path.split("/"):
        if _ADDRESS.fullmatch(part):
            found = part
        elif part.startswith("usb"):
            found = None
    return pci_address(found) if found else None


def sort_key(address: PciAddress) -> tuple[int, ...]:
    """Orders addresses as numbers: domain, bus, device, function."""
    return tuple(int(part, 16) for part in re.split("[:.]", address))


def _places(tree: SysfsTree) -> dict[PciAddress, _Place]:
    """Every device that is listed, and the bridges that only the way to one names."""
    folders = {
        pci_address(name): f"{DEVICES}/{name}"
        for name in tree.names(DEVICES)
        if _ADDRESS.fullmatch(name)
    }
    folders = folders or _below_roots(tree)
    ways = [_way(tree.real(folder).rpartition("/")[0])[0] for folder in folders.values()]
    bridges = {address: folder for way in reversed(ways) for address, folder in way}
    found = {}
    for address, folder in (folders | bridges | folders).items():
        devices, host_bridge = _way(tree.real(folder).rpartition("/")[0])
        parent = devices[-1][0] if devices else None
        place = _Place(address=address, folder=folder, parent=parent, host_bridge=host_bridge)
        found[address] = place
    return found


def _below_roots(tree: SysfsTree) -> dict[PciAddress, str]:
    found = {}
    roots = (f"sys/devices/{name}" for name in tree.names("sys/devices"))
    stack = [root for root in roots if _ROOT.fullmatch(root.rpartition("/")[2])]
    while stack:
        folder = stack.pop()
        for name in tree.names(folder) if folder.count("/") < _DEEPEST else ():
            if _ADDRESS.fullmatch(name):
                found[pci_address(name)] = f"{folder}/{name}"
                stack.append(f"{folder}/{name}")
    return found


@lru_cache(maxsize=4096)
def _way(folder: str) -> tuple[tuple[tuple[PciAddress, str], ...], str | None]:
    """The PCI devices on the way down to a folder, each with its own, and the root complex."""
    devices, host_bridge, parts = [], None, folder.split("/")
    for at, part in enumerate(parts, 1):
        if _ADDRESS.fullmatch(part):
            devices.append((pci_address(part), "/".join(parts[:at])))
        elif _ROOT.fullmatch(part):
            host_bridge = part
    return tuple(devices), host_bridge


def _device(
    tree: SysfsTree,
    place: _Place,
    config: PciConfig | None,
    parent: PciAddress | None,
    by_cpus: Mapping[IndexList, int],
) -> PciDevice:
    folder = place.folder
    event = _event(tree, folder)
    driver = tree.linked_name(f"{folder}/driver") or event.get("DRIVER")
    physfn = tree.linked_name(f"{folder}/physfn")
    return PciDevice(
        address=place.address,
        parent=parent,
        host_bridge=place.host_bridge,
        **_numbers(tree, folder, event, config),
        driver=printable(driver) if driver else None,
        numa_index=_numa(tree, folder, by_cpus),
        link=_link(tree, folder) or (config.link if config else None),
        physfn=pci_address(physfn) if physfn and _ADDRESS.fullmatch(physfn) else None,
    )


def _event(tree: SysfsTree, folder: str) -> Mapping[str, str]:
    lines = (tree.text(f"{folder}/uevent") or "")[:_PAGE].split("\n")
    return {
        key: value.strip() for key, equals, value in (x.partition("=") for x in lines) if equals
    }


_FILES: Final = ("vendor", "device", "subsystem_vendor", "subsystem_device")


def _numbers(
    tree: SysfsTree, folder: str, event: Mapping[str, str], config: PciConfig | None
) -> dict[str, Any]:
    """The numbers of a PciDevice: of its event, else of a file each, else of its header."""
    if "PCI_ID" in event:
        path = f"{folder}/uevent"
        words = [event["PCI_ID"].partition(":"), event.get("PCI_SUBSYS_ID", "0:0").partition(":")]
        ids = [_hexadecimal(tree, path, word) for a, _, b in words for word in (a, b)]
        found = {f"{name}_id": number for name, number in zip(_FILES, ids, strict=True)}
    else:
        lines = {name: tree.line(f"{folder}/{name}") for name in _FILES}
        found = {
            f"{name}_id": _hexadecimal(tree, f"{folder}/{name}", line)
            for name, line in lines.items()
            if line is not None
        }
    # Base class and subclass: what is written has the programming interface below them.
    code = event.get("PCI_CLASS") or tree.line(f"{folder}/class")
    if code is not None:
        found["class_code"] = _hexadecimal(tree, f"{folder}/class", code) >> 8
    if config is not None:
        of_header = config.numbers if "vendor_id" not in found else {}
        found = {"class_code": config.numbers["class_code"]} | of_header | found
    return {name: number for name, number in found.items() if number or "subsystem" not in name}


def _hexadecimal(tree: SysfsTree, path: str, text: str) -> int:
    match = _HEX.fullmatch(text)
    if match is None:
        raise tree.refuse(path, text, "a hexadecimal number such as 0x030200")
    return int(match[1], 16)


def _link(tree: SysfsTree, folder: str) -> PcieLink | None:
    """Width 0, 63 and 255 and a speed of "Unknown" are what Linux writes where there is none."""
    link = PcieLink(
        speed_gt_per_s=_speed(tree.line(f"{folder}/current_link_speed")),
        width=_width(tree.line(f"{folder}/current_link_width")),
        max_speed_gt_per_s=_speed(tree.line(f"{folder}/max_link_speed")),
        max_width=_width(tree.line(f"{folder}/max_link_width")),
    )
    return None if link == PcieLink() else link


def _speed(line: str | None) -> float | None:
    match = _SPEED.fullmatch(line) if line else None
    return float(match[1]) or None if match else None


def _width(line: str | None) -> int | None:
    lanes = int(line) if line and _LANES.fullmatch(line) else 0
    return lanes if lanes in PCIE_WIDTHS else None


def _by_cpus(numa: Iterable[NumaNode]) -> dict[IndexList, int]:
    """NUMA nodes by their CPUs, where there is more than one node with CPUs."""
    found = {node.cpus: node.index for node in numa if node.cpus}
    return found if len(found) > 1 else {}


def _numa(tree: SysfsTree, folder: str, by_cpus: Mapping[IndexList, int]) -> int | None:
    """-1 is unknown; old kernels write it also where the local CPUs are those of one node."""
    index = tree.integer(f"{folder}/numa_node")
    if index is not None and index >= 0:
        return index
    local = tree.indices(f"{folder}/local_cpulist") or tree.mask(f"{folder}/local_cpus")
    return by_cpus.get(index_list(local)) if local else None


def _parents(
    places: Mapping[PciAddress, _Place], configs: Mapping[PciAddress, PciConfig | None]
) -> dict[PciAddress, PciAddress | None]:
    """The bridges above, by their bus numbers where no folder tells of them."""
    below: dict[tuple[str, int], PciAddress] = {}
    for address, config in configs.items():
        if config is None or config.buses is None:
            continue
        domain, bus, _ = address.split(":")
        # A bridge's own bus has the smaller number, which rules out circles.
        if config.buses[0] > int(bus, 16):
            below.setdefault((domain, config.buses[0]), address)
    found: dict[PciAddress, PciAddress | None] = {}
    for address, place in places.items():
        domain, bus, _ = address.split(":")
        is_told = place.parent or place.host_bridge
        found[address] = place.parent if is_told else below.get((domain, int(bus, 16)))
    return found


def _walk(tree: SysfsTree, devices: Mapping[PciAddress, PciDevice]) -> tuple[PciDevice, ...]:
    below: dict[PciAddress | None, list[PciAddress]] = {}
    for address, device in devices.items():
        parent = device.parent if device.parent in devices else None
        below.setdefault(parent, []).append(address)
    for addresses in below.values():
        addresses.sort(key=sort_key, reverse=True)
    found: dict[PciAddress, PciDevice] = {}
    stack = below.get(None, [])
    while stack:
        address = stack.pop()
        found[address] = devices[address]
        stack.extend(below.get(address, ()))
    lost = next((address for address in devices if address not in found), None)
    if lost is not None:
        raise tree.refuse(f"{DEVICES}/{lost}", lost, "a device below a root, not below itself")
    return tuple(found.values())


# Sources: pci.ids (vendors, classes); habanalabs_drv.c (Gaudi), neuron_pci.c of aws-neuronx-dkms
# (Inferentia, Trainium), jax/_src/hardware_utils.py (TPU); /proc/driver/nvidia of NVIDIA's README.
_ACCELERATORS: Final[Mapping[int, Mapping[int, str]]] = {
    HABANA: {
        0x0001: "Goya",
        **dict.fromkeys((0x1000, 0x1001, 0x1010, 0x1011), "Gaudi"),
        **dict.fromkeys((0x1020, 0x1021), "Gaudi2"),
        **dict.fromkeys((0x1060, 0x1062, 0x1063), "Gaudi3"),
    },
    AMAZON: {
        **dict.fromkeys(range(0x7064, 0x7068), "Inferentia"),
        0x7164: "Trainium",
        0x7264: "Inferentia2",
        0x7364: "Trainium2",
        **dict.fromkeys((0x7564, 0x7565), "Trainium3"),
    },
    GOOGLE: {
        0x0027: "TPU v2 or v3",
        0x005E: "TPU v4",
        0x0062: "TPU v5p",
        0x0063: "TPU v5e",
        0x006F: "TPU v6e",
    },
}
_FAMILIES: Final = {0x1DA3: "Gaudi"}
_DRIVERS: Final = {"habanalabs": "Gaudi", "neuron": "Neuron", "neuron-driver": "Neuron"}

_INFORMATION: Final = regex(r"^([^:\n]{1,40}):[ \t]*([^\n]*?)[ \t\r]*$", re.MULTILINE)
_UUID: Final = regex(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)

_ORDER: Final = "numbered by PCI address: the driver's order is not in sysfs"
NO_NUMA: Final = "the firmware or VM reports none (numa_node is -1 or absent)"


def parse_gpus(
    tree: SysfsTree, pci: Iterable[PciDevice], numa: Iterable[NumaNode]
) -> tuple[tuple[Gpu, ...], tuple[Unknown, ...]]:
    """The GPUs by PCI address, and what of them is not known.

    A virtual function of a GPU that is there itself is not counted.
    """
    devices = {device.address: device for device in pci}
    cpus = {node.index: node.cpus for node in numa}
    told = _told_by_driver(tree)
    own_numa = {address_or_none(name): index for name, index in gpu_numa(tree).items()}
    vendors = {
        address: GpuVendor.NVIDIA if address in told else gpu_vendor(device)
        for address, device in devices.items()
        if device.physfn not in devices
    }
    found = [devices[address] for address in sorted(vendors, key=sort_key) if vendors[address]]
    gpus = tuple(
        Gpu(
            index=index,
            name=told.get(device.address, {}).get("Model"),
            vendor=vendors[device.address],
            pci=device.address,
            uuid=_uuid(told.get(device.address, {})),
            numa_index=device.numa_index,
            own_numa_index=own_numa.get(device.address),
            cpus=None if device.numa_index is None else cpus.get(device.numa_index),
        )
        for index, device in enumerate(found)
    )
    return gpus, tuple(_unknown(gpus))


def parse_accelerators(pci: Iterable[PciDevice]) -> tuple[Accelerator, ...]:
    """Devices for computing that are no GPUs, by PCI address."""
    named = [(device, name) for device in pci if (name := _accelerator_name(device))]
    named.sort(key=lambda one: sort_key(one[0].address))
    return tuple(
        Accelerator(
            index=index,
            name=name,
            pci=device.address,
            driver=device.driver,
            numa_index=device.numa_index,
        )
        for index, (device, name) in enumerate(named)
    )


def _accelerator_name(device: PciDevice) -> str | None:
    vendor, model = device.vendor_id or 0, device.device_id or 0
    known = _ACCELERATORS.get(vendor, {}).get(model) or _DRIVERS.get(device.driver or "")
    if known:
        return known
    if device.class_code != CLASS_ACCELERATOR or gpu_vendor(device):
        return None
    return _FAMILIES.get(vendor) or f"{vendor:04x}:{model:04x}"


def _told_by_driver(tree: SysfsTree) -> dict[PciAddress | None, Mapping[str, str]]:
    found: dict[PciAddress | None, Mapping[str, str]] = {}
    for name in tree.names(GPUS):
        text = tree.text(f"{GPUS}/{name}/information") or ""
        pairs = _INFORMATION.findall(text)
        found[address_or_none(name)] = {
            key.strip(): printable(value) for key, value in pairs if value
        }
    return found


def _uuid(told: Mapping[str, str]) -> GpuUuid | None:
    """Question marks stand in it until the GPU was first used."""
    uuid = told.get("GPU UUID", "")
    return GpuUuid(uuid) if _UUID.fullmatch(uuid) else None


def _unknown(gpus: tuple[Gpu, ...]) -> Iterator[Unknown]:
    if gpus:
        yield Unknown("GPUs", "index", _ORDER)
    if any(gpu.name is None for gpu in gpus):
        yield Unknown("GPUs", "name", "sysfs has PCI IDs, not names")
    if any(gpu.vendor is GpuVendor.NVIDIA for gpu in gpus):
        yield Unknown("GPUs", "nvlinks", "only NVML reports them")
    for gpu in gpus:
        if gpu.numa_index is None:
            yield Unknown(f"GPU{gpu.index}", "numa_index", NO_NUMA)
