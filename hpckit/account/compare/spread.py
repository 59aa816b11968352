"""How well samples of one job tell a mean: the variance of it, with all that samples share.

Samples of a GPU hang together in time (phases of the program, inertia of heat, the sensor's own
averaging), and GPUs of a job hang together at one time (they wait for each other). A mean over
them is known worse than their number says. Here its variance is the sum of two parts:

- time: the moving-block bootstrap (Künsch 1989) of the mean over all GPUs at each moment, so that
  what the GPUs share counts once. For a mean the bootstrap's variance has a closed form, hence no
  random numbers. Blocks are as long as Politis and White (2004) choose by the autocorrelation;
  where an AR process of the same autocorrelation would spread more, that counts, for blocks
  underestimate short series.
- GPUs as clusters: boards differ (5 % of power is usual), so between their means is more than
  time explains. Not where both jobs had the very same boards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.activity import (
    IDLE,
    QUIET,
    TRANSFER_MIB_PER_S,
    UNKNOWN,
    USEFUL,
    states_of,
    waiting_w,
)
from hpckit.account.rows import Rows, Times, rows_by_gpu
from hpckit.account.sample_format import MISSING
from hpckit.account.samples import SampleChunk, SampledGpu

Floats = NDArray[np.float64]

LEAST_SAMPLES: Final = 16
"""With fewer moments no autocorrelation is to be seen, and no interval is given."""
LEAST_INDEPENDENT: Final = 4.0
"""… nor with samples that hang together so long that they are worth fewer than this many: by
simulation intervals then cover less than the 95 % that they claim (tests/property/test_spread)."""
_MOST_BLOCK_FRAC: Final = 0.2
"""Fewer than five blocks tell no variance."""
_MOST_RHO: Final = 0.995
_SWINGS: Final = -0.25
"""Second coefficient of AR(2) below which a series swings, and does not by chance alone."""

_T_DF: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60, 120, 1e9)
_T_975: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.179, 2.131, 2.086, 2.042),
    *(2.000, 1.980, 1.960),
)
_T_80: Final = (
    *(1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.889, 0.879, 0.873, 0.866, 0.860, 0.854),
    *(0.848, 0.845, 0.842),
)
"""Quantiles of Student's t by degrees of freedom: tables of any textbook."""


class Spread(NamedTuple):
    """A mean, the variance of it, and the degrees of freedom of that variance."""

    mean: float
    variance: float
    df: float


class Lack(NamedTuple):
    """Moments of which no variance is told: none, too few, or too few that count.

    `independent` is how many that do not hang together they are worth, None of too few moments.
    """

    moments: int
    independent: float | None = None


def spread_of(matrix: Floats, *, same_boards: bool) -> Spread | Lack:
    """The mean over GPUs (rows) and moments (columns), NaN being no measurement.

    A Lack with fewer than LEAST_SAMPLES moments, or LEAST_INDEPENDENT that count.
    """
    matrix = matrix[np.isfinite(matrix).any(axis=1)]
    matrix = matrix[:, np.isfinite(matrix).any(axis=0)]
    moments = matrix.shape[1] if len(matrix) else 0
    if moments < LEAST_SAMPLES:
        return Lack(moments)
    gpu_means = np.nanmean(matrix, axis=1)
    own = matrix - gpu_means[:, None]
    common = np.nanmean(own, axis=0)
    parts = [variance_of_mean(common)]
    if float(common.var()) < LEAST_INDEPENDENT * parts[0][0]:
        return Lack(moments, float(common.var()) / parts[0][0])
    if len(matrix) > 1 and not same_boards:
        parts.append(_between(gpu_means, own - common))
    return summed(float(gpu_means.mean()), parts)


def summed(mean: float, parts: list[tuple[float, float]]) -> Spread:
    """Independent parts of a variance with their degrees of freedom, after Satterthwaite."""
    total = sum(variance for variance, _ in parts)
    denominator = sum(variance**2 / df for variance, df in parts if np.isfinite(df))
    return Spread(mean, total, total**2 / denominator if denominator > 0 else np.inf)


def _between(gpu_means: Floats, residuals: Floats) -> tuple[float, float]:
    """What boards differ by beyond what their own samples explain, as a part of the mean's."""
    gpus = len(gpu_means)
    explained = [
        variance_of_mean(row[np.isfinite(row)])[0]
        for row in residuals
        if np.isfinite(row).sum() >= LEAST_SAMPLES
    ]
    by_time = float(np.mean(explained)) * gpus / (gpus - 1) if explained else 0.0
    boards = max(0.0, float(gpu_means.var(ddof=1)) - by_time)
    return boards / gpus, gpus - 1.0


