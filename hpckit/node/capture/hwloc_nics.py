"""The network devices of hwloc's XML.

Sources: hwloc, hwloc.h (types of OS devices: numbers up to 2.x, bits from 3.0 on) and
topology-linux.c (what is said of a port); ibverbs, enum ibv_port_state; pci.ids and
Linux's drivers (ids of virtual functions).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from hpckit.core.hostlist import natural_order
from hpckit.core.late import regex
from hpckit.node.capture.hwloc_numa import Places
from hpckit.node.capture.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.node.pci import (
    CLASS_ETHERNET,
    CLASS_FABRIC,
    CLASS_INFINIBAND,
    PciAddress,
    PciDevice,
    PcieLink,
)
from hpckit.node.pci_tree import AMAZON, CRAY, GOOGLE, NVSWITCH, is_virtual_nic
from hpckit.node.topology import ACTIVE, Nic, NicPort, port_state
from hpckit.spec.nic_kind import NicKind

_BITS_SINCE: Final = 3
# As numbers; as bits they are two higher.
_NETWORK: Final = 2
_OPENFABRICS: Final = 3

_STATES: Final = {
    "1": "DOWN",
    "2": "INIT",
    "3": "ARMED",
    "4": ACTIVE,
    "5": "ACTIVE_DEFER",
}
_MOST_PORTS: Final = 64
_LID: Final = regex(r"0x[0-9a-f]{1,8}|\d{1,9}", re.ASCII | re.IGNORECASE)
_NOTHING: Final = regex(r"[0:.x-]*")
_INFINIBAND_BYTES: Final = 20

_LAYERS: Final = {
    NicKind.INFINIBAND: "InfiniBand",
    NicKind.ROCE: "Ethernet",
    NicKind.ETHERNET: "Ethernet",
}

# Chelsio speaks iWARP, Cisco usNIC through the same interface.
_NO_ROCE: Final = frozenset({0x1425, 0x1137})


def nics(tree: HwlocTree, places: Places, pci: tuple[PciDevice, ...]) -> tuple[Nic, ...]:
    """The network devices: those for RDMA first, each group by name with its numbers in order.

    The netdevs of a PCI function belong to its RDMA device, or are devices of their own. hwloc
    records no rates. Raises ParseError.
    """
    functions = dict(zip((id(one) for one in tree.of(Kind.PCI)), pci, strict=True))
    groups: dict[int, list[HwlocObject]] = {}
    for one in tree.of(Kind.OS):
        if one.name not in {"", "lo"} and _is_of_type(tree, one, _NETWORK, _OPENFABRICS):
            groups.setdefault(id(one.card or one), []).append(one)
    found = [
        nic
        for group in groups.values()
        for nic in _of_function(tree, places, functions.get(id(group[0].card)), group)
    ]
    found.sort(key=lambda nic: (nic.kind is NicKind.ETHERNET, natural_order(nic.name)))
    return tuple(replace(nic, index=index) for index, nic in enumerate(found))


def _of_function(
    tree: HwlocTree, places: Places, device: PciDevice | None, group: list[HwlocObject]
) -> Iterable[Nic]:
    rdma = [one for one in group if _is_rdma(tree, one)]
    netdevs = [one for one in group if one not in rdma]
    for at, one in enumerate(rdma):
        yield _nic(tree, places, device, one, netdevs if at == 0 else [])
    for one in () if rdma else netdevs:
        yield _nic(tree, places, device, one, [one])


def _nic(
    tree: HwlocTree,
    places: Places,
    device: PciDevice | None,
    one: HwlocObject,
    netdevs: Sequence[HwlocObject],
) -> Nic:
    ports = _ports(one)
    kind = _kind(tree, device, one, netdevs)
    return Nic(
        index=0,
        name=one.name,
        kind=kind,
        pci=device.address if device else None,
        numa_index=places.of(one).numa_index,
        state=port_state(ports),
        link_layer=_LAYERS.get(kind) if kind else None,
        ports=ports,
        netdevs=tuple(sorted((netdev.name for netdev in netdevs), key=natural_order)),
        guid=_said(one, "NodeGUID"),
        bond=one.name if "_bond_" in one.name else None,
        is_virtual=_is_virtual(device),
    )


def _ports(one: HwlocObject) -> tuple[NicPort, ...]:
    found: list[NicPort] = []
    for number in range(1, _MOST_PORTS + 1):
        text = one.info(f"Port{number}State")
        if text is None:
            break
        if text not in _STATES:
            message = f"Port{number}State is {text[:20]!r}"
            raise one.refuse(message, "1 (down) to 5, as in ibverbs")
        found.append(NicPort(index=number, state=_STATES[text]))
    return tuple(found)


def _kind(
    tree: HwlocTree, device: PciDevice | None, one: HwlocObject, netdevs: Sequence[HwlocObject]
) -> NicKind | None:
    vendor = device.vendor_id if device else None
    if one.get("subtype") == "Slingshot" or vendor == CRAY:
        return NicKind.SLINGSHOT
    is_rdma = _is_rdma(tree, one)
    if is_rdma and vendor == AMAZON:
        return NicKind.EFA
    if _is_infiniband(device, one, netdevs):
        return NicKind.INFINIBAND
    if not is_rdma:
        return NicKind.GVNIC if vendor == GOOGLE else NicKind.ETHERNET
    is_ethernet = device is not None and device.class_code == CLASS_ETHERNET
    return NicKind.ROCE if is_ethernet and vendor not in _NO_ROCE else None


def _is_infiniband(
    device: PciDevice | None, one: HwlocObject, netdevs: Sequence[HwlocObject]
) -> bool:
    """Whether it has a LID, a netdev with a hardware address of 20 bytes, or the PCI class."""
    if device and device.class_code in {CLASS_INFINIBAND, CLASS_FABRIC}:
        return True
    addresses = [netdev.info("Address") or "" for netdev in netdevs]
    return _lid(one) > 0 or any(len(text.split(":")) == _INFINIBAND_BYTES for text in addresses)


def _lid(one: HwlocObject) -> int:
    text = one.info("Port1LID") or "0"
    return int(text, 16 if text[:2].lower() == "0x" else 10) if _LID.fullmatch(text) else 0


def _is_virtual(device: PciDevice | None) -> bool | None:
    """Whether pci.ids has it as a virtual function; the file itself does not tell."""
    if device is None:
        return None
    return True if is_virtual_nic(device) or "Virtual Function" in (device.name or "") else None


def _said(one: HwlocObject, name: str) -> str | None:
    text = one.info(name)
    return None if text is None or _NOTHING.fullmatch(text) else text


def _is_rdma(tree: HwlocTree, one: HwlocObject) -> bool:
    # cxi and bxi are classes of their own: no netdevs, and no ibverbs.
    return one.name.startswith(("cxi", "bxi")) or _is_of_type(tree, one, _OPENFABRICS)


def _is_of_type(tree: HwlocTree, one: HwlocObject, *types: int) -> bool:
    number = one.whole("osdev_type") or 0
    if tree.major >= _BITS_SINCE:
        return any(number & 1 << kind + 2 for kind in types)
    return number in types


# Source: hwloc, topology-xml.c (how pci_busid, pci_type, bridge_pci are written) and misc.h,
# hwloc__pci_link_speed (what pci_link_speed is).
_TYPE: Final = regex(
    r"(?P<class_code>[0-9a-f]{4}) \[(?P<vendor_id>[0-9a-f]{4}):(?P<device_id>[0-9a-f]{4})\]"
    r" \[(?P<subsystem_vendor_id>[0-9a-f]{4}):(?P<subsystem_device_id>[0-9a-f]{4})\]"
    r" [0-9a-f]{2}(?: [0-9a-f]{2})?",
    re.ASCII | re.IGNORECASE,
)
_GB: Final = 1e9
_BUSES: Final = regex(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-([0-9a-f]{2})\]", re.ASCII | re.IGNORECASE)


def pci_devices(tree: HwlocTree, places: Places) -> tuple[PciDevice, ...]:
    """The PCI functions in the order of the file. Raises ParseError.

    Of a link hwloc keeps speed times width: 15.75 GB/s are 16 lanes at 8 GT/s, or 8 at 16.
    """
    found: dict[PciAddress, PciDevice] = {}
    for one in tree.of(Kind.PCI):
        device = _device(places, one)
        if device.address in found:
            raise one.refuse(f"PCI function {device.address} twice", "each function once")
        found[device.address] = device
    return tuple(found.values())


def lacks_bridge(one: HwlocObject) -> bool:
    """Whether a function is not on the bus below the bridge that the file puts it under.

    hwloc leaves bridges out unless it was asked for them. Raises ParseError.
    """
    parent = one.parent
    if parent is None or parent.get("bridge_pci") is None:
        return True
    domain, bus = _bus_below(parent)
    return not one.address().startswith(f"{domain:04x}:{bus:02x}:")


def _device(places: Places, one: HwlocObject) -> PciDevice:
    speed = one.decimal("pci_link_speed")
    above = one.parent.function if one.parent else None
    return PciDevice(
        address=one.address(),
        parent=above.address() if above else None,
        host_bridge=_host_bridge(one),
        **_ids(one),
        # NVML says what an NVSwitch is (topology-nvml.c), also of one without numbers.
        name=one.info("PCIDevice")
        or one.name
        or (NVSWITCH if one.get("subtype") == NVSWITCH else None),
        numa_index=places.of(one).numa_index,
        link=PcieLink(bandwidth_bytes_per_s=speed * _GB) if speed else None,
    )


def _ids(one: HwlocObject) -> dict[str, Any]:
    """The numbers of pci_type by their fields; a vendor of 0000 is one that was not read."""
    text = one.get("pci_type")
    if text is None:
        return {}
    match = _TYPE.fullmatch(text)
    if match is None:
        expected = "class, IDs and revision, such as 0302 [10de:2335] [10de:18bf] a1"
        raise one.refuse_value("pci_type", expected)
    found = {field: int(digits, 16) for field, digits in match.groupdict().items()}
    if not found["vendor_id"]:
        return {}
    is_card = found["subsystem_vendor_id"] > 0
    return {field: number for field, number in found.items() if is_card or "subsys" not in field}


def _host_bridge(one: HwlocObject) -> str | None:
    """The root complex; None if a bridge below it is missing, for then so is what shares it."""
    bridge = one.host_bridge
    is_cut_off = one.parent is bridge and lacks_bridge(one)
    if bridge is None or bridge.get("bridge_pci") is None or is_cut_off:
        return None
    domain, bus = _bus_below(bridge)
    return f"pci{domain:04x}:{bus:02x}"


def _bus_below(bridge: HwlocObject) -> tuple[int, int]:
    text = bridge.get("bridge_pci") or ""
    match = _BUSES.fullmatch(text)
    if match is None:
        raise bridge.refuse_value("bridge_pci", "domain and buses, such as 0000:[50-54]")
    return int(match[1], 16), int(match[2], 16)
