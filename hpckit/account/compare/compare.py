"""Two jobs compared by their samples: what differs, what does not, and what could not be seen.

Each job is one run: intervals are of what its samples tell of it, and no run-to-run spread is in
them. `spread` says what they are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil, fsum, inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.compare.show import ComparedJob, ComparedQuantity, Comparison, Interval, Verdict
from hpckit.account.compare.spread import (
    LEAST_INDEPENDENT,
    LEAST_SAMPLES,
    QUANTITIES,
    USEFUL_FRAC,
    WARM_UP_FRAC,
    Floats,
    JobSeries,
    Lack,
    Spread,
    series_of,
    spread_of,
    summed,
    t_power,
    t_quantile,
)
from hpckit.account.gather import Gathered, SampleSpan, SampleStore
from hpckit.account.samples import SampleChunk
from hpckit.account.stragglers import useful_frac
from hpckit.account.values import SPLIT_GPU, GpuAccount, JobReport
from hpckit.core.errors import HpckitError, ParseError, StorageFailed
from hpckit.spec.job_folder import EFFECTIVE_FILE

if TYPE_CHECKING:
    from hpckit.spec.store import FileJobFolders


_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
NOT_MEASURED: Final = "not measured in {}"
_FEW: Final = "{} {} sampled for too short a time: add {}"
_SLOW: Final = "{} {} too short for such slow changes: add about {}"


def which(are_absent: Sequence[bool]) -> str:
    """`A`, `B` or `A and B`."""
    return " and ".join(name for name, is_so in zip("AB", are_absent, strict=True) if is_so)


def notes_of_missing(*reports: JobReport) -> Iterator[str]:
    """That a report has less than its job had, of A's and B's each."""
    for name, report in zip("AB", reports, strict=True):
        if report.missing:
            yield f"{name} is incomplete: its own report says what is missing"


def _lack(spread: Spread | Lack, bin_s: float, absent: str) -> list[tuple[str, float]]:
    """What is said of one, and how many seconds more it would take; nothing of a good one."""
    if isinstance(spread, Spread):
        return []
    if not spread.moments:
        return [(absent, 0.0)]
    if spread.independent is None:
        return [(_FEW, (LEAST_SAMPLES - spread.moments) * bin_s)]
    # What hangs together for as long is worth as many samples more as there is more of it.
    return [(_SLOW, spread.moments * bin_s * (LEAST_INDEPENDENT / spread.independent - 1))]


def _sentence(kind: str, sides: Sequence[tuple[str, float]]) -> str:
    names = " and ".join(name for name, _ in sides)
    if kind not in (_FEW, _SLOW):
        return kind.format(names)
    is_one = len(sides) == 1
    be = {_FEW: ("was", "were"), _SLOW: ("is", "are")}[kind][0 if is_one else 1]
    # A part of what a job has more is left out as its start.
    more_s = max(more_s for _, more_s in sides) / (1 - WARM_UP_FRAC)
    time = f"{ceil(more_s)} s" if kind is _FEW else _rough(more_s)
    return kind.format(names, be, time) + ("" if is_one else " each")


def _rough(seconds: float) -> str:
    """Rounded up: how long samples hang together is an estimate."""
    if seconds <= _MINUTE_S:
        return f"{ceil(seconds / 10) * 10} s"
    if seconds <= 2 * _HOUR_S:
        return f"{ceil(seconds / _MINUTE_S)} min"
    return f"{ceil(seconds / _HOUR_S)} h"


RANKS_ALONE: Final = "no GPU was measured in either job: the ranks' usage is compared"
_NO_LEDGER: Final = "{:,} of {:,} ranks {} no ledger in {}"


class Used(Struct, frozen=True, kw_only=True):
    """CPU time and the largest process of the last incarnation; None where a rank tells none.

    `absent` of its `world_size` ranks left no ledger.
    """

    cpu_s: float | None
    max_rss_bytes: float | None
    absent: int
    world_size: int


def last_restart(report: JobReport) -> int:
    """The incarnation that a comparison is of."""
    runs, gpus = report.incarnations, report.gpus
    return max((*(one.restart for one in runs), *(one.restart for one in gpus)), default=0)


def used_by(report: JobReport, world_size: int | None) -> Used:
    """What is known of a job of which the ranks say that they were `world_size` (None: do not)."""
    last = last_restart(report)
    ranks = [rank for rank in report.ranks if rank.restart == last]
    known = len({rank.rank for rank in ranks})
    cpu_s = [rank.cpu_s for rank in ranks if rank.cpu_s is not None]
    rss_bytes = [rank.max_rss_bytes for rank in ranks if rank.max_rss_bytes is not None]
    absent = max(0, (world_size or 0) - known)
    is_whole = bool(ranks) and not absent
    return Used(
        cpu_s=fsum(cpu_s) if is_whole and len(cpu_s) == len(ranks) else None,
        max_rss_bytes=max(rss_bytes) if is_whole and len(rss_bytes) == len(ranks) else None,
        absent=absent,
        world_size=world_size or 0,
    )


def why_not_used(a: Used, b: Used, values: tuple[float | None, float | None]) -> str:
    """Why one of two values, A's and B's, is not known; empty where both are."""
    words = [
        _NO_LEDGER.format(one.absent, one.world_size, "has" if one.absent == 1 else "have", name)
        for name, one in zip("AB", (a, b), strict=True)
        if one.absent
    ]
    absent = [value is None and not one.absent for value, one in zip(values, (a, b), strict=True)]
    return "; ".join([*words, NOT_MEASURED.format(which(absent))] if any(absent) else words)


EQUAL_TEMPERATURE: Final = "power_at_equal_temperature_w"
_STRATUM_C: Final = 2.0
"""As wide as NVML's whole degrees allow without empty strata."""
_LEAST_OVERLAP_FRAC: Final = 0.1
"""With less time in common temperatures there is nothing to compare at."""
_FEW_BOARDS: Final = 4
_ROUNDING: Final = 1e-9
_SURE_SIGNS: Final = 3.0
"""Standard errors between a mean and 0 from which its logarithm has an interval."""
_HALF_WIDTH: Final = 1.96
"""Standard errors in the half width of the 95 % interval of a measured energy."""
_S_PER_H: Final = 3600.0
_ONE: Final = "each job is one run: the intervals leave out variation from run to run"


