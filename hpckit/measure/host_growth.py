"""How much a host's counter has grown, whatever its size, and a gauge over time."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpckit.model.samples import MISSING

Unsigned = NDArray[np.uint64]
Times = NDArray[np.int64]

NOT_MEASURED: Final = MISSING[8]
_WHOLE: Final = 1 << 64


class HostCounter:
    """The growth of a counter that begins again from 0 at `wraps_at` (None: 2^64).

    A counter that shows less than before has wrapped if that means less than half of its range;
    else it was set back, and what it shows since counts. `total` is None until two readings.
    """

    def __init__(self, wraps_at: int | None) -> None:
        self._size = _WHOLE if wraps_at is None else wraps_at
        self._last: tuple[int, int] | None = None
        self.total: int | None = None
        self.counted_ns = 0

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order; those that say "not measured" are left out."""
        is_there = values != NOT_MEASURED
        if not is_there.all():
            values, times_ns = values[is_there], times_ns[is_there]
        if not len(values):
            return
        first, last = int(values[0]), (int(values[-1]), int(times_ns[-1]))
        if self._last is not None:
            self._grow(self._step(self._last[0], first), int(times_ns[0]) - self._last[1])
        if len(values) > 1:
            self._grow(self._inside(values), last[1] - int(times_ns[0]))
        self._last = last

    def _grow(self, growth: int, ns: int) -> None:
        self.total = (self.total or 0) + growth
        self.counted_ns += max(0, ns)

    def _inside(self, values: Unsigned) -> int:
        """Last less first, and what each of the falls between them hides."""
        falls = np.flatnonzero(values[1:] < values[:-1])
        growth = int(values[-1]) - int(values[0])
        for at in falls.tolist():
            before, after = int(values[at]), int(values[at + 1])
            growth += self._step(before, after) - (after - before)
        return growth

    def _step(self, before: int, after: int) -> int:
        if after >= before:
            return after - before
        wrapped = after + self._size - before
        return wrapped if 0 <= wrapped < self._size // 2 else after


class HostGauge:
    """The integral over time of a gauge, by trapezoids, and its extremes.

    What lies between samples further apart than `gap_ns` is not measured.
    """

    def __init__(self, gap_ns: int) -> None:
        self._gap_ns = gap_ns
        self._last: tuple[float, int] | None = None
        self._integral = 0.0
        self.counted_ns = 0
        self.most: float | None = None

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order."""
        is_there = values != NOT_MEASURED
        numbers, times_ns = values[is_there].astype(np.float64), times_ns[is_there]
        if not len(numbers):
            return
        most = float(numbers.max())
        self.most = most if self.most is None else max(self.most, most)
        if self._last is not None:
            numbers = np.concatenate([[self._last[0]], numbers])
            times_ns = np.concatenate([[self._last[1]], times_ns])
        self._last = float(numbers[-1]), int(times_ns[-1])
        apart = np.diff(times_ns)
        is_near = (apart <= self._gap_ns) & (apart > 0)
        between = (numbers[1:] + numbers[:-1]) / 2
        self._integral += float((between * apart)[is_near].sum()) / 1e9
        self.counted_ns += int(apart[is_near].sum())

    @property
    def integral(self) -> float | None:
        """In the gauge's unit × seconds; None where two readings were never near each other."""
        return self._integral if self.counted_ns else None
