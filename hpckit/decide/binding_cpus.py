"""The CPUs that ranks may be bound to, as cores, in L3 groups, in parts that are equally near."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hpckit.errors import PlanError
from hpckit.model.hardware import NodeTopology, NumaKind, NumaNode
from hpckit.model.index_list import expand_indices, index_list
from hpckit.units import runs

_PAIR: Final = 2
Core = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """CPUs on the same NUMA node: L3 groups of cores of CPUs; `numa` is empty where not known.

    Two nodes can have the same CPUs, as the HBM beside a CPU's DRAM.
    """

    numa: tuple[int, ...]
    groups: tuple[tuple[Core, ...], ...]

    @property
    def cores(self) -> tuple[Core, ...]:
        """The cores, group by group."""
        return tuple(chain.from_iterable(self.groups))

    @property
    def cpus(self) -> frozenset[int]:
        """All CPUs."""
        return frozenset(chain.from_iterable(self.cores))


def usable_cpus(node: NodeTopology, allowed: Iterable[int] | None) -> frozenset[int]:
    """The CPUs that ranks may have: of the node, and allowed. Raises PlanError for none of some."""
    of_node = _all_cpus(node)
    if allowed is None:
        told = frozenset(expand_indices(node.cpu.allowed or ""))
        return (told & of_node or told) if told else of_node
    wanted = frozenset(allowed)
    found = wanted & of_node if of_node else wanted
    if not found:
        raise PlanError(
            "the CPUs of the ranks",
            have=f"CPUs {index_list(wanted) or 'none'} allowed",
            need=f"some of the node's, {index_list(of_node) or 'which are not known'}",
            hint="plan from a topology of the same node, and from the CPUs that its job has",
        )
    return found


def _all_cpus(node: NodeTopology) -> frozenset[int]:
    if node.cpu.cpus:
        return frozenset(expand_indices(node.cpu.cpus))
    lists = [numa.cpus for numa in node.numa_nodes]
    lists += [package.cpus for package in node.cpu.packages]
    lists += [gpu.cpus for gpu in node.gpus]
    return frozenset(chain.from_iterable(expand_indices(text or "") for text in lists))


def domains(
    node: NodeTopology,
    usable: frozenset[int],
    affinities: Sequence[frozenset[int]] = (),
    threads_per_core: int | None = None,
) -> tuple[Domain, ...]:
    """The parts of a node by their first CPU; each CPU is in one, a core wholly.

    `affinities` are further sets of CPUs that no part lies across. Of each core the first
    `threads_per_core` CPUs are taken.
    """
    marks: dict[int, list[int]] = {cpu: [] for cpu in usable}
    sets = [frozenset(expand_indices(numa.cpus or "")) for numa in node.numa_nodes]
    for at, cpus in enumerate((*sets, *affinities)):
        for cpu in usable & cpus:
            marks[cpu].append(at)
    parts: dict[tuple[int, ...], list[Core]] = {}
    for core in _cores(node, usable):
        parts.setdefault(tuple(marks[core[0]]), []).append(core[:threads_per_core])
    groups = _l3_of_cpu(node)
    return tuple(
        Domain(
            numa=tuple(node.numa_nodes[at].index for at in mark if at < len(sets)),
            groups=_grouped(cores, groups),
        )
        for mark, cores in parts.items()
    )


def with_told_numa(node: NodeTopology) -> NodeTopology:
    """The node with the NUMA nodes that its GPUs tell of, where it describes none with CPUs."""
    if any(numa.cpus for numa in node.numa_nodes):
        return node
    left = frozenset(chain.from_iterable(expand_indices(gpu.cpus or "") for gpu in node.gpus))
    described = {numa.index: numa for numa in node.numa_nodes}
    for gpu in node.gpus:
        cpus = left.intersection(expand_indices(gpu.cpus or ""))
        index = gpu.numa_index
        if index is not None and index >= 0 and cpus and not _has_cpus(described.get(index)):
            left -= cpus
            described[index] = NumaNode(index=index, cpus=index_list(cpus))
    return dataclasses.replace(node, numa_nodes=tuple(described.values()))


def _has_cpus(numa: NumaNode | None) -> bool:
    return numa is not None and bool(numa.cpus)


def sibling_offset(node: NodeTopology) -> int | None:
    """How far SMT siblings seem to be apart, where no core's CPUs are known.

    Linux on x86 counts first one CPU of each core, then the others, so a NUMA node's CPUs are two
    runs of one length. Where that is for another reason, ranks get pairs of cores.
    """
    if node.cpu.core_cpus:
        return None
    offsets: set[int | None] = set()
    for text in {numa.cpus for numa in node.numa_nodes if numa.cpus}:
        spans = runs(expand_indices(text))
        lengths = {last - first for first, last in spans}
        is_pair = len(spans) == _PAIR and len(lengths) == 1 and lengths != {0}
        offsets.add(spans[1][0] - spans[0][0] if is_pair else None)
    return offsets.pop() if len(offsets) == 1 else None


def _cores(node: NodeTopology, usable: frozenset[int]) -> list[Core]:
    """The usable CPUs by core, by first CPU; one whose core is not known is a core of its own."""
    left = set(usable)
    found: list[Core] = []
    offset = sibling_offset(node)
    lists = [expand_indices(text) for text in node.cpu.core_cpus]
    if offset is not None:
        lists = [(cpu, cpu + offset) for cpu in sorted(usable)]
    for listed in lists:
        core = tuple(cpu for cpu in listed if cpu in left)
        left.difference_update(core)
        found += [core] if core else []
    return sorted([*found, *((cpu,) for cpu in left)])


def _l3_of_cpu(node: NodeTopology) -> dict[int, int]:
    return {
        cpu: at
        for at, group in reversed(tuple(enumerate(node.cpu.l3)))
        for cpu in expand_indices(group.cpus)
    }


def _grouped(cores: Iterable[Core], l3_of_cpu: dict[int, int]) -> tuple[tuple[Core, ...], ...]:
    groups: dict[int | None, list[Core]] = {}
    for core in cores:
        groups.setdefault(l3_of_cpu.get(core[0]), []).append(core)
    return tuple(map(tuple, groups.values()))


class Distances:
    """How far NUMA nodes are from each other: the firmware's SLIT, else by package."""

    def __init__(self, node: NodeTopology) -> None:
        self._column = {numa.index: at for at, numa in enumerate(node.numa_nodes)}
        self._nodes: dict[int, NumaNode] = {numa.index: numa for numa in node.numa_nodes}

    def between(self, one: int, other: int) -> tuple[int, int] | None:
        """Smaller is nearer; None where nothing tells. Pairs of two kinds do not compare."""
        if one == other:
            return (0, 0)
        for row, column in ((one, other), (other, one)):
            told = self._nodes[row].distances if row in self._nodes else None
            at = self._column.get(column)
            if told is not None and at is not None and at < len(told):
                return (1, told[at])
        packages = [self._nodes[at].package_index for at in (one, other) if at in self._nodes]
        if len(packages) < _PAIR or None in packages:
            return None
        return (2, int(packages[0] != packages[1]))

    def nearest(self, numa: int, among: Iterable[tuple[int, Sequence[int]]]) -> int | None:
        """Which of places, each with its NUMA nodes, is nearest to a NUMA node; ties: the first."""
        best: tuple[tuple[int, int], int] | None = None
        for place, nodes in among:
            known = [far for far in (self.between(numa, at) for at in nodes) if far is not None]
            if known and (best is None or min(known) < best[0]):
                best = (min(known), place)
        return None if best is None else best[1]


def memory_of(node: NodeTopology, near: Iterable[int]) -> tuple[tuple[int, ...], str]:
    """The NUMA nodes to take memory from beside CPUs on these, and why.

    Memory of GPUs and HBM are passed over: programs ask for these by name.
    """
    beside = frozenset(near)
    if not beside:
        return (), "the NUMA node of these CPUs is not known"
    plain = [
        numa.index
        for numa in node.numa_nodes
        if numa.memory_bytes != 0 and numa.kind not in (NumaKind.GPU, NumaKind.HBM)
    ]
    local = tuple(sorted(beside.intersection(plain)))
    if local:
        return local, "the memory beside these CPUs"
    distances = Distances(node)
    for numa in sorted(beside):
        nearest = distances.nearest(numa, ((at, (at,)) for at in plain))
        if nearest is not None:
            return (nearest,), f"the nearest: NUMA {numa} has no memory of its own"
    return (), "no memory is known to be near these CPUs"
