"""Curves for drawing, thinned while the samples pass by: a mean and its envelope a piece of time.

A point is the mean of the samples in one of equal pieces of the held time, at the mean of their
moments, with the least and the greatest of them: a spike of one sample is in the envelope.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.gauges import ALL, Mask, pick
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


class Pieces:
    """Which piece of the held time each sample of a block is in; made once for all its columns."""

    def __init__(self, at_us: Numbers, held_us: int, pieces: int) -> None:
        self.mask: Mask = ALL
        if int(at_us[0]) < 0 or int(at_us[-1]) > held_us:
            self.mask = (at_us >= 0) & (at_us <= held_us)
        self.at_us = pick(at_us, self.mask)
        place = (self.at_us * pieces) // max(1, held_us)
        self.place = np.minimum(place, pieces - 1)
        self.starts = _starts(self.place)
        self.counts = np.diff(np.append(self.starts, len(self.place)))


class CurveFold:
    """One curve of one GPU; sums are whole numbers, so they do not depend on cuts."""

    def __init__(self, series: Series, held_us: int, pieces: int) -> None:
        self._name, self._unit, self._factor = series
        self._piece_us = held_us / pieces
        self._count = np.zeros(pieces, np.int64)
        self._at_us = np.zeros(pieces, np.int64)
        self._sum = np.zeros(pieces, np.int64)
        self._low = np.full(pieces, np.iinfo(np.int64).max)
        self._high = np.full(pieces, np.iinfo(np.int64).min)

    def add(self, values: Numbers, mask: Mask, pieces: Pieces) -> None:
        """More samples: the values that `mask` says are measured, of a whole block."""
        values = pick(values, pieces.mask)
        at_us, place, starts = pieces.at_us, pieces.place, pieces.starts
        counts = pieces.counts
        if mask is not ALL:
            mask = pick(mask, pieces.mask)
            values, at_us, place = values[mask], at_us[mask], place[mask]
            starts = _starts(place)
            counts = np.diff(np.append(starts, len(place)))
        if not len(values):
            return
        where = place[starts]
        self._count[where] += counts
        self._at_us[where] += np.add.reduceat(at_us, starts)
        self._sum[where] += np.add.reduceat(values, starts)
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        self._low[where] = np.minimum(self._low[where], low)
        self._high[where] = np.maximum(self._high[where], high)

    def curve(self, origin_s: float, gap_us: int) -> Curve | None:
        """The curve, its moments from `origin_s` on; None where nothing was measured."""
        there = np.flatnonzero(self._count)
        if not len(there):
            return None
        count = self._count[there]
        at_us = self._at_us[there] / count
        breaks = np.flatnonzero(np.diff(at_us) > max(gap_us, 2 * self._piece_us)) + 1
        between = (at_us[breaks - 1] + at_us[breaks]) / 2
        moments = np.insert(at_us, breaks, between) / 1e6 + origin_s
        return Curve(
            name=self._name,
            unit=self._unit,
            at_s=tuple(np.round(moments, 6).tolist()),
            values=self._shown(self._sum[there] / count, breaks),
            lows=self._shown(self._low[there], breaks),
            highs=self._shown(self._high[there], breaks),
        )

    def _shown(self, values: NDArray[Any], breaks: NDArray[np.intp]) -> tuple[float | None, ...]:
        """In the curve's unit, with None where there is a gap."""
        shown: list[float | None] = (values * self._factor).tolist()
        for place in reversed(breaks.tolist()):
            shown.insert(place, None)
        return tuple(shown)


def _starts(place: Numbers) -> Numbers:
    new = np.flatnonzero(place[1:] != place[:-1]) + 1
    return np.concatenate([np.zeros(1, np.int64), new]) if len(place) else new
