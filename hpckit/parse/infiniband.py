"""RDMA devices from /sys/class/infiniband: InfiniBand, RoCE, EFA and their like.

Source: Linux Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpckit.model.hardware import Nic, NicPort
from hpckit.model.nic_kind import NicKind
from hpckit.model.nic_state import ACTIVE
from hpckit.model.pci import PciAddress, pci_address
from hpckit.parse.sysfs_pci import address_in
from hpckit.parse.sysfs_tree import SysfsTree, printable

_PORT: Final = re.compile(r"\d{1,4}", re.ASCII)
_STATE: Final = re.compile(r"\d{1,2}: ?([A-Za-z_ ]{1,40})", re.ASCII)
_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec(?: \([^()]{1,40}\))?", re.ASCII)
_GUID: Final = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}", re.ASCII)
_SLOT: Final = re.compile(r"^PCI_SLOT_NAME=([0-9a-f:]{7,15}\.[0-7])\s*$", re.MULTILINE | re.ASCII)
_NO_GUID: Final = "0000:0000:0000:0000"
_EFA_NAME: Final = re.compile(r"efa_\d+", re.ASCII)
_RNIC: Final = "RNIC"
_BITS: Final = 8
_GIGA: Final = 1e9


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
        state=_state(ports),
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
            yield NicPort(
                index=int(name),
                state=_named(tree.word(f"{port}/state")),
                rate_bytes_per_s=_bytes_per_s(tree.line(f"{port}/rate")),
                link_layer=tree.word(f"{port}/link_layer"),
                phys_state=_named(tree.word(f"{port}/phys_state")),
            )


def _named(line: str | None) -> str | None:
    """`4: ACTIVE` is ACTIVE."""
    match = _STATE.fullmatch(line) if line else None
    return match[1].strip() if match else line


def _bytes_per_s(line: str | None) -> float | None:
    """`400 Gb/sec (4X NDR)` in bytes, in one direction."""
    match = _RATE.fullmatch(line) if line else None
    return float(match[1]) * _GIGA / _BITS or None if match else None


def _state(ports: tuple[NicPort, ...]) -> str | None:
    states = [port.state for port in ports]
    return ACTIVE if ACTIVE in states else next(iter(states), None)


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
