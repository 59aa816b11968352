"""What the fold of one GPU says: its energy between any two marks, with its provenance."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.power import COLUMNS, GAIN_SIGMA_FRAC
from hpckit.account.rows import Floats, Times
from hpckit.account.values import (
    SPLIT_GPU,
    Conservation,
    Energy,
    EnergyReason,
    EnergySource,
)
from hpckit.core.late import regex
from hpckit.core.quantities import whole_sum
from hpckit.core.text import first_of

_Z95: Final = 1.96
_T95: Final = 2.09
"""Student's t: the spread of gains is itself known from some twenty kinds of board."""
GAIN_FRAC: Final = _T95 * GAIN_SIGMA_FRAC / (1 - _T95 * GAIN_SIGMA_FRAC)
"""Half width of the gain's interval: a reading is gain × truth, so the truth lies farther up."""
DISAGREE_FRAC: Final = 0.2
_DISAGREE_S: Final = 1.0
"""Counter and integral differ by as much as this time's energy at the edges of any interval."""
_ENDS: Final = 2
_LEAST_COVERED: Final = 0.995


class GpuEnergy(Struct, frozen=True, kw_only=True):
    """The energy of one GPU in one boot.

    `joules` and the like are by `marks_ns`. `energy` is that from the first mark to the last;
    `counter_j` and `integral_j` are what each of both says of it, None where it is not whole.
    `counts` is how many rows there were, and how often what was wrong with them, as in `_FAULTS`.
    """

    uuid: str
    scope: str
    marks_ns: Times
    columns: NDArray[np.float64]
    edge_variance_j2: Floats
    counts: Counter[str]
    most_w: float
    is_split: bool = False

    @property
    def joules(self) -> Floats:
        """The energy from an origin to each mark: differences are those of the times between."""
        energy: Floats = self.columns[0]
        return energy

    @property
    def energy(self) -> Energy:
        """From the first mark to the last."""
        if len(self.marks_ns) < _ENDS:
            return Energy(value_j=None, scope=self.scope, because="empty time range")
        return self.energy_between(int(self.marks_ns[0]), int(self.marks_ns[-1]))

    @property
    def counter_j(self) -> float | None:
        """The counter's part of the window that power covers too."""
        return self._whole("counter_j")

    @property
    def integral_j(self) -> float | None:
        """The integral of the power over the same time as `counter_j`, else over the window."""
        return self._whole("checked_j" if self.counter_j is not None else "integral_j")

    def joules_at(self, at_ns: int) -> float:
        """The energy from an origin to a mark. Raises ValueError for a moment that is no mark."""
        return float(self.columns[0, self._place(at_ns)])

    def energy_between(self, a_ns: int, b_ns: int) -> Energy:
        """From one mark to a later one. Raises ValueError for a moment that is no mark."""
        first, last = self._place(a_ns), self._place(b_ns)
        step = self._step(first, last)
        time_s = (b_ns - a_ns) / 1e9
        covered = min(1.0, max(0.0, step["covered_s"]) / time_s) if time_s > 0 else 1.0
        if covered <= 0 and step["energy_j"] <= 0:
            why = "the energy counter did not change, and there are no samples"
            if self.counts["rows"]:
                why = "no reading of counter or power in this time"
            return Energy(value_j=None, scope=self.scope, because=why)
        half_j = self._half_width(step, first, last)
        return Energy(
            value_j=max(0.0, step["energy_j"]),
            plus_minus_j=None if self.is_split else half_j,
            unseen_j=0.0 if self.is_split else max(0.0, step["unseen_j"]),
            source=_source(step),
            coverage_frac=1.0 if covered > _LEAST_COVERED else covered,
            scope=self.scope,
            because=self._because(step, time_s, covered),
        )

    def _place(self, at_ns: int) -> int:
        place = int(np.searchsorted(self.marks_ns, at_ns))
        if place == len(self.marks_ns) or int(self.marks_ns[place]) != at_ns:
            raise ValueError(f"{at_ns} is none of the marks that were given before the rows")
        return place

    def _step(self, first: int, last: int) -> dict[str, float]:
        difference = self.columns[:, last] - self.columns[:, first]
        return dict(zip(COLUMNS, difference.tolist(), strict=True))

    def _half_width(self, step: dict[str, float], first: int, last: int) -> float:
        edges_j2 = float(self.edge_variance_j2[first] + self.edge_variance_j2[last])
        random_j = _Z95 * math.sqrt(max(0.0, edges_j2 + step["variance_j2"]))
        # No meter has shown that the counter's gain is another than that of the power it sums up.
        gain_j = GAIN_FRAC * abs(step["energy_j"])
        half_j = math.hypot(random_j, gain_j) + max(0.0, step["unseen_j"])
        if _is_disputed(step, self._power_w()):
            half_j = max(half_j, abs(step["counter_j"] - step["checked_j"]))
        return half_j

    def _power_w(self) -> float:
        time_s = (int(self.marks_ns[-1]) - int(self.marks_ns[0])) / 1e9
        return self._step(0, -1)["energy_j"] / time_s if time_s > 0 else 0.0

    def _whole(self, name: str) -> float | None:
        if len(self.marks_ns) < _ENDS:
            return None
        step = self._step(0, -1)
        has_any = step["counter_j"] > 0 if name != "integral_j" else step["integral_s"] > 0
        return step[name] if has_any else None

    def _because(self, step: dict[str, float], time_s: float, covered: float) -> str:
        parts = [_made_of(step)]
        if covered <= _LEAST_COVERED:
            parts.append(f"{100 * covered:.0f} % of the time measured")
        if _is_disputed(step, self._power_w()):
            parts.append(
                f"counter and power disagree: {step['counter_j']:.0f} J against"
                f" {step['checked_j']:.0f} J"
            )
        if step["energy_j"] > self.most_w * (time_s + 0.1):
            parts.append("above 1.2 × the power limit: implausible")
        if self.is_split:
            parts.append("whole GPU (all MIG instances): the job's share is unknown")
        if self.scope == "module":
            parts.append("whole module: CPU and memory included")
        parts += _told(self.counts)
        return "; ".join(parts)


