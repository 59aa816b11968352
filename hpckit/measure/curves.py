"""Curves for drawing, thinned while the samples pass by: a mean and its envelope a piece of time.

A point is the mean of the samples in one of equal pieces of the held time, at the mean of their
moments, with the least and the greatest of them: a spike of one sample is in the envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.gauges import Floats, Table
from hpckit.measure.sample_time import Numbers
from hpckit.model.account import Curve

MOST_POINTS: Final = 2000
"""As many as a screen has columns of pixels; a series then has 64 kB."""

LEAST_POINTS: Final = 100
_POINTS_OF_A_JOB: Final = 100_000


def points_for(gpus: int) -> int:
    """How many points a series should have in a report of so many GPUs, for its memory and size."""
    return max(LEAST_POINTS, min(MOST_POINTS, _POINTS_OF_A_JOB // max(1, gpus)))


class Series(NamedTuple):
    """What a curve is called, its unit, and by what the sampled numbers are multiplied for it."""

    name: str
    unit: str
    factor: float = 1.0


class CurveTable:
    """Curves of one GPU, in the order of the table's gauges: `series` are the first of them."""

    def __init__(self, series: Sequence[Series], held_us: int, pieces: int) -> None:
        self._series, self._held_us, self._pieces = tuple(series), held_us, pieces
        shape = (len(self._series), pieces)
        self._count, self._at_us, self._sum = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._low, self._high = np.full(shape, np.inf), np.full(shape, -np.inf)

    def add(self, table: Table, at_us: Numbers) -> None:
        """The next block, taken at these moments; what is outside the held time is not drawn."""
        first, end = 0, len(at_us)
        if int(at_us[0]) < 0 or int(at_us[-1]) > self._held_us:
            first = int(np.searchsorted(at_us, 0))
            end = int(np.searchsorted(at_us, self._held_us, "right"))
        curves = int(np.searchsorted(table.places, len(self._series)))
        if curves:
            self._add(table.places[:curves], table.values[:curves, first:end], at_us[first:end])
        for place, values, mask in table.partial:
            if place < len(self._series):
                here = mask[first:end]
                chosen = values[first:end][here][None, :]
                self._add(np.array([place], np.intp), chosen, at_us[first:end][here])

    def curves(self, origin_s: float, gap_us: int) -> tuple[Curve, ...]:
        """Those of which anything was measured, their moments from `origin_s` on."""
        made = (self._curve(place, origin_s, gap_us) for place in range(len(self._series)))
        return tuple(curve for curve in made if curve.at_s)

    def _add(self, places: NDArray[np.intp], values: Floats, at_us: Numbers) -> None:
        if not len(at_us):
            return
        starts, pieces = self._starts(at_us)
        counts = np.diff(np.append(starts, len(at_us)))
        where = np.ix_(places, pieces)
        self._count[where] += counts
        self._at_us[where] += np.add.reduceat(at_us, starts)
        self._sum[where] += np.add.reduceat(values, starts, axis=1)
        low, high = (one.reduceat(values, starts, axis=1) for one in (np.minimum, np.maximum))
        self._low[where] = np.minimum(self._low[where], low)
        self._high[where] = np.maximum(self._high[where], high)

    def _starts(self, at_us: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where in a block each piece begins, and which pieces these are."""
        scale = self._pieces / max(1, self._held_us)
        first, last = (self._piece(int(one)) for one in (at_us[0], at_us[-1]))
        borders = np.ceil(np.arange(first + 1, last + 1) / scale)
        starts = np.searchsorted(at_us, np.concatenate([at_us[:1], borders]))
        is_used = np.append(starts[1:], len(at_us)) > starts
        return starts[is_used], np.arange(first, last + 1)[is_used]

    def _piece(self, at_us: int) -> int:
        return min(self._pieces - 1, int(at_us * (self._pieces / max(1, self._held_us))))

    def _curve(self, place: int, origin_s: float, gap_us: int) -> Curve:
        there = np.flatnonzero(self._count[place])
        series, count = self._series[place], self._count[place][there]
        at_us = self._at_us[place][there] / count
        piece_us = self._held_us / self._pieces
        breaks = np.flatnonzero(np.diff(at_us) > max(gap_us, 2 * piece_us)) + 1
        between = (at_us[breaks - 1] + at_us[breaks]) / 2
        moments = np.insert(at_us, breaks, between) / 1e6 + origin_s
        means, lows, highs = self._sum[place][there] / count, self._low[place], self._high[place]
        return Curve(
            name=series.name,
            unit=series.unit,
            at_s=tuple(np.round(moments, 6).tolist()),
            values=_with_gaps(means * series.factor, breaks),
            lows=_with_gaps(lows[there] * series.factor, breaks),
            highs=_with_gaps(highs[there] * series.factor, breaks),
        )


def _with_gaps(values: NDArray[Any], breaks: NDArray[np.intp]) -> tuple[float | None, ...]:
    shown: list[float | None] = values.tolist()
    for place in reversed(breaks.tolist()):
        shown.insert(place, None)
    return tuple(shown)
