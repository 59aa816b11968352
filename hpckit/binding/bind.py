"""Binds the ranks of a node: GPUs first, then the CPUs, the memory and the NICs beside them.

Only the standard library is used: each node's first rank runs this inside the job. Sources: the
algorithm is mpibind's (León, "mpibind: A Memory-Centric Affinity Algorithm for Hybrid
Applications", MEMSYS 2017), with GPUs in the place of NUMA nodes as what drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from hpckit.binding.cpus import (
    Distances,
    Domain,
    Place,
    Places,
    Share,
    domains,
    gpu_words,
    memory_of,
    sibling_offset,
    split,
    usable_cpus,
    with_told_numa,
)
from hpckit.binding.gpus import beside, gpus_of_ranks, numa_of, ordered_gpus
from hpckit.core.errors import PlanError
from hpckit.core.hostlist import natural_order
from hpckit.core.index_list import IndexList, index_list
from hpckit.core.units import and_more
from hpckit.core.values import dataclass
from hpckit.node.nics import nic_kinds
from hpckit.node.path import PathKind
from hpckit.node.pci_tree import PciTree
from hpckit.node.rules.rule import CLOSE, path_cells
from hpckit.node.topology import Gpu, Nic, NicRole, NodeTopology, is_down
from hpckit.spec.nic_kind import NicKind


def assign(costs: Sequence[Sequence[int]], room: int) -> list[int]:
    """The column of each row, at most `room` rows to a column, with the least sum of costs.

    There is room for all rows. Source: the successive shortest path algorithm with node potentials
    (Ahuja, Magnanti and Orlin, Network Flows, 9.7 and 12.4), each path found as by Dijkstra, up to
    the first column with room.
    """
    columns = len(costs[0]) if costs else 0
    rows_of: list[list[int]] = [[] for _ in range(columns)]
    chosen = [-1] * len(costs)
    potential = [0] * columns
    for row in range(len(costs)):
        to, moved = _path(costs, rows_of, potential, row, room)
        while True:
            mover, source = moved[to], chosen[moved[to]]
            rows_of[to].append(mover)
            chosen[mover] = to
            if source < 0:
                break
            rows_of[source].remove(mover)
            to = source
    return chosen


def _path(
    costs: Sequence[Sequence[int]],
    rows_of: Sequence[Sequence[int]],
    potential: list[int],
    row: int,
    room: int,
) -> tuple[int, list[int]]:
    """The column with room that adds the least, and who moves to each column on the way there."""
    length = [cost - held for cost, held in zip(costs[row], potential, strict=True)]
    moved = [row] * len(length)
    left = set(range(len(length)))
    settled: list[int] = []
    while True:
        at = min(left, key=lambda column: (length[column], column))
        if len(rows_of[at]) < room:
            break
        left.discard(at)
        settled.append(at)
        for other in rows_of[at]:
            line = costs[other]
            base = length[at] - line[at] + potential[at]
            for to in left:
                if (new := base + line[to] - potential[to]) < length[to]:
                    length[to], moved[to] = new, other
    for column in settled:
        potential[column] += length[column] - length[at]
    return at, moved


# --- Which NIC each rank has: the assignment of least path cost, rails in order where costs tie.
_COST: Final = MappingProxyType(
    {
        **dict.fromkeys((PathKind.SELF, PathKind.C2C, PathKind.PIX), 1),
        PathKind.PXB: 2,
        PathKind.PHB: 4,
        PathKind.NODE: 8,
        PathKind.SYS: 16,
    }
)
"""A path is as bad as two of the next better kind, so that crossing sockets is avoided first."""
_UNKNOWN_COST: Final = 32

Kind = PathKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNic:
    """A NIC of a GPU or rank, the path to it where that is known, and how many others have it."""

    nic: Nic
    kind: Kind
    others: int = 0


class Nics:
    """The NICs that ranks may have, in the order of rails, and those that none may."""

    def __init__(self, node: NodeTopology) -> None:
        self._node = node
        self._tree = PciTree(node.pci)
        ordered = sorted(node.nics, key=lambda nic: (natural_order(nic.name), nic.index))
        is_known = any(nic.role is NicRole.COMPUTE for nic in ordered)
        wanted = NicRole.COMPUTE if is_known else None
        why = {nic.index: _why_not(nic, wanted) for nic in ordered}
        self._refused = [(nic, why[nic.index]) for nic in ordered if why[nic.index] is not None]
        self.usable = tuple(nic for nic in ordered if why[nic.index] is None)
        self._is_role_known = is_known

    def notes(self) -> list[str]:
        """What was refused, and that roles are not known."""
        told = [f"{nic.name} ({why})" for nic, why in self._refused if nic.kind in _FOR_DATA]
        found = []
        if told:
            found.append(f"NICs left out: {and_more(told, 4)}")
        if self.usable and not self._is_role_known:
            found.append("NIC roles unknown: ranks may get any NIC that is up")
        return found

    def for_gpus(self, gpus: Sequence[Gpu]) -> list[list[GivenNic]]:
        """The NICs of each GPU: one, and what else hangs from the same switch and nobody has."""
        kinds = nic_kinds(path_cells(self._node.paths), gpus, self.usable)

        def kind(at: int, nic: Nic) -> Kind:
            told = kinds.get(gpus[at].index, {}).get(nic.index)
            numa = numa_of(gpus[at], self._tree)
            return told or self._by_numa(() if numa is None else (numa,), nic)

        return self._given(len(gpus), kind)

    def for_ranks(self, numa_of_ranks: Sequence[Sequence[int]]) -> list[list[GivenNic]]:
        """The NIC of each rank without GPUs, by the NUMA nodes of its CPUs."""
        return self._given(
            len(numa_of_ranks), lambda at, nic: self._by_numa(numa_of_ranks[at], nic)
        )

    def _by_numa(self, numa: Sequence[int], nic: Nic) -> Kind:
        own = numa_of(nic, self._tree)
        if own is None or not numa:
            return None
        return PathKind.NODE if own in numa else PathKind.SYS

    def _given(self, takers: int, kind: Callable[[int, Nic], Kind]) -> list[list[GivenNic]]:
        nics = self.usable
        if not nics or not takers:
            return [[] for _ in range(takers)]
        kinds = [[kind(at, nic) for nic in nics] for at in range(takers)]
        room = -(-takers // len(nics))
        chosen = assign(_costs(kinds), room)
        found = [
            [GivenNic(nic=nics[to], kind=kinds[at][to], others=chosen.count(to) - 1)]
            for at, to in enumerate(chosen)
        ]
        for to in sorted(set(range(len(nics))) - set(chosen)):
            close = [
                at for at in range(takers)
                if kinds[at][to] in CLOSE and kinds[at][to] == found[at][0].kind
            ]  # fmt: skip
            if close:
                taker = min(close, key=lambda at: (len(found[at]), at))
                found[taker].append(GivenNic(nic=nics[to], kind=kinds[taker][to]))
        return found


_FOR_DATA: Final = frozenset(NicKind) - {NicKind.ETHERNET} | {None}


def _costs(kinds: Sequence[Sequence[Kind]]) -> list[list[int]]:
    """Paths first; then how far a NIC's place is from the taker's, so that rails are in order."""
    takers, nics = len(kinds), len(kinds[0])
    scale = takers * nics * nics + 1
    return [
        [
            (_UNKNOWN_COST if kind is None else _COST.get(kind, 1)) * scale
            + (to - at * nics // takers) ** 2
            for to, kind in enumerate(row)
        ]
        for at, row in enumerate(kinds)
    ]


def _why_not(nic: Nic, wanted: NicRole | None) -> str | None:
    if nic.role is not None and nic.role is not NicRole.COMPUTE:
        return nic.role_because or "not for jobs"
    if nic.role is not wanted:
        return "role unknown"
    return f"its port is {nic.state}" if is_down(nic) else None


# --- The whole. Positions of GPUs are those of CUDA under CUDA_DEVICE_ORDER=PCI_BUS_ID: by PCI
# address among those that the job sees. Source: CUDA C++ Programming Guide, Environment Variables.
BINDING_SCHEMA: Final = "hpckit.binding/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundGpu:
    """A GPU of a rank: `position` by PCI address, `index` in the topology, and who it is."""

    position: int
    index: int
    uuid: str | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBinding:
    """What one rank of a node gets; what is empty is not known, or there is none of it.

    `cpus` are the system's numbers. `memory_numa` are the NUMA nodes to take memory from. Each
    `…_because` says why it is so.
    """

    local_rank: int
    gpus: tuple[BoundGpu, ...] = ()
    gpus_because: str
    cpus: IndexList
    cpus_because: str
    memory_numa: IndexList
    memory_because: str
    nics: tuple[str, ...] = ()
    nics_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBinding:
    """The ranks of one node in the order of their local ranks.

    `notes` say what could not be as it should: two ranks on a core, a GPU far from its CPUs.
    """

    ranks: tuple[RankBinding, ...]
    notes: tuple[str, ...] = ()


def _bound(gpu: Gpu, position: int) -> BoundGpu:
    return BoundGpu(position=position, index=gpu.index, uuid=gpu.uuid, pci=gpu.pci)


def bind_ranks(
    node: NodeTopology,
    ranks: int,
    *,
    allowed: Sequence[int] | None = None,
    gpus_per_rank: int | None = None,
    threads_per_core: int | None = None,
) -> NodeBinding:
    """What each of `ranks` ranks of a node gets, and why.

    Rank r has GPU r, in the order of PCI addresses; where there are more of either, runs of it.
    Its CPUs are whole cores on the NUMA node of its GPUs, among `allowed` (those that the
    topology says are, if None): whole L3 groups if there are enough of them. Ranks share a core
    only where there are fewer cores than ranks. One or two ranks, and ranks of several GPUs, also
    get the NUMA nodes that no rank is on. Without GPUs the NUMA nodes are dealt. Of a core's
    CPUs the first `threads_per_core` are taken. Raises PlanError.
    """
    _check(ranks, gpus_per_rank, threads_per_core)
    node = with_told_numa(node)
    gpus = ordered_gpus(node)
    held, why_gpus = gpus_of_ranks(len(gpus), ranks, gpus_per_rank)
    near = beside(node, gpus)
    affinities = list(dict.fromkeys(one.cpus for one in near if one.numa is None and one.cpus))
    parts = domains(node, usable_cpus(node, allowed), affinities, threads_per_core)
    places, shares = _shares(parts, Places(parts, near, Distances(node)), held)
    numa = [
        tuple(sorted({index for at in share.domains for index in parts[at].numa}))
        for share in shares
    ]
    nics = Nics(node)
    given = _nics_of_ranks(nics, gpus, held, numa)
    memory = [memory_of(node, each) for each in numa]
    return NodeBinding(
        ranks=tuple(
            RankBinding(
                local_rank=rank,
                gpus=tuple(_bound(gpus[position], position) for position in held[rank]),
                gpus_because=why_gpus[rank],
                cpus=index_list(shares[rank].cpus),
                cpus_because=shares[rank].because,
                memory_numa=index_list(memory[rank][0]),
                memory_because=memory[rank][1],
                nics=given[rank][0],
                nics_because=given[rank][1],
            )
            for rank in range(ranks)
        ),
        notes=tuple(_notes(node, parts, places, shares, nics)),
    )


def _check(ranks: int, gpus_per_rank: int | None, threads_per_core: int | None) -> None:
    for what, number in (
        ("ranks per node", ranks),
        ("GPUs per rank", gpus_per_rank),
        ("threads per core", threads_per_core),
    ):
        if number is not None and number < 1:
            raise PlanError(what, have=str(number), need="1 or more")


def _shares(
    parts: Sequence[Domain], places: Places, held: Sequence[range]
) -> tuple[list[Place], list[Share]]:
    if not parts:
        why = "CPUs of this node unknown"
        return [Place(because=why) for _ in held], [Share(because=why) for _ in held]
    found = places.of_ranks(held)
    return found, split(parts, found)


def _nics_of_ranks(
    nics: Nics, gpus: Sequence[Gpu], held: Sequence[range], numa: Sequence[Sequence[int]]
) -> list[tuple[tuple[str, ...], str]]:
    if not nics.usable:
        return [((), "no NIC for jobs is up on this node")] * len(held)
    if not gpus:
        return [_nics_and_why(given, "its CPUs") for given in nics.for_ranks(numa)]
    used = sorted({at for run in held for at in run})
    of_gpu = dict(zip(used, nics.for_gpus([gpus[at] for at in used]), strict=True))
    return [
        _nics_and_why([given for at in run for given in of_gpu[at]], gpu_words(run)) for run in held
    ]


def _nics_and_why(given: Sequence[GivenNic], end: str) -> tuple[tuple[str, ...], str]:
    names = tuple(dict.fromkeys(one.nic.name for one in given))
    kinds = dict.fromkeys("path unknown" if one.kind is None else one.kind.value for one in given)
    shared = ", shared with others" if any(one.others for one in given) else ""
    return names, f"{', '.join(kinds)} to {end}{shared}"


def _notes(
    node: NodeTopology,
    parts: Sequence[Domain],
    places: Sequence[Place],
    shares: Sequence[Share],
    nics: Nics,
) -> list[str]:
    found = []
    cores = sum(len(one.cores) for one in parts)
    if parts and cores < len(shares):
        found.append(f"ranks share cores: {len(shares)} ranks on {cores} allowed cores")
    if parts and not node.cpu.core_cpus:
        offset = sibling_offset(node)
        taken = "assuming one CPU per core"
        if offset is not None:
            taken = f"assuming CPUs n and n+{offset} share a core"
        found.append(f"hardware threads of each core unknown: {taken}")
    moved = [rank for rank, place in enumerate(places) if place.is_moved]
    if moved:
        whose = "its GPU: rank" if len(moved) == 1 else "their GPU: ranks"
        found.append(f"not near {whose} {index_list(moved)}")
    idle = set(range(len(parts))) - {at for share in shares for at in share.domains}
    if idle:
        cpus = index_list(chain.from_iterable(parts[at].cpus for at in idle))
        found.append(f"no rank uses CPUs {cpus}: no rank's GPU is near them")
    return [*found, *nics.notes()]
