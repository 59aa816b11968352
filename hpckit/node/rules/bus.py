"""What is odd about PCIe: links narrower than both their ends, and trees that are not shown.

Width only: an idle GPU trains its speed down and keeps its lanes. A port tells the link below it,
and the device or switch there tells the same link, so of a device and the bridges above it every
other step is a link and those between are inside a switch (PCI Express Base Specification, 7.5.3.6
and 7.5.3.8: Link Capabilities and Link Status).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from itertools import combinations, pairwise
from typing import Final

from hpckit.core.findings import Evidence
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.node.nics import RDMA, nic_kinds, rate_words
from hpckit.node.path import PathKind, path_kind
from hpckit.node.pci import PciAddress, PciDevice
from hpckit.node.pci_tree import PciTree, lesser
from hpckit.node.rules.rule import (
    CLOSE,
    GPUS,
    InspectedNode,
    gpu_name,
    gpu_ranges,
    have,
    most_common,
    named,
)
from hpckit.node.topology import ACTIVE, Nic, NicRole, is_active, is_down
from hpckit.spec.nic_kind import NicKind

FLAT_FROM: Final = 3
"""Devices from which on it is odd that none shares a switch with another."""

_PCIE: Final = frozenset({PathKind.PIX, PathKind.PXB, PathKind.PHB, PathKind.NODE, PathKind.SYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """A device's narrowest link; `is_fault` where both its ends can do more than it does."""

    subject: str
    twin_of: Hashable
    because: str | None = None
    is_fault: bool = False
    is_unsure: bool = False


def _narrow(node: InspectedNode, *, is_odd: bool) -> Iterator[Evidence]:
    groups: dict[Hashable, list[_Lanes]] = {}
    for one in _devices(node):
        groups.setdefault(one.twin_of, []).append(one)
    for group in groups.values():
        for one in group:
            if one.because is not None and _is_odd(one, group) is is_odd:
                yield Evidence(one.subject, one.because)


# Rule `pcie-width`: both ends can do more, or most twins do. Rule `pcie-narrow`: as its slot is, or
# as all its twins are.
narrow_links = partial(_narrow, is_odd=True)
narrow_by_design = partial(_narrow, is_odd=False)


def _is_odd(one: _Lanes, group: list[_Lanes]) -> bool:
    narrow = sum(each.because is not None for each in group)
    if one.is_fault:
        return narrow < len(group) or len(group) == 1
    return one.is_unsure and 2 * narrow < len(group)


def _devices(node: InspectedNode) -> Iterator[_Lanes]:
    tree = PciTree(node.topology.pci)
    for gpu in node.topology.gpus:
        yield _lanes(tree, gpu.pci, gpu_name(gpu.index), ("gpu", gpu.vendor, gpu.name))
    for nic in node.topology.nics:
        if nic.kind is not NicKind.ETHERNET and not nic.is_virtual and nic.physfn is None:
            device = next(iter(_way(tree, nic.pci)), None)
            ids = None if device is None else (device.vendor_id, device.device_id)
            yield _lanes(tree, nic.pci, nic.name, ("nic", ids, nic.rate_bytes_per_s))


def _lanes(tree: PciTree, address: PciAddress | None, subject: str, twin_of: Hashable) -> _Lanes:
    way = _way(tree, address)
    steps = [pair for at, pair in enumerate(pairwise(way)) if at % 2 == 0]
    for below, above in steps:
        width, ends = _width(below), (_most(below), _most(above))
        most = None if None in ends else lesser(*ends)
        if most is not None and width is not None and width < most:
            bridge = f"is behind the bridge {below.address}, which runs"
            where = f"{subject} {'runs' if below is way[0] else bridge}"
            return _Lanes(
                subject=subject,
                twin_of=twin_of,
                because=f"{where} x{width} PCIe, both ends support x{most}",
                is_fault=True,
            )
    return _of_device(way, subject, twin_of)


def _way(tree: PciTree, address: PciAddress | None) -> list[PciDevice]:
    return [] if address is None else tree.way_up(address)


def _of_device(way: list[PciDevice], subject: str, twin_of: Hashable) -> _Lanes:
    width, most = (_width(way[0]), _most(way[0])) if way else (None, None)
    if width is None or most is None or width >= most:
        return _Lanes(subject=subject, twin_of=twin_of)
    slot = _most(way[1]) if len(way) > 1 else None
    told = f", its slot x{slot}" if slot is not None else ""
    return _Lanes(
        subject=subject,
        twin_of=twin_of,
        because=f"{subject} runs x{width} PCIe, it supports x{most}{told}",
        is_unsure=slot is None,
    )


