"""Samples of one incarnation as series of equal moments, a row a GPU: what a comparison is of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from hpckit.measure.compare_states import WaitingPower, shares_of, states_in, useful_shares
from hpckit.measure.rows import Rows, Times, counter_steps, measured, rows_by_gpu
from hpckit.measure.spread import Floats
from hpckit.model.series import SampleChunk, SampledGpu

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
        self._waiting = WaitingPower()

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
        uuid = gpu.uuid
        states = states_in(times, rows)
        self._waiting.add(gpu, states, measured(rows, "power_mw") * 1e-3)
        for name, shares in zip((USEFUL_FRAC, _QUIET_FRAC), shares_of(states), strict=True):
            self._put(uuid, name, at, shares)
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
        """The series; a quantity that was never measured has no matrix."""
        uuids = sorted({uuid for one in self._sums.values() for uuid in one})
        found = {name: _matrix(one, uuids, self._bins) for name, one in self._sums.items()}
        if (quiet := found.pop(_QUIET_FRAC, None)) is not None:
            waiting = np.array([self._waiting.of(uuid) for uuid in uuids])
            power_w = found.get("power_w")
            found[USEFUL_FRAC] = useful_shares(found[USEFUL_FRAC], quiet, power_w, waiting)
        return JobSeries(
            uuids=tuple(uuids),
            matrices=found,
            bin_s=self._bin_ns / 1e9,
            skipped_s=self.skipped_s,
        )


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