class ComparedSide(Struct, frozen=True, kw_only=True):
    """One of the jobs: its report, its samples, and what it was asked to be, by dotted key.

    Chunks and `world_size`, how many ranks there were by what they say, are of the last
    incarnation. `recipe` or `world_size` None is not known.
    """

    report: JobReport
    chunks: Iterable[SampleChunk]
    recipe: Mapping[str, str] | None = None
    world_size: int | None = None


class _Pair(Struct, frozen=True):
    """The series of both jobs."""

    a: JobSeries
    b: JobSeries

    @property
    def same_boards(self) -> bool:
        """Whether both had the very same GPUs."""
        return bool(self.a.uuids) and self.a.uuids == self.b.uuids

    @property
    def method(self) -> str:
        """What intervals are made of."""
        if self.same_boards:
            return "blocks of time, on the same GPUs in both"
        if min(len(self.a.uuids), len(self.b.uuids)) > 1:
            return "blocks of time, and GPUs as clusters"
        return "blocks of time, without variation between boards: one job has a single GPU"

    def matrices(self, name: str) -> tuple[Floats, Floats]:
        """A quantity of both."""
        return self.a.of(name), self.b.of(name)

    def spreads(self, matrices: Iterable[Floats]) -> list[Spread | Lack]:
        """A Spread of each, or what it lacks."""
        return [spread_of(matrix, same_boards=self.same_boards) for matrix in matrices]

    def why_unknown(self, spreads: Sequence[Spread | Lack], absent: str = NOT_MEASURED) -> str:
        """A sentence on those that tell no variance.

        `absent` is what is said of one without values, with `{}` for which.
        """
        found: dict[str, list[tuple[str, float]]] = {}
        for name, spread, series in zip("AB", spreads, (self.a, self.b), strict=True):
            for kind, more_s in _lack(spread, series.bin_s, absent):
                found.setdefault(kind, []).append((name, more_s))
        return "; ".join(_sentence(kind, sides) for kind, sides in found.items())


def compare(a: ComparedSide, b: ComparedSide) -> Comparison:
    """B against A: each quantity of both, its difference and ratio with intervals, a verdict."""
    pair = _Pair(_series(a), _series(b))
    gpus = _last(a.report), _last(b.report)
    rates = [_mean_of(map(_energy_rate, mine)) for mine in gpus]
    errors = [_energy_error(mine, pair.same_boards) for mine in gpus]
    useful = [_mean_of(map(useful_frac, mine)) for mine in gpus]
    quantities = (
        *(_sampled(name, pair) for name in QUANTITIES),
        _at_equal_temperature(pair),
        _of_accounts("energy_per_gpu_hour_j", pair, rates, errors, ("power_w", _S_PER_H)),
        _of_accounts(USEFUL_FRAC, pair, useful, (0.0, 0.0), (USEFUL_FRAC, 1.0)),
        _duration(a, b),
    )
    return Comparison(
        a=_job(a.report),
        b=_job(b.report),
        recipe=_recipe(a.recipe, b.recipe),
        quantities=quantities,
        notes=(*_notes(pair), *_split(*gpus), *notes_of_missing(a.report, b.report)),
    )