def variance_of_mean(values: Floats) -> tuple[float, float]:
    """The variance of a series' mean and its degrees of freedom."""
    count = len(values)
    centred = values - values.mean()
    covariance = _autocovariance(centred)
    if covariance[0] <= 0:
        return 0.0, np.inf
    block = block_length(covariance, count)
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    means = (sums[block:] - sums[:-block]) / block
    by_blocks = block / count * float(np.mean(means**2)) * count / (count - block)
    return max(by_blocks, _by_model(covariance, count)), max(1.0, count / block - 1)


def _by_model(covariance: Floats, count: int) -> float:
    """The variance of the mean of a simple process with the same first autocorrelations.

    AR(1); of what swings, as the steps of a training do, AR(2): a mean over whole swings is known
    far better than the slow change from one sample to the next makes believe.
    """
    rho, second = (float(value / covariance[0]) for value in covariance[1:3])
    if rho < 1:
        later = (second - rho**2) / (1 - rho**2)
        earlier = rho * (1 - later)
        if later < _SWINGS and earlier**2 + 4 * later < 0:
            noise = float(covariance[0]) * (1 - rho**2) * (1 - later**2)
            return noise / (1 - earlier - later) ** 2 / count
    # An estimate of rho is too small by (1 + 3 rho) / n (Kendall 1954).
    rho = min(max(rho + (1 + 3 * rho) / count, 0.0), _MOST_RHO)
    return float(covariance[0]) / (count - 1) * (1 + rho) / (1 - rho)


def block_length(covariance: Floats, count: int) -> int:
    """The length of moving blocks that Politis and White (2004, corrected 2009) choose."""
    rho = covariance / covariance[0]
    quiet = max(5, int(np.sqrt(np.log10(count))))
    limit = 2 * np.sqrt(np.log10(count) / count)
    most = min(len(rho) - 1, int(np.ceil(np.sqrt(count))) + quiet)
    loud = np.flatnonzero(np.abs(rho[1 : most + 1]) > limit) + 1
    last = _last_loud(loud, quiet)
    lags = np.arange(1, min(2 * max(last, 1), len(covariance) - 1) + 1)
    taper = np.clip(2 * (1 - lags / (2 * max(last, 1))), 0, 1)
    spectrum = covariance[0] + 2 * float(np.sum(taper * covariance[lags]))
    slope = 2 * float(np.sum(taper * lags * covariance[lags]))
    longest = max(1, int(count * _MOST_BLOCK_FRAC))
    if spectrum <= 0:
        return longest
    length = (1.5 * (slope / spectrum) ** 2 * count) ** (1 / 3)
    return int(min(max(1, np.ceil(length)), longest))


def _last_loud(loud: NDArray[np.intp], quiet: int) -> int:
    """The last lag with a correlation before `quiet` lags without any."""
    last = 0
    for lag in loud.tolist():
        if lag - last > quiet:
            break
        last = lag
    return last


def _autocovariance(centred: Floats) -> Floats:
    count = len(centred)
    size = 1 << (2 * count - 1).bit_length()
    transform = np.fft.rfft(centred, size)
    covariance: Floats = np.fft.irfft(transform * transform.conj(), size)[:count] / count
    return covariance


def t_quantile(df: float) -> float:
    """The half width of a 95 % interval in standard errors."""
    return _by_df(df, _T_975)


def t_power(df: float) -> float:
    """How many standard errors a difference must have to be seen in 8 of 10 cases."""
    return _by_df(df, _T_975) + _by_df(df, _T_80)


def _by_df(df: float, quantiles: tuple[float, ...]) -> float:
    """Linear in 1/df between the rows of the table, which is right to 1 %."""
    inverse = 1 / np.asarray(_T_DF)
    return float(np.interp(1 / max(df, 1.0), inverse[::-1], np.asarray(quantiles)[::-1]))


_COLUMNS: Final = (
    "util_pct", "mem_util_pct", "processes", "power_mw", "sm_active_pct100",
    "tensor_active_pct100", "dram_active_pct100",
)  # fmt: skip
_LINKS: Final = ("nvlink_tx_mib", "nvlink_rx_mib", "pcie_tx_mib", "pcie_rx_mib")


