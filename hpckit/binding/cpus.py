"""The CPUs that ranks may be bound to, as cores, in L3 groups, in parts that are equally near."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import chain, product
from typing import Final

from hpckit.binding.gpus import Beside, apportion, chunks, dealt, seats
from hpckit.core.errors import PlanError
from hpckit.core.index_list import expand_indices, index_list
from hpckit.core.units import counted, runs
from hpckit.core.values import dataclass
from hpckit.node.topology import NodeTopology, NumaKind, NumaNode

_PAIR: Final = 2
_FEW: Final = 2
"""So few ranks have a whole node, as ranks of several GPUs have; more keep to their GPUs' CPUs."""
_UNKNOWN: Final = (3, 0)
"""A distance that is farther than any that the firmware or packages tell."""
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
            "no allowed CPU is on this node",
            have=f"CPUs {index_list(wanted) or 'none'} allowed",
            need=f"CPUs of this node ({index_list(of_node) or 'unknown'})",
            hint="use the topology of the same node, and the CPUs that the job has there",
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
    l3_of_cpu = {
        cpu: at
        for at, group in reversed(tuple(enumerate(node.cpu.l3)))
        for cpu in expand_indices(group.cpus)
    }
    found = []
    for mark, cores in parts.items():
        groups: dict[int | None, list[Core]] = {}
        for core in cores:
            groups.setdefault(l3_of_cpu.get(core[0]), []).append(core)
        numa = tuple(node.numa_nodes[at].index for at in mark if at < len(sets))
        found.append(Domain(numa=numa, groups=tuple(map(tuple, groups.values()))))
    return tuple(found)


def with_told_numa(node: NodeTopology) -> NodeTopology:
    """The node with the NUMA nodes that its GPUs tell of, where it describes none with CPUs."""
    if any(numa.cpus for numa in node.numa_nodes):
        return node
    left = frozenset(chain.from_iterable(expand_indices(gpu.cpus or "") for gpu in node.gpus))
    described = {numa.index: numa for numa in node.numa_nodes}
    for gpu in node.gpus:
        cpus = left.intersection(expand_indices(gpu.cpus or ""))
        index = gpu.numa_index
        known = None if index is None else described.get(index)
        if index is not None and index >= 0 and cpus and not (known and known.cpus):
            left -= cpus
            described[index] = NumaNode(index=index, cpus=index_list(cpus))
    return dataclasses.replace(node, numa_nodes=tuple(described.values()))


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
        return (), "NUMA node of these CPUs unknown"
    plain = [
        numa.index
        for numa in node.numa_nodes
        if numa.memory_bytes != 0 and numa.kind not in (NumaKind.GPU, NumaKind.HBM)
    ]
    local = tuple(sorted(beside.intersection(plain)))
    if local:
        return local, "local to these CPUs"
    distances = Distances(node)
    for numa in sorted(beside):
        nearest = distances.nearest(numa, ((at, (at,)) for at in plain))
        if nearest is not None:
            return (nearest,), f"nearest: NUMA {numa} has no memory"
    return (), "nearest memory unknown"