def _source(step: dict[str, float]) -> EnergySource:
    integrated, total = abs(step["integrated_j"]), abs(step["energy_j"])
    if integrated <= 0.01 * total:
        return EnergySource.COUNTER
    return EnergySource.INTEGRATED if integrated >= 0.999 * total else EnergySource.MIXED


def _made_of(step: dict[str, float]) -> str:
    source = _source(step)
    gain = f"board gain uncertain by ± {100 * GAIN_SIGMA_FRAC:.0f} % (standard deviation)"
    if source is EnergySource.COUNTER:
        return f"the driver's energy counter, {gain}"
    unseen = "" if step["unseen_j"] <= 0 else "; ± includes what the sensor does not see"
    if source is EnergySource.INTEGRATED:
        return f"integrated power, {gain}{unseen}"
    share = 100 * step["integrated_j"] / step["energy_j"] if step["energy_j"] else 0.0
    return f"energy counter, and integrated power for {share:.0f} %, {gain}{unseen}"


_FAULTS: Final = {
    "resets": ("counter reset", "counter resets"),
    "frozen": ("stall of the counter", "stalls of the counter"),
    "impossible": ("impossible counter step", "impossible counter steps"),
    "gaps": ("gap in the samples", "gaps in the samples"),
}
"""What may be wrong with rows; a step above the power limit × 1.2 is impossible."""


def _told(counts: Counter[str]) -> list[str]:
    faults = ((counts[name], *words) for name, words in _FAULTS.items())
    return [f"{count} {one if count == 1 else many}" for count, one, many in faults if count]


