"""Where the devices of a node sit: NUMA nodes, PCIe switches below them, devices below these.

A bridge that leads to one card alone (a root port, a switch's downstream port) is left out. Where
the source has no PCI tree, a GPU and what its matrix says is PIX or PXB apart share a switch of
which nothing else is known. Source of that: the legend of `nvidia-smi topo -m`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.core.index_list import IndexList, expand_indices, least_index
from hpckit.node.links import Device, PathLookup
from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PciDevice
from hpckit.node.topology import Accelerator, Gpu, Nic, NodeTopology, NumaKind, NumaNode

_DEEPEST: Final = 12
_Where = int | IndexList | None
_SWITCHED: Final = frozenset({PathKind.PIX, PathKind.PXB})
_SAME_NUMA: Final = frozenset({PathKind.PIX, PathKind.PXB, PathKind.PHB, PathKind.NODE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Devices that share something, and the switches below it, each in the order of indices.

    `bridge` is the uppermost bridge of a switch; None for a NUMA node's own branch and for a
    switch that only a matrix tells of (`is_inferred`).
    """

    bridge: PciDevice | None = None
    is_inferred: bool = False
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    branches: tuple[Branch, ...] = ()

    def devices(self) -> tuple[Device, ...]:
        """All devices of this branch and of those below."""
        below = tuple(device for branch in self.branches for device in branch.devices())
        return (*self.gpus, *self.nics, *self.accelerators, *below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A NUMA node with CPUs and what hangs from it.

    `numa_index` None holds what is not placed, apart for each `cpus` that GPUs name as beside them.
    `numa` is None for an index that devices name and the source does not describe.
    """

    numa_index: int | None
    numa: NumaNode | None = None
    package_index: int | None = None
    cpus: IndexList | None = None
    root: Branch = Branch()


def places(topology: NodeTopology) -> tuple[Place, ...]:
    """The NUMA nodes that have CPUs or devices, by package and index; what is not placed last."""
    tree = _PciTree(topology.pci)
    lookup = PathLookup(topology.paths)
    by_numa: dict[_Where, list[Branch]] = {
        numa.index: [] for numa in topology.numa_nodes if _has_cpus(numa)
    }
    for branch in (*_tree_branches(topology, tree), *_matrix_branches(topology, tree, lookup)):
        for part in _single(branch):
            by_numa.setdefault(_numa_of(part, tree, lookup, topology), []).append(part)
    packages = _package_by_cpu(topology)
    found = (_place(topology, index, parts, packages) for index, parts in by_numa.items())
    return tuple(sorted(found, key=_order_of_place))


def _has_cpus(numa: NumaNode) -> bool:
    return numa.cpus != "" and numa.kind not in {NumaKind.GPU, NumaKind.HBM}


def _order_of_place(place: Place) -> tuple[bool, bool, int, int, bool, int]:
    package, index = place.package_index, place.numa_index
    first = least_index(place.cpus or "") or 0
    return (index is None, package is None, package or 0, index or 0, place.cpus is None, first)


def _place(
    topology: NodeTopology, where: _Where, parts: Sequence[Branch], packages: Mapping[int, int]
) -> Place:
    if isinstance(where, str):
        return Place(numa_index=None, cpus=where, root=_merged(parts, None))
    index = where
    numa = next((numa for numa in topology.numa_nodes if numa.index == index), None)
    cpus = None if numa is None else numa.cpus
    package = None if numa is None else numa.package_index
    if package is None and cpus is not None:
        near = {packages.get(cpu) for cpu in _cpu_set(cpus)}
        package = near.pop() if len(near) == 1 else None
    return Place(
        numa_index=index, numa=numa, package_index=package, cpus=cpus, root=_merged(parts, None)
    )


def _package_by_cpu(topology: NodeTopology) -> dict[int, int]:
    return {
        cpu: package.index
        for package in reversed(topology.cpu.packages)
        for cpu in _cpu_set(package.cpus or IndexList(""))
    }


def _cpu_set(cpus: IndexList) -> frozenset[int]:
    try:
        return frozenset(expand_indices(cpus))
    except ValueError:
        return frozenset()


def _single(branch: Branch) -> tuple[Branch, ...]:
    """A switch is one; devices without a switch are one each, for each has its own NUMA node."""
    if branch.bridge is not None or branch.is_inferred:
        return (branch,)
    return (
        *(Branch(gpus=(gpu,)) for gpu in branch.gpus),
        *(Branch(nics=(nic,)) for nic in branch.nics),
        *(Branch(accelerators=(device,)) for device in branch.accelerators),
        *branch.branches,
    )


def _merged(parts: Iterable[Branch], bridge: PciDevice | None) -> Branch:
    """One branch of many: switches stay whole below it, what has none is its own."""
    parts = tuple(parts)
    loose = tuple(part for part in parts if part.bridge is None and not part.is_inferred)
    whole = tuple(part for part in parts if part.bridge is not None or part.is_inferred)
    whole += tuple(below for part in loose for below in part.branches)
    return Branch(
        bridge=bridge,
        gpus=tuple(sorted((gpu for part in loose for gpu in part.gpus), key=_index)),
        nics=tuple(sorted((nic for part in loose for nic in part.nics), key=_index)),
        accelerators=tuple(
            sorted((one for part in loose for one in part.accelerators), key=_index)
        ),
        branches=tuple(sorted(whole, key=_order_of_branch)),
    )


def _index(device: Device) -> int:
    return device.index


def _order_of_branch(branch: Branch) -> tuple[bool, int, int]:
    devices = branch.devices()
    gpus = [device.index for device in devices if isinstance(device, Gpu)]
    return (not gpus, min(gpus, default=0), min(map(_index, devices), default=0))


class _PciTree:
    """The bridges above each address, from the top; a loop or a missing parent ends the way."""

    def __init__(self, devices: Iterable[PciDevice]) -> None:
        self._by_address = {device.address: device for device in devices}

    def device(self, address: PciAddress | None) -> PciDevice | None:
        return None if address is None else self._by_address.get(address)

    def above(self, address: PciAddress | None) -> tuple[PciDevice, ...]:
        """At most _DEEPEST of them, counted from the top: real trees have about seven."""
        way: list[PciDevice] = []
        seen = {address}
        device = self.device(address)
        while device is not None and device.parent is not None and device.parent not in seen:
            seen.add(device.parent)
            device = self.device(device.parent)
            way += [] if device is None else [device]
        return tuple(way[::-1][:_DEEPEST])


class _Bridge:
    """A bridge while the tree is put together."""

    def __init__(self, device: PciDevice | None) -> None:
        self.device = device
        self.below: dict[PciAddress, _Bridge] = {}
        self.ends: list[Device] = []

    def add(self, way: Sequence[PciDevice], end: Device) -> None:
        at = self
        for device in way:
            at = at.below.setdefault(device.address, _Bridge(device))
        at.ends.append(end)

    def branch(self, tree: _PciTree) -> Branch:
        """A switch if more than one card hangs from it, else what hangs from it without it."""
        parts = [bridge.branch(tree) for bridge in self.below.values()]
        parts.append(_branch_of(self.ends))
        cards = {_card(end, tree) for end in self.ends}
        ways = len(cards) + len(self.below)
        is_switch = self.device is not None and ways > 1
        return _merged(parts, self.device if is_switch else None)


def _branch_of(ends: Iterable[Device]) -> Branch:
    ends = tuple(ends)
    return Branch(
        gpus=tuple(end for end in ends if isinstance(end, Gpu)),
        nics=tuple(end for end in ends if isinstance(end, Nic)),
        accelerators=tuple(end for end in ends if isinstance(end, Accelerator)),
    )


def _card(end: Device, tree: _PciTree) -> str:
    """What functions of a card share: its slot, of a virtual one that of its physical.

    Where that is not known, a virtual one's is its bus: it may bear any device number there.
    """
    address = end.pci or PciAddress("")
    device = tree.device(end.pci)
    physfn = end.physfn if isinstance(end, Nic) else None
    physfn = device.physfn if device is not None and device.physfn is not None else physfn
    if physfn is None and isinstance(end, Nic) and end.is_virtual:
        return address.rpartition(":")[0]
    return (physfn or address).rpartition(".")[0]


def _all_devices(topology: NodeTopology) -> tuple[Device, ...]:
    return (*topology.gpus, *topology.nics, *topology.accelerators)


def _tree_branches(topology: NodeTopology, tree: _PciTree) -> tuple[Branch, ...]:
    top = _Bridge(None)
    for end in _all_devices(topology):
        if tree.device(end.pci) is not None:
            top.add(tree.above(end.pci), end)
    return (top.branch(tree),)


def _matrix_branches(
    topology: NodeTopology, tree: _PciTree, lookup: PathLookup
) -> tuple[Branch, ...]:
    """Those that the tree does not have; what is PIX or PXB from a GPU is on a switch with it."""
    ends = [end for end in _all_devices(topology) if tree.device(end.pci) is None]
    left = list(range(len(ends)))
    listed = {at for at in left if lookup.has(ends[at])}
    found = []
    while left:
        group: list[int] = []
        waiting = [left.pop(0)]
        while waiting:
            group.append(waiting.pop())
            if group[-1] not in listed:
                continue
            one, others = ends[group[-1]], listed.intersection(left)
            near = {at for at in others if lookup.kind(one, ends[at]) in _SWITCHED}
            waiting += sorted(near)
            left = [at for at in left if at not in near]
        branch = _merged([_branch_of(ends[at] for at in group)], None)
        is_switch = len(group) > 1 and bool(branch.gpus)
        found.append(_inferred(branch) if is_switch else branch)
    return tuple(found)


def _inferred(branch: Branch) -> Branch:
    return Branch(
        is_inferred=True, gpus=branch.gpus, nics=branch.nics, accelerators=branch.accelerators
    )


def _numa_of(branch: Branch, tree: _PciTree, lookup: PathLookup, topology: NodeTopology) -> _Where:
    """The first NUMA node that a device of it, or a bridge above one, is known to be beside.

    Where none is, the CPUs beside its first GPU, or the one NUMA node that there is.
    """
    devices = branch.devices()
    for device in devices:
        at = tree.device(device.pci)
        above = () if at is None else (at, *reversed(tree.above(device.pci)))
        for index in (device.numa_index, *(bridge.numa_index for bridge in above)):
            if index is not None:
                return index
    beside = [_beside(device) for device in devices if isinstance(device, Gpu)]
    for device in () if any(beside) else devices:
        beside += [_beside(gpu) for gpu in topology.gpus if lookup.kind(device, gpu) in _SAME_NUMA]
    return next((where for where in beside if where is not None), _only_numa(topology))


def _only_numa(topology: NodeTopology) -> int | None:
    """The NUMA node of a node that has one: whatever its firmware leaves out is there."""
    found = [numa.index for numa in topology.numa_nodes if _has_cpus(numa)]
    return found[0] if len(found) == 1 else None


def _beside(gpu: Gpu) -> _Where:
    return gpu.numa_index if gpu.numa_index is not None else gpu.cpus or None
