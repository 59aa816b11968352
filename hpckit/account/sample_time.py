"""For how long each sample stands: a held stretch of time is dealt out to a GPU's samples."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

GAP_PERIODS: Final = 3
"""Samples further apart than this many periods have a gap between them: one late tick of a busy
machine is none, and a block that was lost (5 s at most) is one from 1 Hz on."""

NS_PER_US: Final = 1000


class Stretch(NamedTuple):
    """What some consecutive samples stand for, in µs after the beginning.

    Sample i was taken at `at_us[i]` and stands for the `weight_us[i]` before it, which begin at
    `from_us[i]`; `apart_us` is how long after its predecessor it was taken. `has_gap` is whether
    time that nothing is known of lies before it. Weights are inside the held stretch, moments need
    not be.
    """

    at_us: Numbers
    from_us: Numbers
    apart_us: Numbers
    weight_us: Numbers
    has_gap: NDArray[np.bool_]


class SampleTime:
    """Deals out the time from `begin_ns` to `end_ns` (of the samples' clock).

    A sample stands for the time since the one before it, as the driver's figures are about the
    time before they were read; after a gap for one period. What is left over is not known.
    """

    def __init__(self, period_s: float, begin_ns: int, end_ns: int) -> None:
        self._begin_ns = begin_ns
        self.held_us = max(0, end_ns - begin_ns) // NS_PER_US
        self.period_us = max(1, round(period_s * 1e6))
        self.gap_us = GAP_PERIODS * self.period_us
        self.last_us: int | None = None

    def add(self, times_ns: NDArray[np.int64]) -> Stretch:
        """The next samples, one at least, in the order of time."""
        at_us = (times_ns - self._begin_ns) // NS_PER_US
        first = min(0, int(at_us[0])) if self.last_us is None else self.last_us
        before = np.empty_like(at_us)
        before[0] = first
        before[1:] = at_us[:-1]
        apart = at_us - before
        self.last_us = int(at_us[-1])
        return self._stretch(at_us, before, apart)

    def tail_us(self) -> int:
        """The time after the last sample, if it is no gap, for which that sample stands too."""
        if self.last_us is None:
            return 0
        left = self.held_us - max(0, self.last_us)
        return left if 0 < left <= self.gap_us else 0

    def _stretch(self, at_us: Numbers, before: Numbers, apart: Numbers) -> Stretch:
        has_gap = apart > self.gap_us
        start, weight = before, apart
        if has_gap.any():
            start = np.where(has_gap, at_us - self.period_us, before)
            weight = at_us - start
        if int(start[0]) < 0 or int(at_us[-1]) > self.held_us:
            inside = np.clip(start, 0, self.held_us)
            weight = np.clip(at_us, 0, self.held_us) - inside
        return Stretch(at_us, start, apart, weight, has_gap)
