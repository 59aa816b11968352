"""NICs of a node from /sys/class: RDMA devices first, then Slingshot, then plain network devices.

Sources: Linux Documentation/ABI/testing/sysfs-class-net; drivers/net/ethernet (names of drivers);
pci.ids (virtual functions of ConnectX).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from hpckit.core.hostlist import natural_order
from hpckit.core.late import regex
from hpckit.node.capture.sysfs import SysfsTree, printable
from hpckit.node.capture.sysfs_pci import NO_NUMA, address_in
from hpckit.node.pci import PciAddress, PciDevice, pci_address
from hpckit.node.pci_tree import CXI_DRIVERS, is_virtual_nic
from hpckit.node.topology import ACTIVE, Nic, NicPort, Unknown, is_down, port_state
from hpckit.spec.nic_kind import NicKind

# Source: Linux Documentation/ABI/stable/sysfs-class-infiniband.
_PORT: Final = regex(r"\d{1,4}", re.ASCII)
_STATE: Final = regex(r"\d{1,2}: ?([A-Za-z_ ]{1,40})", re.ASCII)
_RATE: Final = regex(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec(?: \([^()]{1,40}\))?", re.ASCII)
_GUID: Final = regex(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}", re.ASCII)
_SLOT: Final = regex(r"^PCI_SLOT_NAME=([0-9a-f:]{7,15}\.[0-7])\s*$", re.MULTILINE | re.ASCII)
_NO_GUID: Final = "0000:0000:0000:0000"
_EFA_NAME: Final = regex(r"efa_\d+", re.ASCII)
_RNIC: Final = "RNIC"
_GIGABITS, _MEGABITS = 1e9 / 8, 1e6 / 8


def infiniband_nics(tree: SysfsTree, root: str) -> tuple[Nic, ...]:
    """The devices below `root`, a folder such as `sys/class/infiniband`, as people count them.

    What a port's rate or state says in words of its own is kept as the word, or None. Devices of
    software are left out. Raises ParseError for what is not a device's folder.
    """
    # rxe and siw name the netdev that they run over; a device of hardware has no such file.
    names = [name for name in tree.names(root) if not tree.has(f"{root}/{name}/parent")]
    return tuple(_nic(tree, f"{root}/{name}", name, index) for index, name in enumerate(names))


def _nic(tree: SysfsTree, folder: str, name: str, index: int) -> Nic:
    ports = tuple(_ports(tree, f"{folder}/ports"))
    layers = {port.link_layer for port in ports if port.link_layer}
    driver = tree.linked_name(f"{folder}/device/driver")
    guid = tree.line(f"{folder}/node_guid")
    return Nic(
        index=index,
        name=printable(name),
        kind=_kind(tree, folder, name, driver, layers),
        pci=device_address(tree, folder),
        state=port_state(ports),
        rate_bytes_per_s=_rate(ports),
        link_layer=layers.pop() if len(layers) == 1 else None,
        ports=ports,
        guid=guid if guid and _GUID.fullmatch(guid) and guid != _NO_GUID else None,
        driver=driver,
        firmware=tree.word(f"{folder}/fw_ver"),
        bond=printable(name) if "_bond_" in name else None,
        physfn=physical_function(tree, folder),
    )


def device_address(tree: SysfsTree, folder: str) -> PciAddress | None:
    """The PCI address of what a folder of /sys/class is about."""
    device = tree.link(f"{folder}/device")
    found = address_in(tree.real(folder)) or (address_in(device) if device else None)
    if found is not None:
        return found
    # An archive whose links were followed has the device's files in the link's place.
    slot = _SLOT.search(tree.text(f"{folder}/device/uevent") or "")
    return pci_address(slot[1]) if slot else None


def physical_function(tree: SysfsTree, folder: str) -> PciAddress | None:
    """The physical function that a virtual one was made from."""
    found = tree.link(f"{folder}/device/physfn")
    return address_in(found) if found else None


def _ports(tree: SysfsTree, folder: str) -> Iterator[NicPort]:
    for name in tree.names(folder):
        if _PORT.fullmatch(name):
            port = f"{folder}/{name}"
            rate = _RATE.fullmatch(tree.line(f"{port}/rate") or "")
            yield NicPort(
                index=int(name),
                state=_named(tree.word(f"{port}/state")),
                rate_bytes_per_s=_bytes_per_s(rate, _GIGABITS),
                link_layer=tree.word(f"{port}/link_layer"),
                phys_state=_named(tree.word(f"{port}/phys_state")),
            )


def _named(line: str | None) -> str | None:
    """`4: ACTIVE` is ACTIVE."""
    match = _STATE.fullmatch(line) if line else None
    return match[1].strip() if match else line


def _bytes_per_s(rate: re.Match[str] | None, unit: float) -> float | None:
    return float(rate[1]) * unit or None if rate else None


def _rate(ports: tuple[NicPort, ...]) -> float | None:
    """Of the fastest active port; a port that is down names the slowest rate there is."""
    rates = [
        port.rate_bytes_per_s
        for port in ports
        if port.rate_bytes_per_s and port.state in {ACTIVE, None}
    ]
    return max(rates, default=None)


def _kind(
    tree: SysfsTree, folder: str, name: str, driver: str | None, layers: set[str]
) -> NicKind | None:
    if driver == "efa" or (driver is None and _EFA_NAME.fullmatch(name)):
        return NicKind.EFA
    if "InfiniBand" in layers:
        return NicKind.INFINIBAND
    if "Ethernet" not in layers:
        return None
    is_iwarp = _named(tree.word(f"{folder}/node_type")) == _RNIC
    return NicKind.ETHERNET if is_iwarp else NicKind.ROCE


NET: Final = "sys/class/net"
INFINIBAND: Final = "sys/class/infiniband"
CXI: Final = "sys/class/cxi"

_KINDS: Final = {"gve": NicKind.GVNIC, "efa": NicKind.EFA, "cxi_core": NicKind.SLINGSHOT}
_STATES: Final = {"up": ACTIVE, "unknown": None}
_REPRESENTOR: Final = regex(r"(?:c\d+)?pf\d+(?:vf|sf)\d+", re.ASCII)
_SPEED: Final = regex(r"(?!65535$)(\d{1,8})", re.ASCII)
"""Mb/s, of which -1 and 65535 are unknown (ethtool's SPEED_UNKNOWN in 32 and 16 bits)."""

_NO_PCI: Final = "not linked to the PCI tree (normal for USB devices)"
_NO_RATE: Final = "its driver reports no rate, or not in Gb/sec or Mb/s"
_NO_GDR: Final = "sysfs does not show whether a NIC can access GPU memory"


class _Netdev(NamedTuple):
    """A network device as the NIC that it would be by itself."""

    nic: Nic
    master: str | None
    subfunction: str | None


def parse_nics(
    tree: SysfsTree, pci: Mapping[PciAddress, PciDevice]
) -> tuple[tuple[Nic, ...], tuple[Unknown, ...]]:
    """The NICs, each with its network devices, and what of them is not known. Raises ParseError."""
    netdevs = list(_netdevs(tree, pci))
    bonds = frozenset((tree.line(f"{NET}/bonding_masters") or "").split())
    found = [*infiniband_nics(tree, INFINIBAND), *_cxi(tree)]
    of_function: dict[PciAddress | None, list[_Netdev]] = {}
    of_bond: dict[str | None, list[_Netdev]] = {}
    for netdev in netdevs:
        of_function.setdefault(netdev.nic.pci, []).append(netdev)
        of_bond.setdefault(netdev.master, []).append(netdev)
    found = [_with_netdevs(nic, _own(tree, nic, of_function), of_bond, bonds) for nic in found]
    owned = {name for nic in found for name in nic.netdevs}
    found += [
        replace(one.nic, bond=one.master if one.master in bonds else None)
        for one in netdevs
        if one.nic.name not in owned
    ]
    nics = tuple(_on_tree(nic, index, pci) for index, nic in enumerate(found))
    return nics, tuple(_unknown(nics))


def _netdevs(tree: SysfsTree, pci: Mapping[PciAddress, PciDevice]) -> Iterator[_Netdev]:
    for name in tree.names(NET):
        folder = f"{NET}/{name}"
        port_name = tree.line(f"{folder}/phys_port_name") or ""
        if not tree.has(f"{folder}/device") or _REPRESENTOR.fullmatch(port_name):
            continue
        # RFC 2863's words; "unknown" is what drivers leave it at that never set it.
        operstate = tree.word(f"{folder}/operstate") or "unknown"
        speed = _SPEED.fullmatch(tree.line(f"{folder}/speed") or "")
        address = device_address(tree, folder)
        device = pci.get(address) if address else None
        driver = tree.linked_name(f"{folder}/device/driver") or (device.driver if device else None)
        is_cxi = driver in CXI_DRIVERS
        nic = Nic(
            index=0,
            name=printable(name),
            kind=NicKind.SLINGSHOT if is_cxi else _KINDS.get(driver or "", NicKind.ETHERNET),
            pci=address,
            state=_STATES.get(operstate, operstate.upper()),
            rate_bytes_per_s=_bytes_per_s(speed, _MEGABITS),
            netdevs=(printable(name),),
            driver=driver,
            physfn=physical_function(tree, folder),
        )
        yield _Netdev(nic, tree.linked_name(f"{folder}/master"), _subfunction(tree, folder))


def _subfunction(tree: SysfsTree, folder: str) -> str | None:
    """`mlx5_core.sf.4`: a part of a PCI function that has devices of its own (devlink-port(8))."""
    device = tree.linked_name(f"{folder}/device")
    return device if device is not None and ".sf." in device else None


def _cxi(tree: SysfsTree) -> Iterator[Nic]:
    for name in tree.names(CXI):
        folder = f"{CXI}/{name}"
        yield Nic(
            index=0,
            name=printable(name),
            kind=NicKind.SLINGSHOT,
            pci=device_address(tree, folder),
            driver=tree.linked_name(f"{folder}/device/driver"),
            physfn=physical_function(tree, folder),
        )


def _own(
    tree: SysfsTree, nic: Nic, of_function: Mapping[PciAddress | None, list[_Netdev]]
) -> list[_Netdev]:
    own = of_function.get(nic.pci, []) if nic.pci else []
    if len(own) <= 1:
        return own
    part = _subfunction(tree, f"{INFINIBAND}/{nic.name}")
    return [one for one in own if one.subfunction == part]


def _with_netdevs(
    nic: Nic,
    own: list[_Netdev],
    of_bond: Mapping[str | None, list[_Netdev]],
    bonds: frozenset[str],
) -> Nic:
    """The NIC with its network devices; one that is a bond has those of all its members."""
    masters = {one.master for one in own if one.master in bonds}
    bond = masters.pop() if len(masters) == 1 else None
    if nic.bond and bond:
        whole = [*(one for one in own if one.master != bond), *of_bond[bond]]
        own = sorted(whole, key=lambda one: natural_order(one.nic.name))
    if not own:
        return nic
    found = replace(nic, netdevs=tuple(one.nic.name for one in own), bond=bond or nic.bond)
    if nic.kind is not NicKind.SLINGSHOT:
        return found
    each = (one.nic for one in own)
    best = max(each, key=lambda one: (one.state == ACTIVE, one.rate_bytes_per_s or 0))
    return replace(found, state=best.state, rate_bytes_per_s=best.rate_bytes_per_s)


def _on_tree(nic: Nic, index: int, pci: Mapping[PciAddress, PciDevice]) -> Nic:
    device = pci.get(nic.pci) if nic.pci else None
    if device is None:
        return replace(nic, index=index)
    physfn = nic.physfn or device.physfn
    is_virtual = physfn is not None or is_virtual_nic(device)
    return replace(
        nic,
        index=index,
        kind=NicKind.EFA if device.driver == "efa" else nic.kind,
        numa_index=device.numa_index,
        driver=nic.driver or device.driver,
        physfn=physfn,
        is_virtual=is_virtual if is_virtual or device.vendor_id is not None else None,
    )


def _unknown(nics: tuple[Nic, ...]) -> Iterator[Unknown]:
    if nics:
        yield Unknown("NICs", "is_gdr", _NO_GDR)
    for nic in nics:
        if nic.pci is None:
            yield Unknown(nic.name, "pci", _NO_PCI)
        elif nic.numa_index is None:
            yield Unknown(nic.name, "numa_index", NO_NUMA)
        if nic.rate_bytes_per_s is None:
            because = "no port of it is active" if is_down(nic) else _NO_RATE
            yield Unknown(nic.name, "rate_bytes_per_s", because)