def compare_ranks(a: ComparedSide, b: ComparedSide) -> Comparison:
    """B against A where neither has a GPU: a number each, of what their ranks used."""
    first, second = used_by(a.report, a.world_size), used_by(b.report, b.world_size)
    cpu_s = first.cpu_s, second.cpu_s
    rss_bytes = first.max_rss_bytes, second.max_rss_bytes
    return Comparison(
        a=_job(a.report),
        b=_job(b.report),
        recipe=_recipe(a.recipe, b.recipe),
        quantities=(
            _of_one_run("cpu_s", *cpu_s, why_not_used(first, second, cpu_s)),
            _of_one_run("max_rss_bytes", *rss_bytes, why_not_used(first, second, rss_bytes)),
            _duration(a, b),
        ),
        notes=(RANKS_ALONE, _ONE, *notes_of_missing(a.report, b.report)),
    )


def _span(report: JobReport) -> tuple[float, float]:
    """The last incarnation."""
    last = max(report.incarnations, key=lambda one: one.restart, default=None)
    return (report.started_s, report.ended_s) if last is None else (last.started_s, last.ended_s)


def _last(report: JobReport) -> tuple[GpuAccount, ...]:
    last = max((gpu.restart for gpu in report.gpus), default=0)
    return tuple(gpu for gpu in report.gpus if gpu.restart == last)


def _series(side: ComparedSide) -> JobSeries:
    begin_s, end_s = _span(side.report)
    return series_of(side.chunks, begin_s, end_s, len(_last(side.report)))


def _sampled(name: str, pair: _Pair) -> ComparedQuantity:
    matrices = pair.matrices(name)
    one, other = pair.spreads(matrices)
    if isinstance(one, Lack) or isinstance(other, Lack):
        return _unknown(name, pair.why_unknown([one, other]), map(_mean, matrices))
    return compared(name, one, other, pair.method)


def _mean(matrix: Floats) -> float | None:
    return float(np.nanmean(matrix)) if np.isfinite(matrix).any() else None


def compared(name: str, a: Spread, b: Spread, method: str) -> ComparedQuantity:
    """Two means with their variances as a difference, a ratio and a verdict."""
    apart = b.mean - a.mean
    both = summed(apart, [(a.variance, a.df), (b.variance, b.df)])
    error = sqrt(both.variance)
    half = t_quantile(both.df) * error
    # A series that never changed has no variance, and equal ones do not differ by rounding.
    least = max(half, _ROUNDING * max(abs(a.mean), abs(b.mean)))
    return ComparedQuantity(
        name=name,
        a=a.mean,
        b=b.mean,
        difference=Interval(value=apart, low=apart - half, high=apart + half),
        ratio=_ratio(a, b, t_quantile(both.df)),
        smallest_seen=t_power(both.df) * error,
        verdict=Verdict.DIFFERS if abs(apart) > least else Verdict.NOT_SEEN,
        method=method,
    )


def _ratio(a: Spread, b: Spread, quantile: float) -> Interval | None:
    """B by A with the interval of its logarithm; without one where either may be 0."""
    if a.mean == 0:
        return None
    ratio = b.mean / a.mean
    if any(abs(one.mean) <= _SURE_SIGNS * sqrt(one.variance) for one in (a, b)) or ratio <= 0:
        return Interval(value=ratio)
    error = sqrt(a.variance / a.mean**2 + b.variance / b.mean**2)
    factor = float(np.exp(quantile * error))
    return Interval(value=ratio, low=ratio / factor, high=ratio * factor)


def _unknown(
    name: str, because: str, values: Iterable[float | None] = (None, None)
) -> ComparedQuantity:
    a, b = values
    return ComparedQuantity(name=name, a=a, b=b, because=because)


