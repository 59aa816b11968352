"""Where the devices of a node sit: NUMA nodes, PCIe switches below them, devices below these.

A bridge that leads to one card alone (a root port, a switch's downstream port) is left out. Where
the source has no PCI tree, a GPU and what its matrix says is PIX or PXB apart share a switch of
which nothing else is known. Source of that: the legend of `nvidia-smi topo -m`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from hpckit.core.index_list import IndexList, least_index
from hpckit.core.values import dataclass
from hpckit.node.links import joined
from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PciDevice
from hpckit.node.pci_tree import PciTree
from hpckit.node.rules.rule import Cells, Device, device_names, kind_between, path_cells
from hpckit.node.topology import (
    Accelerator,
    Gpu,
    Nic,
    NodeTopology,
    NumaKind,
    NumaNode,
    PackagesOfCpus,
)

_DEEPEST: Final = 12
_Where = int | IndexList | None
_SWITCHED: Final = frozenset({PathKind.PIX, PathKind.PXB})
_SAME_NUMA: Final = frozenset({PathKind.PIX, PathKind.PXB, PathKind.PHB, PathKind.NODE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Devices that share something, and the switches below it, each in the order of indices.

    Of its own devices (`ends`) GPUs come first, then NICs.
    `bridge` is the uppermost bridge of a switch; None for a NUMA node's own branch and for a
    switch that only a matrix tells of (`is_inferred`).
    """

    bridge: PciDevice | None = None
    is_inferred: bool = False
    ends: tuple[Device, ...] = ()
    branches: tuple[Branch, ...] = ()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs among its own devices."""
        return tuple(end for end in self.ends if isinstance(end, Gpu))

    @property
    def nics(self) -> tuple[Nic, ...]:
        """The NICs among its own devices."""
        return tuple(end for end in self.ends if isinstance(end, Nic))

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """The other devices for computing among its own."""
        return tuple(end for end in self.ends if isinstance(end, Accelerator))

    def devices(self) -> tuple[Device, ...]:
        """All devices of this branch and of those below."""
        return (*self.ends, *(end for branch in self.branches for end in branch.devices()))


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
    tree = PciTree(topology.pci)
    cells = path_cells(topology.paths)
    by_numa: dict[_Where, list[Branch]] = {
        numa.index: [] for numa in topology.numa_nodes if _has_cpus(numa)
    }
    for branch in (*_tree_branches(topology, tree), *_matrix_branches(topology, tree, cells)):
        for part in _single(branch):
            by_numa.setdefault(_numa_of(part, tree, cells, topology), []).append(part)
    packages = PackagesOfCpus(topology.cpu.packages)
    found = (_place(topology, index, parts, packages) for index, parts in by_numa.items())
    return tuple(sorted(found, key=_order_of_place))


def _has_cpus(numa: NumaNode) -> bool:
    return numa.cpus != "" and numa.kind not in {NumaKind.GPU, NumaKind.HBM}


def _order_of_place(place: Place) -> tuple[bool, bool, int, int, bool, int]:
    package, index = place.package_index, place.numa_index
    first = least_index(place.cpus or "") or 0
    return (index is None, package is None, package or 0, index or 0, place.cpus is None, first)


def _place(
    topology: NodeTopology, where: _Where, parts: Sequence[Branch], packages: PackagesOfCpus
) -> Place:
    if isinstance(where, str):
        return Place(numa_index=None, cpus=where, root=_merged(parts, None))
    index = where
    numa = next((numa for numa in topology.numa_nodes if numa.index == index), None)
    cpus = None if numa is None else numa.cpus
    package = None if numa is None else numa.package_index
    if package is None and cpus is not None:
        package = packages.of(cpus)
    return Place(
        numa_index=index, numa=numa, package_index=package, cpus=cpus, root=_merged(parts, None)
    )


def _single(branch: Branch) -> tuple[Branch, ...]:
    """A switch is one; devices without a switch are one each, for each has its own NUMA node."""
    if branch.bridge is not None or branch.is_inferred:
        return (branch,)
    return (*(Branch(ends=(end,)) for end in branch.ends), *branch.branches)


def _merged(parts: Iterable[Branch], bridge: PciDevice | None) -> Branch:
    parts = tuple(parts)
    loose = tuple(part for part in parts if part.bridge is None and not part.is_inferred)
    whole = tuple(part for part in parts if part.bridge is not None or part.is_inferred)
    whole += tuple(below for part in loose for below in part.branches)
    kinds = (Gpu, Nic, Accelerator)
    ends = [end for part in loose for end in part.ends]
    ends.sort(key=lambda end: (kinds.index(type(end)), end.index))
    branches = tuple(sorted(whole, key=_order_of_branch))
    return Branch(bridge=bridge, ends=tuple(ends), branches=branches)


def _order_of_branch(branch: Branch) -> tuple[bool, int, int]:
    devices = branch.devices()
    gpus = [device.index for device in devices if isinstance(device, Gpu)]
    return (not gpus, min(gpus, default=0), min((device.index for device in devices), default=0))


class _Bridge:
    def __init__(self, device: PciDevice | None) -> None:
        self.device = device
        self.below: dict[PciAddress, _Bridge] = {}
        self.ends: list[Device] = []

    def add(self, way: Sequence[PciDevice], end: Device) -> None:
        at = self
        for device in way:
            at = at.below.setdefault(device.address, _Bridge(device))
        at.ends.append(end)

    def branch(self, tree: PciTree) -> Branch:
        """A switch if more than one card hangs from it, else what hangs from it without it."""
        parts = [bridge.branch(tree) for bridge in self.below.values()]
        parts.append(Branch(ends=tuple(self.ends)))
        cards = {_card(end, tree) for end in self.ends}
        ways = len(cards) + len(self.below)
        is_switch = self.device is not None and ways > 1
        return _merged(parts, self.device if is_switch else None)


def _card(end: Device, tree: PciTree) -> str:
    """What functions of a card share: its slot, of a virtual one that of its physical.

    Where that is not known, a virtual one's is its bus: it may bear any device number there.
    """
    address = end.pci or PciAddress("")
    device = next(iter(tree.way_up(address)), None)
    physfn = end.physfn if isinstance(end, Nic) else None
    physfn = device.physfn if device is not None and device.physfn is not None else physfn
    if physfn is None and isinstance(end, Nic) and end.is_virtual:
        return address.rpartition(":")[0]
    return (physfn or address).rpartition(".")[0]


def _tree_branches(topology: NodeTopology, tree: PciTree) -> tuple[Branch, ...]:
    top = _Bridge(None)
    ends: tuple[Device, ...] = (*topology.gpus, *topology.nics, *topology.accelerators)
    for end in ends:
        if end.pci is not None and end.pci in tree.addresses:
            # From the top, and of what is deeper than any real tree the beginning.
            top.add(tree.way_up(end.pci)[:0:-1][:_DEEPEST], end)
    return (top.branch(tree),)


def _matrix_branches(topology: NodeTopology, tree: PciTree, cells: Cells) -> tuple[Branch, ...]:
    """Those that the tree does not have; what is PIX or PXB from a GPU is on a switch with it."""
    devices: tuple[Device, ...] = (*topology.gpus, *topology.nics, *topology.accelerators)
    ends = [end for end in devices if end.pci not in tree.addresses]
    names = {name for pair in cells for name in pair}
    listed = [at for at, end in enumerate(ends) if names.intersection(device_names(end))]
    near = [
        (a, b)
        for a, b in combinations(listed, 2)
        if kind_between(cells, ends[a], ends[b]) in _SWITCHED
    ]
    found = []
    for group in joined([*((at, at) for at in range(len(ends))), *near]):
        branch = _merged([Branch(ends=tuple(ends[at] for at in group))], None)
        is_switch = len(group) > 1 and bool(branch.gpus)
        found.append(replace(branch, is_inferred=is_switch))
    return tuple(found)


def _numa_of(branch: Branch, tree: PciTree, cells: Cells, topology: NodeTopology) -> _Where:
    """The first NUMA node that a device of it, or a bridge above one, is known to be beside.

    Where none is, the CPUs beside its first GPU, or the one NUMA node that there is.
    """
    devices = branch.devices()
    for device in devices:
        index = device.numa_index
        if index is None and device.pci is not None:
            index = tree.numa_index(device.pci)
        if index is not None:
            return index
    gpus = [device for device in devices if isinstance(device, Gpu)]
    beside: list[_Where] = [gpu.cpus for gpu in gpus if gpu.cpus]
    for device in () if beside else devices:
        near = [gpu for gpu in topology.gpus if kind_between(cells, device, gpu) in _SAME_NUMA]
        beside += [gpu.numa_index if gpu.numa_index is not None else gpu.cpus for gpu in near]
    return next((where for where in beside if where not in (None, "")), _only_numa(topology))


def _only_numa(topology: NodeTopology) -> int | None:
    """The NUMA node of a node that has one: whatever its firmware leaves out is there."""
    found = [numa.index for numa in topology.numa_nodes if _has_cpus(numa)]
    return found[0] if len(found) == 1 else None
