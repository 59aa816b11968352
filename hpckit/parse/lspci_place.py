"""Where lspci's devices are on the PCI tree, from the bus numbers of the bridges.

Sources: PCI-to-PCI Bridge Architecture Specification 1.2, 3.2.5 (bus numbers); PCI Express Base
Specification, 9.3.3 (routing ids of virtual functions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hpckit.model.pci import PciAddress, PciDevice
from hpckit.parse.lspci_list import Listed
from hpckit.parse.lspci_words import CLASS_HOST_BRIDGE
from hpckit.parse.sysfs_pci import sort_key

_Bus = tuple[int, int]
_BUSES: Final = 256
_FUNCTIONS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """What a bus hangs on: a bridge, or the root complex that it is."""

    parent: PciAddress | None = None
    host_bridge: str | None = None


def placed(listed: Mapping[PciAddress, Listed], *, is_filtered: bool) -> dict[PciAddress, Above]:
    """What each listed function hangs on; nothing for those that no root bus is known above.

    A root bus is one that no bridge has below it. It must be bus 00 or have a device that only a
    root complex has, unless the list is whole: it has a bus 00 and bridges with their buses, and
    `is_filtered` is false.
    """
    by_bus: dict[_Bus, list[Listed]] = {}
    for address, one in listed.items():
        by_bus.setdefault(_bus(address), []).append(one)
    bridges = _bridges(listed)
    is_whole = bool(bridges) and not is_filtered and any(number == 0 for _, number in by_bus)
    above: dict[_Bus, Above] = {}
    for bus in sorted(by_bus):
        bridge = bridges.get(bus)
        if bridge is not None:
            # The bus of a bridge is smaller than those below it, so it is known by now.
            root = above[_bus(bridge)].host_bridge
            above[bus] = Above(parent=bridge, host_bridge=root) if root else Above()
        elif _is_root(bus, by_bus[bus], is_whole=is_whole):
            above[bus] = Above(host_bridge=f"pci{bus[0]:04x}:{bus[1]:02x}")
        else:
            above[bus] = Above()
    return {address: above[_bus(address)] for address in listed}


def _bus(address: PciAddress) -> _Bus:
    domain, bus, *_ = sort_key(address)
    return domain, bus


def _bridges(listed: Mapping[PciAddress, Listed]) -> dict[_Bus, PciAddress]:
    """The bridge above each bus: the innermost one, as virtual functions may be on further ones."""
    found: dict[_Bus, tuple[int, PciAddress]] = {}
    for address in sorted(listed, key=sort_key):
        buses = listed[address].buses
        domain, own = _bus(address)
        # A bus that is not above its bridge's own is one that nobody has set up.
        first, last = buses if buses and buses[0] > own else (1, 0)
        for number in range(first, min(last, _BUSES - 1) + 1):
            before = found.get((domain, number))
            if before is None or first > before[0]:
                found[domain, number] = first, address
    return {bus: address for bus, (_, address) in found.items()}


def _is_root(bus: _Bus, devices: Iterable[Listed], *, is_whole: bool) -> bool:
    if bus[1] == 0 or any(_is_at_root(one) for one in devices):
        return True
    return is_whole and not all(one.is_below for one in devices)


def _is_at_root(one: Listed) -> bool:
    return one.is_at_root or one.device.class_code == CLASS_HOST_BRIDGE


def virtual_functions(listed: Mapping[PciAddress, Listed]) -> dict[PciAddress, PciAddress]:
    """The physical function of each virtual one that is listed."""
    found: dict[PciAddress, PciAddress] = {}
    for address, one in listed.items():
        offset, stride = one.vf_step or (0, 0)
        domain, bus, device, function = sort_key(address)
        own = bus * _FUNCTIONS + device * 8 + function
        for at in range(one.vfs if offset and (stride or one.vfs == 1) else 0):
            virtual = _address(domain, own + offset + at * stride)
            if virtual not in listed or virtual in found:
                break
            found[virtual] = address
    return found


def _address(domain: int, routing_id: int) -> PciAddress:
    bus, rest = divmod(routing_id, _FUNCTIONS)
    return PciAddress(f"{domain:04x}:{bus:02x}:{rest >> 3:02x}.{rest & 7}")


def walk(devices: Mapping[PciAddress, PciDevice]) -> tuple[PciDevice, ...]:
    """The devices in the order of a walk through the tree; a parent that is not there is None."""
    below: dict[PciAddress | None, list[PciDevice]] = {}
    for device in devices.values():
        parent = device.parent if device.parent in devices else None
        below.setdefault(parent, []).append(replace(device, parent=parent))
    for siblings in below.values():
        siblings.sort(key=lambda one: sort_key(one.address), reverse=True)
    found, stack = [], below.get(None, [])
    while stack:
        found.append(stack.pop())
        stack.extend(below.get(found[-1].address, ()))
    return tuple(found)