# --- Which parts each rank has a share of: those beside its GPUs, where it can.


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The domains that a rank has a share of, how much it weighs in each, and why these.

    `is_moved` says that it is not beside a GPU of it, though it is known where that is.
    """

    weights: dict[int, int] = field(default_factory=dict)
    because: str
    is_moved: bool = False


class Places:
    """Puts ranks into domains, so that no two share a core unless there are more than cores."""

    def __init__(
        self, domains: Sequence[Domain], gpus: Sequence[Beside], distances: Distances
    ) -> None:
        self._domains = domains
        self._gpus = gpus
        self._distances = distances
        self._homes = [self._home(gpu) for gpu in gpus]

    def of_ranks(self, ranks: Sequence[range]) -> list[Place]:
        """The place of each rank; `ranks` are the positions of their GPUs."""
        homes = [self._homes_of(gpus) for gpus in ranks]
        if not any(homes) and all(self._origin(gpus) is None for gpus in ranks):
            lack = "NUMA nodes of the GPUs unknown" if self._gpus else "no GPU on this node"
            why = f"spread over the NUMA nodes: {lack}"
            return self._spread(len(ranks), why)
        room = self._room(len(ranks))
        seated = seats([tuple(each) for each in homes], room)
        taken = [seated.count(at) for at in range(len(room))]
        most = sum(room) - seated.count(None)  # what is left is for those without a seat
        found: list[Place | None] = [None] * len(ranks)
        for rank, seat in enumerate(seated):
            if seat is not None:
                found[rank] = self._at_home(ranks[rank], seat, homes[rank], taken, most)
        places = [
            place if place is not None else self._elsewhere(ranks[rank], room, taken)
            for rank, place in enumerate(found)
        ]
        is_few = len(ranks) <= _FEW or len(ranks) < len(self._gpus)
        has_room = len(ranks) <= len(self._domains)
        return self._with_idle(places) if is_few and has_room else places

    def _with_idle(self, places: Sequence[Place]) -> list[Place]:
        """Give domains that no rank is in to the ranks nearest to them, so that no core idles.

        Source: mpibind, whose few tasks have all NUMA domains with its option `greedy`.
        """
        used = {at for place in places for at in place.weights}
        nearest: dict[int, list[int]] = {}
        for idle in set(range(len(self._domains))) - used:
            far = [self._between(place.weights, idle) for place in places]
            nearest[idle] = [rank for rank, each in enumerate(far) if each == min(far)]
        added: list[list[int]] = [[] for _ in places]
        for idle, ranks in sorted(nearest.items(), key=lambda item: len(item[1])):
            fewest = min(len(added[rank]) for rank in ranks)
            takers = [rank for rank in ranks if len(added[rank]) == fewest]
            for rank in takers[: len(self._domains[idle].cores)]:
                added[rank].append(idle)
        return [
            dataclasses.replace(
                place,
                weights=dict(sorted({**place.weights, **dict.fromkeys(more, 1)}.items())),
                because=f"{place.because}, and where no rank is near" if more else place.because,
            )
            for place, more in zip(places, added, strict=True)
        ]

    def _between(self, homes: Iterable[int], other: int) -> tuple[int, int]:
        """How far a domain is from the nearest of some; what nothing tells is the farthest."""
        pairs = product(
            chain.from_iterable(self._domains[at].numa for at in homes), self._domains[other].numa
        )
        known = (far for one, to in pairs if (far := self._distances.between(one, to)) is not None)
        return min(known, default=_UNKNOWN)

    def _home(self, gpu: Beside) -> tuple[int, ...]:
        """The domains beside a GPU; its affinity stands in for a NUMA node without usable CPUs."""
        by_numa = [at for at, one in enumerate(self._domains) if gpu.numa in one.numa]
        return tuple(by_numa or (at for at, one in enumerate(self._domains) if gpu.cpus & one.cpus))

    def _homes_of(self, gpus: range) -> dict[int, int]:
        counts: dict[int, int] = {}
        for gpu in gpus:
            for home in self._homes[gpu]:
                counts[home] = counts.get(home, 0) + 1
        return counts

    def _origin(self, gpus: range) -> int | None:
        """The NUMA node of the first of the GPUs that has one."""
        return next((at for gpu in gpus if (at := self._gpus[gpu].numa) is not None), None)

    def _room(self, ranks: int) -> list[int]:
        """How many ranks each domain takes: one a core, else one a CPU, else any number."""
        cores = [len(one.cores) for one in self._domains]
        cpus = [len(one.cpus) for one in self._domains]
        if sum(cores) >= ranks:
            return cores
        return cpus if sum(cpus) >= ranks else [ranks] * len(cpus)

    def _spread(self, ranks: int, because: str) -> list[Place]:
        """Ranks in runs over the domains by their cores; fewer than domains have several each.

        Source: mpibind's distribution of tasks over NUMA domains, with its option `greedy`.
        """
        cores = [len(one.cores) for one in self._domains]
        if ranks <= len(cores):
            runs = chunks(range(len(cores)), apportion(len(cores), [1] * ranks))
            return [Place(weights=dict.fromkeys(run, 1), because=because) for run in runs]
        taken = [0] * len(cores)
        for _ in range(ranks):
            # Where one more rank would have the most cores; of equals the first.
            share = [count / (taken[at] + 1) for at, count in enumerate(cores)]
            taken[share.index(max(share))] += 1
        at = [domain for domain, count in enumerate(taken) for _ in range(count)]
        return [Place(weights={domain: 1}, because=because) for domain in at]

    def _at_home(
        self, gpus: range, seat: int, homes: dict[int, int], taken: list[int], most: int
    ) -> Place:
        weights = {seat: homes[seat]}
        for home in sorted(set(homes) - {seat}):
            # A rank with GPUs in several places has cores in each, if there are any to spare.
            if taken[home] < len(self._domains[home].cores) and sum(taken) < most:
                taken[home] += 1
                weights[home] = homes[home]
        return Place(weights=dict(sorted(weights.items())), because=f"near {gpu_words(gpus)}")

    def _elsewhere(self, gpus: range, room: Sequence[int], taken: list[int]) -> Place:
        free = [at for at in range(len(room)) if taken[at] < room[at]]
        origin = self._origin(gpus)
        nearest = None
        if origin is not None:
            among = ((at, self._domains[at].numa) for at in free)
            nearest = self._distances.nearest(origin, among)
        place = max(free, key=lambda at: (len(self._domains[at].cores) / (taken[at] + 1), -at))
        place = place if nearest is None else nearest
        taken[place] += 1
        return Place(
            weights={place: max(1, len(gpus))},
            because=self._why_elsewhere(gpus, origin, is_nearest=nearest is not None),
            is_moved=bool(self._homes_of(gpus)) or origin is not None,
        )

    def _why_elsewhere(self, gpus: range, origin: int | None, *, is_nearest: bool) -> str:
        words = gpu_words(gpus)
        if origin is None and not self._homes_of(gpus):
            return f"NUMA node of {words} unknown"
        lack = "no core left" if self._homes_of(gpus) else "no allowed CPU"
        where = f"near {words}" if origin is None else f"on NUMA {origin}, near {words}"
        kind = "nearest with room" if is_nearest else "with room"
        return f"{kind}: {lack} {where}"


def gpu_words(gpus: Sequence[int]) -> str:
    """`GPU 3`, `GPUs 2-3` of a run."""
    if len(gpus) == 1:
        return f"GPU {gpus[0]}"
    return f"GPUs {gpus[0]}-{gpus[-1]}" if gpus else "no GPU"


_MOST_UNEVEN: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The CPUs of a rank, the domains they are of, and why these."""

    cpus: tuple[int, ...] = ()
    domains: tuple[int, ...] = ()
    because: str