def _transfer(times: Times, rows: Rows) -> NDArray[np.bool_] | None:
    if len(rows) <= 1:
        return None
    grown = np.stack([counter_steps(rows, name) for name in _LINKS])
    least_mib = np.diff(times) / 1e9 * TRANSFER_MIB_PER_S
    busy = np.zeros(len(rows), np.bool_)
    busy[1:] = (np.where(np.isfinite(grown), grown, 0.0) >= np.maximum(least_mib, 1.0)).any(axis=0)
    return busy


WARM_UP_S: Final = 10.0
"""Not compared: start of the program, and twice the delay and rise of 1-s sensors (SC24 Yang)."""
WARM_UP_FRAC: Final = 0.1
"""… but of a short job no more than this part."""
MOST_BINS: Final = 4096
_LEAST_BINS: Final = 256
_MOST_CELLS: Final = 1 << 20
_SAMPLES_A_BIN: Final = 2.0
"""Of two the moments hold one at least, however the sampler's ticks fall."""
_GAUGES: Final = {
    "power_w": ("power_mw", 1e-3),
    "utilization_pct": ("util_pct", 1.0),
    "sm_mhz": ("sm_mhz", 1.0),
    "temperature_c": ("temp_c", 1.0),
    "tensor_active_frac": ("tensor_active_pct100", 1e-4),
    "dram_active_frac": ("dram_active_pct100", 1e-4),
}
_SHARES: Final = {
    "thermal_throttled_frac": (("sw_thermal_ms", "hw_thermal_ms"), 0x20 | 0x40),
    "power_capped_frac": (("sw_power_cap_ms",), 0x04),
}
"""Counters of milliseconds, and the bits of nvmlClocksEventReasons where there are none."""
QUANTITIES: Final = (*_GAUGES, *_SHARES)
USEFUL_FRAC: Final = "useful_frac"
"""A series beside them, of what the report has as well."""
_QUIET_FRAC: Final = "quiet_frac"


class JobSeries(Struct, frozen=True, kw_only=True):
    """By quantity a matrix of GPUs × moments, NaN where nothing was measured."""

    uuids: tuple[str, ...]
    matrices: dict[str, Floats]
    bin_s: float
    skipped_s: float

    def of(self, name: str) -> Floats:
        """The matrix of a quantity, empty where it was never measured."""
        return self.matrices.get(name, np.zeros((0, 0)))