def _width(device: PciDevice) -> int | None:
    """A width of 0 is that of a link that is down or of a virtual function."""
    return None if device.link is None else device.link.width or None


def _most(device: PciDevice) -> int | None:
    return None if device.link is None else device.link.max_width or None


def contradictions(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `matrix-contradicts`: what lies between two devices depends on whose row says it."""
    table = node.topology.paths
    if table is None or not table.is_recorded:
        return
    for a, b in combinations(table.devices, 2):
        there, back = node.cells.get((a, b)), node.cells.get((b, a))
        if there and back and there != back:
            yield Evidence(a, f"{a} to {b} is {there}, {b} to {a} is {back}")


def pci_hidden(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `pci-hidden`."""
    if node.topology.host.is_virtual_machine is False or not node.gpus:
        return
    because = _flat_tree(node) or _one_kind(node)
    if because is not None:
        known = "this is" if node.topology.host.is_virtual_machine else "likely"
        yield Evidence(GPUS, f"{because}: {known} a virtual machine")


def _flat_tree(node: InspectedNode) -> str | None:
    """In a virtual machine, GPUs and NICs hang on the root without the switches between them."""
    if not node.topology.host.is_virtual_machine:
        return None
    tree = PciTree(node.topology.pci)
    addresses = [gpu.pci for gpu in node.gpus] + [nic.pci for nic in node.topology.nics]
    ways = [way for at in addresses if (way := _way(tree, at))]
    if len(ways) < FLAT_FROM or max(map(len, ways)) > 1:
        return None
    return f"no PCIe bridge above any of {len(ways)} GPUs and NICs"


def _one_kind(node: InspectedNode) -> str | None:
    """All paths alike, and of a kind that says nothing of switches."""
    table = node.topology.paths
    names = {gpu_name(gpu.index) for gpu in node.gpus}
    kinds = {
        pair: kind
        for pair, cell in node.cells.items()
        if names.intersection(pair) and (kind := path_kind(cell)) in _PCIE
    }
    if table is None or len(table.devices) < FLAT_FROM:
        return None
    if not node.topology.host.is_virtual_machine and _has_siblings(node):
        return None
    places = {gpu.numa_index for gpu in node.gpus} - {None}
    told = counted(len(places), "NUMA node") if places else "NUMA nodes unknown"
    every = "all GPUs seem" if len(node.gpus) > 1 else "the GPU and its peers seem"
    if set(kinds.values()) == {PathKind.PHB}:
        return f"{every} to be on one PCIe root (every path PHB, {told})"
    between = sum(names.issuperset(pair) for pair in kinds)
    if set(kinds.values()) == {PathKind.SYS} and _is_one_place(node, between):
        return f"{every} to have a PCIe root each (every path SYS, {told})"
    return None


def _has_siblings(node: InspectedNode) -> bool:
    """Whether a GPU's CPUs lie apart, as a board numbers the threads of one socket: 0-19,40-59."""
    return any("," in (gpu.cpus or "") for gpu in node.gpus)


def _is_one_place(node: InspectedNode, between: int) -> bool:
    """Whether SYS contradicts the NUMA nodes: GPUs share one, or nothing at all is told of places.

    `between` is how many paths between two GPUs, both ways, are not NVLinks. Where some are, the
    others may well be those between sockets.
    """
    if any(gpu.numa_index is not None or gpu.cpus is not None for gpu in node.gpus):
        places = {gpu.numa_index for gpu in node.gpus}
        return len(places) == 1 and None not in places and between > 0
    return between >= len(node.gpus) * (len(node.gpus) - 1)


RAILS_FROM: Final = 4
"""GPUs from which on one without the NIC that each of the others has is no design."""


def nic_down(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-down`: a NIC for jobs, as `with_nic_roles` has it."""
    for nic in node.topology.nics:
        if nic.role is NicRole.COMPUTE and is_down(nic):
            yield Evidence(nic.name, _down_words(nic) + _peers(node, nic))


def nic_unused(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-unused`: down, and not known to be for jobs; plain Ethernet is left out."""
    for nic in node.topology.nics:
        is_whole = nic.kind in RDMA and not nic.is_virtual and nic.physfn is None
        if is_whole and nic.role is not NicRole.COMPUTE and is_down(nic):
            yield Evidence(nic.name, _down_words(nic))


def port_down(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `port-down`: one port of a NIC for jobs, whose other port is up."""
    for nic in node.topology.nics:
        down = [port.index for port in nic.ports if port.state and port.state.upper() != ACTIVE]
        if nic.role is NicRole.COMPUTE and is_active(nic) and down:
            ports = f"port{'' if len(down) == 1 else 's'} {named(str(index) for index in down)}"
            yield Evidence(nic.name, f"{nic.name} has no link on {ports}, another port is up")


def nic_slow(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-slow`: below the rate of more than half of the NICs for jobs of its kind."""
    groups: dict[NicKind | None, list[Nic]] = {}
    for nic in node.topology.nics:
        if nic.role is NicRole.COMPUTE and not is_down(nic) and nic.rate_bytes_per_s:
            groups.setdefault(nic.kind, []).append(nic)
    for group in groups.values():
        usual = most_common(nic.rate_bytes_per_s for nic in group)
        for nic in group:
            if usual and nic.rate_bytes_per_s and nic.rate_bytes_per_s < usual:
                peers = sum(each.rate_bytes_per_s == usual for each in group)
                yield Evidence(
                    nic.name,
                    f"{nic.name} runs at {rate_words(nic.rate_bytes_per_s)},"
                    f" {counted(peers, 'similar NIC')} at {rate_words(usual)}",
                )


def nic_missing(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-missing`: one GPU without, each of the others with as many NICs of its own."""
    close = _close(node)
    without = [index for index, each in close.items() if each == frozenset()]
    others = [each for each in close.values() if each]
    own = {len(each) for each in others}
    is_rails = sum(map(len, others)) == len(frozenset[int]().union(*others))
    if len(close) < RAILS_FROM or len(without) != 1 or len(own) != 1 or not is_rails:
        return
    name = gpu_name(without[0])
    (each_has,) = own
    yield Evidence(
        name,
        f"{name} has no NIC on its PCIe switch, each of the other {len(others)} GPUs has"
        f" {each_has}",
    )


def no_close_nic(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `no-close-nic`; nothing where a hypervisor hides what is close.

    A GPU of which a path to a NIC is not known may well have one that is close.
    """
    close = _close(node)
    without = [index for index, each in close.items() if each == frozenset()]
    if not without or any(pci_hidden(node)):
        return
    missing = {one.subject for one in nic_missing(node)}
    if len(without) == len(close) > 1:
        yield Evidence(GPUS, f"no GPU has a NIC on its PCIe switch{_nearest(node, without)}")
        return
    having = [index for index, each in close.items() if each]
    others = f", {gpu_ranges(having)} {have(len(having))} one" if having else ""
    for index in without:
        name = gpu_name(index)
        if name not in missing:
            nearest = _nearest(node, [index])
            yield Evidence(name, f"{name} has no NIC on the same PCIe switch{others}{nearest}")


def _nearest(node: InspectedNode, indices: list[int]) -> str:
    order = list(PathKind)
    kinds = _kinds(node)
    nearest = {min(kinds[index].values(), key=order.index) for index in indices}
    *nearer, farthest = sorted(nearest, key=order.index)
    told = f"{', '.join(nearer)} or {farthest}" if nearer else farthest
    return f"; the nearest path is {told}"


def _close(node: InspectedNode) -> dict[int, frozenset[int] | None]:
    """GPU → the NICs for jobs that are close to it, down ones too: they are in their place.

    None where none is known to be close and some path is not known.
    """
    wanted = len({nic.index for nic in _for_jobs(node)})
    found: dict[int, frozenset[int] | None] = {}
    for gpu, kinds in _kinds(node).items() if wanted else ():
        close = frozenset(nic for nic, kind in kinds.items() if kind in CLOSE)
        found[gpu] = close if close or len(kinds) == wanted else None
    return found


def _kinds(node: InspectedNode) -> dict[int, dict[int, PathKind]]:
    return nic_kinds(node.cells, node.gpus, _for_jobs(node))


def _for_jobs(node: InspectedNode) -> tuple[Nic, ...]:
    nics = node.topology.nics
    known = tuple(nic for nic in nics if nic.role is NicRole.COMPUTE)
    return known or tuple(nic for nic in nics if nic.role is None)


def _down_words(nic: Nic) -> str:
    physical = next((port.phys_state for port in nic.ports if port.phys_state), None)
    link = "" if physical is None else f" (physical state {physical})"
    return f"{nic.name} is {nic.state}{link}"


def _peers(node: InspectedNode, nic: Nic) -> str:
    peers = [
        each for each in node.topology.nics if each.role is NicRole.COMPUTE and each is not nic
    ]
    up = sum(is_active(each) for each in peers)
    if len(peers) > 1:
        share = f"all {up}" if up == len(peers) else f"{up} of {len(peers)}"
        return f"; {share} other NICs for jobs are up"
    return f"; the other NIC for jobs is {'' if up else 'not '}up" if peers else ""