def _at_equal_temperature(pair: _Pair) -> ComparedQuantity:
    """Power where each temperature weighs as it does in both: warm silicon takes more."""
    power, heat = map(pair.matrices, ("power_w", "temperature_c"))
    absent = which(
        [not (watts.size and degrees.size) for watts, degrees in zip(power, heat, strict=True)]
    )
    if absent:
        because = f"power or temperature was not measured in {absent}"
        return _unknown(EQUAL_TEMPERATURE, because)
    strata = list(map(_strata, power, heat))
    most = int(max(one.max(initial=0) for one in strata)) + 1
    shares = [np.bincount(one[one >= 0], minlength=most) for one in strata]
    fractions = [share / max(1, share.sum()) for share in shares]
    common = np.minimum(*fractions)
    if common.sum() < _LEAST_OVERLAP_FRAC:
        because = f"the jobs had temperatures in common for only {common.sum():.0%} of the time"
        return _unknown(EQUAL_TEMPERATURE, because)
    weights = [common / np.maximum(own, _ROUNDING) for own in fractions]
    means, influences = zip(*map(_influence, power, strata, weights), strict=True)
    one, other = pair.spreads(influences)
    if isinstance(one, Lack) or isinstance(other, Lack):
        return _unknown(EQUAL_TEMPERATURE, pair.why_unknown([one, other]))
    method = f"{pair.method}; at temperatures common to both, {common.sum():.0%} of the time"
    # A weighted mean varies as the mean of its influence values does.
    one, other = one._replace(mean=means[0]), other._replace(mean=means[1])
    return compared(EQUAL_TEMPERATURE, one, other, method)


def _strata(power: Floats, heat: Floats) -> NDArray[np.int64]:
    known = np.isfinite(power) & np.isfinite(heat)
    strata = np.full(power.shape, -1, np.int64)
    strata[known] = (np.maximum(heat[known], 0) / _STRATUM_C).astype(np.int64)
    return strata


def _influence(power: Floats, strata: NDArray[np.int64], weights: Floats) -> tuple[float, Floats]:
    """A weighted mean, and of each moment what it would be by that moment alone."""
    given = np.where(strata >= 0, weights[np.maximum(strata, 0)], np.nan)
    mean = float(np.nansum(given * power) / np.nansum(given))
    return mean, mean + given * (power - mean) / float(np.nanmean(given))


def _energy_rate(gpu: GpuAccount) -> float | None:
    measured_s = _measured_s(gpu)
    if gpu.energy.value_j is None or measured_s <= 0:
        return None
    return gpu.energy.value_j / measured_s * _S_PER_H


def _measured_s(gpu: GpuAccount) -> float:
    return gpu.held_s * gpu.energy.coverage_frac


def _energy_error(gpus: Sequence[GpuAccount], same_boards: bool) -> float | None:
    """What the sensors do not see, since another load hides another part.

    Boards' gains cancel where the boards are the same, and are what several boards differ by. Of
    a single GPU beside another nothing but the ± tells of them.
    """
    halves = [gpu.energy.plus_minus_j for gpu in gpus if gpu.energy.value_j is not None]
    if None in halves:
        return None
    unseen_j = sum(gpu.energy.unseen_j for gpu in gpus)
    is_single = len(halves) == 1 and not same_boards
    half_j = sum(half_j or 0.0 for half_j in halves) if is_single else unseen_j
    hours = sum(_measured_s(gpu) for gpu in gpus) / _S_PER_H
    return half_j / _HALF_WIDTH / hours if hours > 0 else None


def _of_accounts(
    name: str, pair: _Pair, means: Sequence[float | None], errors: Sequence[float | None],
    course: tuple[str, float],
) -> ComparedQuantity:  # fmt: skip
    """The report's means, with the variance of their samples: what all GPUs share is in that.

    `errors` are what a measurement may be off by in a whole job (standard deviations), and `course`
    is the series that has the quantity over time, with the factor to it. What the samples do not
    explain of the difference, such as that of the first seconds, counts as an error.
    """
    sampled, factor = course
    by_a, by_b = pair.spreads(pair.matrices(sampled))
    (was, is_now), (error_a, error_b) = means, errors
    if was is None or is_now is None:
        because = NOT_MEASURED.format(which([mean is None for mean in means]))
    elif isinstance(by_a, Lack) or isinstance(by_b, Lack):
        because = pair.why_unknown([by_a, by_b], "no samples over time in {}")
    elif error_a is None or error_b is None:
        because = "uncertainty of the energy unknown"
    else:
        unexplained = is_now - was - factor * (by_b.mean - by_a.mean)
        parts = [(factor**2 * by_b.variance, by_b.df), (error_b**2, inf), (unexplained**2, inf)]
        one = summed(was, [(factor**2 * by_a.variance, by_a.df), (error_a**2, inf)])
        return compared(name, one, summed(is_now, parts), f"{pair.method}; means from the reports")
    return _unknown(name, because, means)


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _duration(a: ComparedSide, b: ComparedSide) -> ComparedQuantity:
    first, second = (end_s - begin_s for begin_s, end_s in map(_span, (a.report, b.report)))
    return _of_one_run("elapsed_s", first, second)