class SeriesFold:
    """Collects chunks into bins between two moments of the wall clock."""

    def __init__(self, begin_s: float, end_s: float, gpus: int) -> None:
        span_s = max(end_s - begin_s, 1e-3)
        self.skipped_s = min(WARM_UP_S, WARM_UP_FRAC * span_s)
        self._begin_ns = int((begin_s + self.skipped_s) * 1e9)
        self._span_s = span_s - self.skipped_s
        self._most = min(MOST_BINS, max(_LEAST_BINS, _MOST_CELLS // max(1, gpus)))
        self._bin_ns = 0
        self._bins = 0
        self._sums: dict[str, dict[str, tuple[Floats, Floats]]] = {}
        self._still_w: dict[str, float] = {}
        self._limit_w: dict[str, float] = {}

    def add(self, chunk: SampleChunk) -> None:
        """The next chunk; those of a file in their order."""
        if not self._bins:
            period_s = _SAMPLES_A_BIN / chunk.meta.hz if chunk.meta.hz > 0 else 1.0
            bin_s = max(period_s, self._span_s / self._most)
            self._bin_ns = max(1, int(bin_s * 1e9))
            self._bins = max(1, int(self._span_s / bin_s))
        for place, times, rows in rows_by_gpu(chunk):
            if place < len(chunk.meta.gpus):
                at = (times + (chunk.realtime_offset_ns - self._begin_ns)) // self._bin_ns
                self._add(chunk.meta.gpus[place], at, times, rows)

    def _add(self, gpu: SampledGpu, at: Times, times: Times, rows: Rows) -> None:
        uuid, power_w = gpu.uuid, measured(rows, "power_mw") * 1e-3
        columns = {name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}
        states = states_of(columns, _transfer(times, rows))
        still_w = power_w[(states <= IDLE) & np.isfinite(power_w)]
        if len(still_w):
            self._still_w[uuid] = min(self._still_w.get(uuid, np.inf), float(still_w.min()))
        if gpu.power_limit_w is not None:
            self._limit_w[uuid] = gpu.power_limit_w
        for name, state in ((USEFUL_FRAC, USEFUL), (_QUIET_FRAC, QUIET)):
            self._put(uuid, name, at, np.where(states != UNKNOWN, states == state, np.nan))
        for name, (column, unit) in _GAUGES.items():
            self._put(uuid, name, at, measured(rows, column) * unit)
        for name, (counters, bits) in _SHARES.items():
            self._put(uuid, name, at, _share(rows, times, counters, bits))

    def _put(self, uuid: str, name: str, at: Times, values: Floats) -> None:
        there = np.isfinite(values) & (at >= 0) & (at < self._bins)
        if not there.any():
            return
        of_gpu = self._sums.setdefault(name, {})
        if uuid not in of_gpu:
            of_gpu[uuid] = (np.zeros(self._bins), np.zeros(self._bins))
        sums, counts = of_gpu[uuid]
        sums += np.bincount(at[there], values[there], self._bins)
        counts += np.bincount(at[there], minlength=self._bins)

    def result(self) -> JobSeries:
        """The series."""
        uuids = sorted({uuid for one in self._sums.values() for uuid in one})
        found = {name: _matrix(one, uuids, self._bins) for name, one in self._sums.items()}
        quiet, power_w = found.pop(_QUIET_FRAC, None), found.get("power_w")
        if quiet is not None and power_w is not None and np.nansum(quiet):
            most_w = np.array([self._waiting_w(uuid) for uuid in uuids])
            found[USEFUL_FRAC] = found[USEFUL_FRAC] + quiet * ~(power_w <= most_w[:, None])
        return JobSeries(
            uuids=tuple(uuids),
            matrices=found,
            bin_s=self._bin_ns / 1e9,
            skipped_s=self.skipped_s,
        )

    def _waiting_w(self, uuid: str) -> float:
        """Up to which power a GPU waits whose memory is quiet; below any where nothing tells."""
        if uuid not in self._still_w or uuid not in self._limit_w:
            return -np.inf
        return waiting_w(self._still_w[uuid], self._limit_w[uuid])


def series_of(chunks: Iterable[SampleChunk], begin_s: float, end_s: float, gpus: int) -> JobSeries:
    """The series of a job's samples between two moments, seconds since the epoch."""
    fold = SeriesFold(begin_s, end_s, gpus)
    for chunk in chunks:
        fold.add(chunk)
    return fold.result()


def _matrix(of_gpu: dict[str, tuple[Floats, Floats]], uuids: list[str], bins: int) -> Floats:
    matrix = np.full((len(uuids), bins), np.nan)
    for row, uuid in enumerate(uuids):
        if uuid in of_gpu:
            sums, counts = of_gpu[uuid]
            np.divide(sums, counts, out=matrix[row], where=counts > 0)
    return matrix


def _share(rows: Rows, times: Times, counters: tuple[str, ...], bits: int) -> Floats:
    """The share of the time before each row for which the clocks were held down.

    Of two counters the greater growth counts: what both count is one time, not two.
    """
    shares = np.full(len(rows), np.nan)
    if len(rows) > 1:
        spans_ms = np.maximum(np.diff(times) / 1e6, 1e-3)
        grown = np.stack([counter_steps(rows, name, 2 * spans_ms + 2000) for name in counters])
        known = np.isfinite(grown).any(axis=0)
        most = np.where(np.isfinite(grown), grown, 0.0).max(axis=0)
        shares[1:] = np.where(known, np.minimum(most / spans_ms, 1.0), np.nan)
    reasons = measured(rows, "event_reasons")
    flagged = np.where(np.isfinite(reasons), (rows["event_reasons"] & bits) != 0, np.nan)
    return np.where(np.isfinite(shares), shares, flagged)


def measured(rows: Rows, name: str) -> Floats:
    """A column as numbers, NaN where it was not measured. Raises ValueError for no such column."""
    column = rows[name]
    values: Floats = column.astype(np.float64)
    values[column == MISSING[column.dtype.itemsize]] = np.nan
    return values


def counter_steps(rows: Rows, name: str, most: float | Floats | None = None) -> Floats:
    """By how much a counter grew from each row to the next, in its unit; one less than rows.

    Differences are taken modulo the column's size: a counter that passed its largest number grew
    as well. A step above `most` (one number, or one a step; None: half the column's range) is a
    counter that began anew, and NaN as a step from or to "not measured" is.
    """
    column = rows[name]
    bits = 8 * column.dtype.itemsize
    steps: Floats = np.subtract(column[1:], column[:-1]).astype(np.float64)
    is_missing = column == MISSING[column.dtype.itemsize]
    limit = 2.0 ** (bits - 1) if most is None else most
    steps[is_missing[1:] | is_missing[:-1] | (steps > limit)] = np.nan
    return steps