def _is_disputed(step: dict[str, float], power_w: float) -> bool:
    counter_j, checked_j = step["counter_j"], step["checked_j"]
    if counter_j <= 0 and checked_j <= 0:
        return False
    apart_j = abs(counter_j - checked_j)
    return apart_j > DISAGREE_FRAC * max(counter_j, checked_j) + _DISAGREE_S * abs(power_w) / 2


_MOST_NOTES: Final = 6
_WIDEST_FIRST: Final = ("node", "module", SPLIT_GPU, "gpu", "cpu")
"""The scope of a sum is the widest of its parts': a module holds its GPU."""
_NUMBER: Final = regex(r"\d[\d.,]*")


class Part(NamedTuple):
    """A part of a sum: `meter` is what measured it, a board or a node, and `time_s` for how long.

    What a meter is off by is the same each time, so that its ± add up; those of meters add as
    squares, but for what sensors of boards in step do not see.
    """

    energy: Energy
    meter: str
    time_s: float = 1.0


def sum_of_boards(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of several boards over the same time: their gains are independent."""
    parts = [Part(energy, str(place)) for place, energy in enumerate(energies)]
    return sum_of_parts(parts, because=because)


def sum_of_parts(parts: Sequence[Part], *, because: str = "") -> Energy:
    """All that is known of the parts; no ± where one of these has none."""
    energies = [part.energy for part in parts]
    known = [one for one in energies if one.value_j is not None]
    scopes = {one.scope for one in energies}
    scope = next((scope for scope in _WIDEST_FIRST if scope in scopes), "gpu")
    if not known:
        words = list(dict.fromkeys(one.because for one in energies if one.because))
        return Energy(
            value_j=None,
            scope=scope,
            because="; ".join(words) or "nothing to sum",
            reasons=tuple(dict.fromkeys(reason for one in energies for reason in reasons_of(one)))
            if any(one.reasons for one in energies)
            else (),  # parts that have words alone, as those of GPUs do
        )
    words = [because] if because else _notes(known)
    if len(known) < len(parts):
        words.append(f"{len(parts) - len(known)} of {len(parts)} not measured")
    sources = {one.source for one in known}
    return Energy(
        value_j=math.fsum(one.value_j or 0.0 for one in known),
        plus_minus_j=_half_width(parts),
        unseen_j=math.fsum(one.unseen_j for one in known),
        source=next(iter(sources)) if len(sources) == 1 else EnergySource.MIXED,
        coverage_frac=_coverage(parts),
        scope=scope,
        because="; ".join(words),
    )


def reasons_of(energy: Energy) -> tuple[EnergyReason, ...]:
    """Why an energy is not known; its words are the reason where it has no other."""
    if energy.reasons or not energy.because:
        return energy.reasons
    return (EnergyReason(text=energy.because),)


def _half_width(parts: Sequence[Part]) -> float | None:
    by_meter: dict[str, float] = {}
    unseen_j = 0.0
    for energy, meter, _ in parts:
        if energy.value_j is None:
            continue
        if energy.plus_minus_j is None:
            return None
        unseen_j += energy.unseen_j
        own_j = max(0.0, energy.plus_minus_j - energy.unseen_j)
        by_meter[meter] = by_meter.get(meter, 0.0) + own_j
    return math.hypot(*by_meter.values()) + unseen_j


def _coverage(parts: Sequence[Part]) -> float:
    time_s = math.fsum(part.time_s for part in parts)
    if time_s <= 0:
        return sum(part.energy.coverage_frac for part in parts) / len(parts)
    return math.fsum(part.energy.coverage_frac * part.time_s for part in parts) / time_s


def _notes(energies: Iterable[Energy]) -> list[str]:
    """What the parts say of themselves, each kind of note once: some differ in numbers alone."""
    kinds: dict[str, dict[str, None]] = {}
    for energy in energies:
        for note in filter(None, energy.because.split("; ")):
            kinds.setdefault(_NUMBER.sub("#", note), {})[note] = None
    told = [
        next(iter(alike)) + (f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else "")
        for alike in kinds.values()
    ]
    return first_of(told, _MOST_NOTES, "more notes")


_SLURM_SCOPES: Final = {
    "rapl": "cpu",
    "ipmi": "node",
    "xcc": "node",
    "ibmaem": "node",
    "pm_counters": "node",
}
"""What Slurm's plugins count: RAPL the CPUs and their memory, the others whole nodes."""


def from_slurm(consumed_j: float, plugin: str, *, is_exclusive: bool | None) -> Energy:
    """What Slurm's accounting says of a job's nodes: ConsumedEnergyRaw of the job, never of steps.

    `plugin` is AcctGatherEnergyType; no NVIDIA GPU is in RAPL's figure, and that of a plugin not
    known here is not taken. Slurm's figure is of whole nodes: of one that was shared it is not the
    job's. Its ± is stated by nobody. Source: sacct(1), "ConsumedEnergy"; acct_gather.conf(5).
    """
    name = plugin.rpartition("/")[2]
    scope = _SLURM_SCOPES.get(name)
    because = ""
    if scope is None:
        because = f"unknown what Slurm's {plugin} counts"
    elif is_exclusive is False:
        because = "Slurm measures whole nodes, but the job shared them"
    if because:
        return Energy.unknown_of_node(EnergyReason(text=because))
    what = "CPUs and their memory" if scope == "cpu" else "whole nodes"
    shared = "" if is_exclusive else "; includes other jobs there, if any"
    return Energy(
        value_j=consumed_j, source=EnergySource.SLURM, coverage_frac=1.0, scope=scope or "node",
        because=f"Slurm's ConsumedEnergy ({name}): {what}; ± unknown{shared}",
    )  # fmt: skip


# The rule: ranks that hold a GPU at the same time share its energy of that time evenly; what is
# drawn while no rank holds it is the idle remainder. So ranks and remainder add up to the GPUs.

_CUT: Final = {
    "sample": "the node's last record",
    "processes": "its GPUs went idle",
    "next-life": "it was restarted",
}


class RankClaim(Struct, frozen=True, kw_only=True):
    """A life of a rank on one node: the GPUs that it held, from when to when (CLOCK_MONOTONIC).

    `ended_by` is as in hpckit.account.values.RankAccount.
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
        return Energy(value_j=None, scope=gpu.scope, because="the rank recorded only its start")
    if not known:
        return held[0].whole
    time_s = math.fsum(span.time_s for span in held)
    covered_s = math.fsum(span.whole.coverage_frac * span.time_s for span in held)
    sources = {span.whole.source for span in known}
    longest = max(known, key=lambda span: span.time_s)
    most = max(span.holders for span in held)
    shared = f"even share among up to {most} ranks on the GPU; " if most > 1 else ""
    return Energy(
        value_j=math.fsum(span.joules / span.holders for span in held),
        plus_minus_j=whole_sum(
            None if half_j is None else half_j / span.holders
            for span in known
            for half_j in [span.whole.plus_minus_j]
        ),
        unseen_j=math.fsum(span.whole.unseen_j / span.holders for span in known),
        source=sources.pop() if len(sources) == 1 else EnergySource.MIXED,
        coverage_frac=covered_s / time_s,
        scope=gpu.scope,
        because=shared + longest.whole.because,
    )


def _of_rank(
    claim: RankClaim, shares: Sequence[Energy], joules: Sequence[float], known: set[str]
) -> Energy:
    if not claim.gpus:
        return Energy(value_j=None, because="the rank has no GPU")
    unknown = [uuid for uuid in claim.gpus if uuid not in known]
    missing = [Energy(value_j=None, because=f"no data on {uuid}") for uuid in unknown]
    total = sum_of_boards([*shares, *missing])
    if total.value_j is None:
        return total
    words = [total.because] if total.because else []
    if claim.ended_by in _CUT:
        words.append(f"killed: counted until {_CUT[claim.ended_by]}")
    return replace(total, value_j=math.fsum(joules), because="; ".join(words))