def _of_one_run(
    name: str, first: float | None, second: float | None, because: str = ""
) -> ComparedQuantity:
    """Two numbers, and nothing that tells how runs of a job differ; `because` one is not known."""
    if first is None or second is None:
        return _unknown(name, because, (first, second))
    return ComparedQuantity(
        name=name,
        a=first,
        b=second,
        difference=Interval(value=second - first),
        ratio=Interval(value=second / first) if first > 0 else None,
        because="one run each: variation from run to run unknown",
    )


def _job(report: JobReport) -> ComparedJob:
    begin_s, end_s = _span(report)
    return ComparedJob(
        job_id=report.job.job_id,
        name=report.job.name,
        state=report.job.state,
        nodes=report.job.nodes,
        gpus=report.job.gpus,
        elapsed_s=end_s - begin_s,
        synthetic=report.job.synthetic,
    )


def _recipe(a: Mapping[str, str] | None, b: Mapping[str, str] | None) -> tuple[str, ...] | None:
    if a is None or b is None:
        return None
    keys = dict.fromkeys((*a, *b))
    return tuple(
        f"{key}: {a.get(key, 'not set')} → {b.get(key, 'not set')}"
        for key in keys
        if a.get(key) != b.get(key)
    )


def _notes(pair: _Pair) -> Iterable[str]:
    a, b = pair.a, pair.b
    yield _ONE
    yield f"the first {max(a.skipped_s, b.skipped_s):.0f} s are left out (start-up, sensor delay)"
    few = inf if pair.same_boards else min(len(a.uuids), len(b.uuids))
    if few < _FEW_BOARDS:
        yield "fewer than 4 GPUs in a job: board variation is uncertain, so intervals are wide"
    yield "at 95 % each, about 1 in 20 quantities differs by chance alone"


def _split(*jobs: Sequence[GpuAccount]) -> Iterable[str]:
    if any(gpu.energy.scope == SPLIT_GPU for gpus in jobs for gpu in gpus):
        yield "energy is of whole GPUs (all MIG instances, also those of other jobs)"


_NOT_THE_RECIPE = frozenset({"name", "schema"})


def compare_reports(a: ComparedSide, b: ComparedSide) -> Comparison:
    """B against A: their GPUs, or their ranks where neither has a GPU that was measured.

    Raises HpckitError where one of them has.
    """
    with_gpus = [bool(side.report.gpus) for side in (a, b)]
    if not any(with_gpus):
        return compare_ranks(a, b)
    if not all(with_gpus):
        name, side, other = ("A", a, "B") if with_gpus[1] else ("B", b, "A")
        why = side.report.energy.gpu.because
        raise HpckitError(
            f"{name} has no measured GPU{f' ({why})' if why else ''}, but {other} has; "
            "expected GPUs in both or in neither",
            hint="compare jobs of the same kind, or see each: hpckit report JOB, or --from FOLDER",
        )
    return compare(a, b)


def side_of(
    report: JobReport, gathered: Gathered, store: SampleStore, folders: FileJobFolders
) -> ComparedSide:
    """One side of a comparison: samples of the last incarnation; the recipe from the job folder."""
    folder, last = report.job.folder, last_restart(report)
    evidence = [one for one in gathered.evidence if one.restart == last]
    said = [life.start.world_size for one in evidence for life in one.lives]
    return ComparedSide(
        report=report,
        chunks=_chunks([span for one in evidence for span in one.spans], store),
        recipe=None if folder is None else recipe_of(Path(folder), folders),
        world_size=max((one for one in said if one is not None), default=None),
    )


def _chunks(spans: Sequence[SampleSpan], store: SampleStore) -> Iterator[SampleChunk]:
    """What can be read of the files that the report is of: its `missing` says what cannot."""
    for span in spans:
        with suppress(StorageFailed, ParseError):
            yield from store.samples(span.path)


def recipe_of(folder: Path, folders: FileJobFolders) -> Mapping[str, str] | None:
    """What a job was asked to be, by dotted key as JSON text; None where its folder does not say.

    Its name is not part of it.
    """
    try:
        origins: Any = folders.read_json(folder, EFFECTIVE_FILE).get("origins")
    except StorageFailed:
        return None
    if not isinstance(origins, list):
        return None
    return {
        str(one["key"]): str(one["value"])
        for one in origins
        if isinstance(one, dict) and {"key", "value"} <= one.keys()
        if one["key"] not in _NOT_THE_RECIPE
    }
