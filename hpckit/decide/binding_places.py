"""Which parts of a node's CPUs each rank has a share of: those beside its GPUs, where it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpckit.decide.binding_cpus import Distances, Domain
from hpckit.decide.binding_gpus import Beside
from hpckit.decide.binding_shares import apportion, chunks, seats


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
            lack = "where the GPUs sit is not known" if self._gpus else "the node shows no GPU"
            why = f"dealt over the NUMA nodes: {lack}"
            return self._spread(len(ranks), why)
        room = self._room(len(ranks))
        seated = seats([tuple(each) for each in homes], room)
        taken = [seated.count(at) for at in range(len(room))]
        most = sum(room) - seated.count(None)  # what is left is for those without a seat
        found: list[Place | None] = [None] * len(ranks)
        for rank, seat in enumerate(seated):
            if seat is not None:
                found[rank] = self._at_home(ranks[rank], seat, homes[rank], taken, most)
        return [
            place if place is not None else self._elsewhere(ranks[rank], room, taken)
            for rank, place in enumerate(found)
        ]

    def _home(self, gpu: Beside) -> tuple[int, ...]:
        """The domains beside a GPU; its affinity stands in for a NUMA node without usable CPUs."""
        by_numa = [at for at, one in enumerate(self._domains) if gpu.numa in one.numa]
        return tuple(by_numa or (at for at, one in enumerate(self._domains) if gpu.cpus & one.cpus))

    def _homes_of(self, gpus: range) -> dict[int, int]:
        """Domain → how many of the GPUs are beside it."""
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
            taken[self._roomiest(taken)] += 1
        at = [domain for domain, count in enumerate(taken) for _ in range(count)]
        return [Place(weights={domain: 1}, because=because) for domain in at]

    def _roomiest(self, taken: Sequence[int]) -> int:
        """Where one more rank would have the most cores; of equals the first."""
        share = [len(one.cores) / (taken[at] + 1) for at, one in enumerate(self._domains)]
        return share.index(max(share))

    def _at_home(
        self, gpus: range, seat: int, homes: dict[int, int], taken: list[int], most: int
    ) -> Place:
        weights = {seat: homes[seat]}
        for home in sorted(set(homes) - {seat}):
            # A rank with GPUs in several places has cores in each, if there are any to spare.
            if taken[home] < len(self._domains[home].cores) and sum(taken) < most:
                taken[home] += 1
                weights[home] = homes[home]
        return Place(weights=dict(sorted(weights.items())), because=f"beside {gpu_words(gpus)}")

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
            return f"the place of {words} is not known"
        lack = "no core left" if self._homes_of(gpus) else "no CPU that is allowed here"
        where = "the CPUs beside it" if origin is None else f"NUMA {origin} beside it"
        kind = "the nearest with room" if is_nearest else "with room"
        return f"{kind}: {where} has {lack} for {words}"


def gpu_words(gpus: Sequence[int]) -> str:
    """`GPU 3`, `GPUs 2-3` of a run."""
    if len(gpus) == 1:
        return f"GPU {gpus[0]}"
    return f"GPUs {gpus[0]}-{gpus[-1]}" if gpus else "no GPU"