_Part = tuple[tuple[int, ...], str]
"""The CPUs that a rank gets of one domain, and in words."""


def split(domains: Sequence[Domain], places: Sequence[Place]) -> list[Share]:
    """The share of each rank; a core is one rank's unless a domain has fewer cores than ranks."""
    parts: list[dict[int, _Part]] = [{} for _ in places]
    for at, domain in enumerate(domains):
        ranks = [rank for rank, place in enumerate(places) if at in place.weights]
        weights = [places[rank].weights[at] for rank in ranks]
        for rank, part in zip(ranks, _split(domain, weights), strict=True):
            parts[rank][at] = part
    return [
        Share(
            cpus=tuple(sorted(cpu for cpus, _ in of_rank.values() for cpu in cpus)),
            domains=tuple(of_rank),
            because=", ".join((*(words for _, words in of_rank.values()), place.because)),
        )
        for of_rank, place in zip(parts, places, strict=True)
    ]


def _split(domain: Domain, weights: Sequence[int]) -> list[_Part]:
    if not weights:
        return []
    where = f" of NUMA {'+'.join(map(str, domain.numa))}" if domain.numa else ""
    if len(weights) == 1:
        words = f"all {counted(len(domain.cores), 'core')}{where}"
        return [_part(domain.cores, words)]
    runs = _whole_groups(domain, weights)
    if runs is not None:
        return [
            _part(
                tuple(chain.from_iterable(run)),
                f"{len(run)} of {len(domain.groups)} L3 groups{where}",
            )
            for run in runs
        ]
    return _split_cores(domain.cores, weights, where)


def _whole_groups(
    domain: Domain, weights: Sequence[int]
) -> list[Sequence[tuple[Core, ...]]] | None:
    """Runs of whole L3 groups, None if there are too few or one run had twice another's cores."""
    if len(domain.groups) < len(weights):
        return None
    runs = chunks(domain.groups, apportion(len(domain.groups), weights))
    cores = [sum(map(len, run)) / weight for run, weight in zip(runs, weights, strict=True)]
    return runs if max(cores) <= _MOST_UNEVEN * min(cores) else None


def _split_cores(cores: Sequence[Core], weights: Sequence[int], where: str) -> list[_Part]:
    ranks = len(weights)
    if len(cores) >= ranks:
        runs = chunks(cores, apportion(len(cores), weights))
        return [_part(run, f"{len(run)} of {counted(len(cores), 'core')}{where}") for run in runs]
    cpus = tuple(chain.from_iterable(cores))
    shared = f"{where} ({counted(len(cores), 'core')} for {ranks} ranks)"
    if len(cpus) >= ranks:
        return [
            (cpus[run.start : run.stop], f"{len(run)} of {counted(len(cpus), 'CPU')}{shared}")
            for run in dealt(len(cpus), ranks)
        ]
    return [
        ((cpus[run.start],), f"1 of {counted(len(cpus), 'CPU')}{shared}, shared")
        for run in dealt(len(cpus), ranks)
    ]


def _part(cores: Sequence[Core], words: str) -> _Part:
    return tuple(chain.from_iterable(cores)), words
