"""Who used a GPU's energy: the ranks that claimed it while it was drawn, or none.

The rule: ranks that hold a GPU at the same time share its energy of that time evenly; what is drawn
while no rank holds it is the idle remainder. So ranks and remainder add up to the GPUs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hpckit.measure.energy_sum import sum_of_boards
from hpckit.measure.gpu_energy import GpuEnergy
from hpckit.model.account import Conservation, Energy, EnergySource

_CUT: Final = {
    "sample": "the node's last evidence",
    "processes": "nothing ran on its GPUs any more",
    "next-life": "its rank was started anew",
}


class RankClaim(Struct, frozen=True, kw_only=True):
    """A life of a rank on one node: the GPUs that it held, from when to when (CLOCK_MONOTONIC).

    `ended_by` is as in hpckit.model.account.RankAccount.
    """

    rank: int
    gpus: tuple[str, ...]
    started_ns: int
    ended_ns: int
    ended_by: str = "ledger"


class Attribution(Struct, frozen=True, kw_only=True):
    """Energies by rank's life (in the order of the claims) and idle remainders by GPU."""

    ranks: tuple[Energy, ...]
    idle_remainder_j: Mapping[str, float]
    conservation: Conservation


def marks_of(claims: Iterable[RankClaim], window_ns: tuple[int, int]) -> tuple[int, ...]:
    """The moments at which a fold must know the energy, so that `attribute` can be asked."""
    times = {moment for claim in claims for moment in (claim.started_ns, claim.ended_ns)}
    begin, end = window_ns
    return tuple(sorted({begin, end} | {moment for moment in times if begin < moment < end}))


def attribute(
    gpus: Mapping[str, GpuEnergy], claims: Sequence[RankClaim], window_ns: tuple[int, int]
) -> Attribution:
    """The energies of claims within the window in which the job held `gpus` (by uuid).

    Every GPU's marks must hold those of `marks_of`. A GPU that is claimed and not in `gpus` counts
    as not measured.
    """
    shares: list[list[Energy]] = [[] for _ in claims]
    joules: list[list[float]] = [[] for _ in claims]
    idle_j: dict[str, float] = {}
    places = _places(claims)
    for uuid, gpu in gpus.items():
        mine = [claims[at] for at in places.get(uuid, ())]
        times = marks_of(mine, window_ns)
        spans = _spans(gpu, mine, times)
        idle_j[uuid] = math.fsum(span.joules for span in spans if not span.holders)
        for at, claim in zip(places.get(uuid, ()), mine, strict=True):
            held = spans[bisect_left(times, claim.started_ns) : bisect_left(times, claim.ended_ns)]
            joules[at].append(math.fsum(span.joules / span.holders for span in held))
            shares[at].append(_share(gpu, held))
    energies = tuple(
        _of_rank(claim, of_gpus, parts, set(gpus))
        for claim, of_gpus, parts in zip(claims, shares, joules, strict=True)
    )
    total_j = math.fsum(
        gpu.joules_at(window_ns[1]) - gpu.joules_at(window_ns[0]) for gpu in gpus.values()
    )
    conservation = Conservation(
        ranks_j=math.fsum(part for parts in joules for part in parts),
        idle_remainder_j=math.fsum(idle_j.values()),
        gpus_j=total_j,
    )
    return Attribution(ranks=energies, idle_remainder_j=idle_j, conservation=conservation)


def _places(claims: Sequence[RankClaim]) -> dict[str, list[int]]:
    """Which claims are of a GPU, by uuid."""
    found: dict[str, list[int]] = {}
    for at, claim in enumerate(claims):
        for uuid in dict.fromkeys(claim.gpus):
            found.setdefault(uuid, []).append(at)
    return found


class _Span(NamedTuple):
    """A stretch of the window in which the same claims hold a GPU, and how many these are."""

    joules: float
    time_s: float
    whole: Energy
    holders: int


def _spans(gpu: GpuEnergy, claims: Sequence[RankClaim], times: Sequence[int]) -> list[_Span]:
    """The stretches between moments, among which are those at which claims begin and end.

    A claim holds those from its beginning to its end. They are counted, not asked claim by claim:
    a job may start a rank thousands of times.
    """
    lasting = [one for one in claims if one.started_ns < one.ended_ns]
    begun = sorted(one.started_ns for one in lasting)
    ended = sorted(one.ended_ns for one in lasting)
    spans = []
    for begin, end in pairwise(times):
        holders = bisect_right(begun, begin) - bisect_right(ended, begin)
        joules = gpu.joules_at(end) - gpu.joules_at(begin)
        spans.append(_Span(joules, (end - begin) / 1e9, gpu.energy_between(begin, end), holders))
    return spans


def _share(gpu: GpuEnergy, held: Sequence[_Span]) -> Energy:
    """A rank's part of one GPU's energy: its ± are of one board, and add up."""
    known = [span for span in held if span.whole.value_j is not None]
    if not held:
        return Energy(value_j=None, scope=gpu.scope, because="of the rank its start alone is known")
    if not known:
        return held[0].whole
    time_s = math.fsum(span.time_s for span in held)
    covered_s = math.fsum(span.whole.coverage_frac * span.time_s for span in held)
    sources = {span.whole.source for span in known}
    longest = max(known, key=lambda span: span.time_s)
    most = max(span.holders for span in held)
    shared = f"an even share among up to {most} ranks on the GPU; " if most > 1 else ""
    return Energy(
        value_j=math.fsum(span.joules / span.holders for span in held),
        plus_minus_j=_half_width(known),
        unseen_j=math.fsum(span.whole.unseen_j / span.holders for span in known),
        source=sources.pop() if len(sources) == 1 else EnergySource.MIXED,
        coverage_frac=covered_s / time_s,
        scope=gpu.scope,
        because=shared + longest.whole.because,
    )


def _half_width(spans: Sequence[_Span]) -> float | None:
    """That of a rank's part of them; None where one has none."""
    halves = [(span.whole.plus_minus_j, span.holders) for span in spans]
    known = [half_j / ranks for half_j, ranks in halves if half_j is not None]
    return math.fsum(known) if len(known) == len(halves) else None


def _of_rank(
    claim: RankClaim, shares: Sequence[Energy], joules: Sequence[float], known: set[str]
) -> Energy:
    """A rank's energy over its GPUs; a GPU of which nothing is known is said."""
    if not claim.gpus:
        return Energy(value_j=None, because="it claims no GPU")
    unknown = [uuid for uuid in claim.gpus if uuid not in known]
    missing = [Energy(value_j=None, because=f"nothing is known of {uuid}") for uuid in unknown]
    total = sum_of_boards([*shares, *missing])
    if total.value_j is None:
        return total
    words = [total.because] if total.because else []
    if claim.ended_by in _CUT:
        words.append(f"it was killed: until {_CUT[claim.ended_by]}")
    return replace(total, value_j=math.fsum(joules), because="; ".join(words))
