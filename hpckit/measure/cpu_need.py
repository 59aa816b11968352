"""How many CPUs a job's work on a node needs, from how fast its CPU time grew.

A mean over the run hides that a twentieth of it kept all CPUs busy; the most of any moment hides
that it was one moment. So: the fewest CPUs on which the run would have been hardly longer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hpckit.measure.host_growth import NOT_MEASURED, Times, Unsigned

WINDOW_NS: Final = 5_000_000_000
"""As often as the host is read in a long job (docs/reference/account-files.md)."""
_EARLY_FRAC: Final = 0.1
"""Readings are that much of a window late or early."""
LONGER_FRAC: Final = 0.01
"""So much longer may the run be on the CPUs that count as enough."""


class CpuNeed:
    """Takes the readings of a counter of CPU time, in µs, a chunk at a time."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._times: list[Times] = []
        self._values: list[Unsigned] = []

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order; those that say "not measured" are left out."""
        is_there = values != NOT_MEASURED
        times_ns, values = times_ns[is_there], values[is_there]
        if not len(values):
            return
        if self._begin_ns is None:
            self._begin_ns = int(times_ns[0])
        last = self._last_of_windows(times_ns, self._begin_ns)
        self._times.append(times_ns[last])
        self._values.append(values[last])

    def enough(self) -> float | None:
        """The fewest CPUs on which it would have been 1 % longer at most; None without a window.

        What was done in a window in which more were busy takes longer in proportion. With the
        windows ordered by how many were busy, W the CPU time and D the length of the first of
        them, and T of all, it is the largest W / (D + T / 100) over all "first of them".
        """
        if self._begin_ns is None:
            return None
        times_ns, values = np.concatenate(self._times), np.concatenate(self._values)
        last = self._last_of_windows(times_ns, self._begin_ns)
        times_ns, values = _without_repeats(times_ns[last], values[last])
        length_s = np.diff(times_ns) / 1e9
        # One that fell was set back: what it counted meanwhile is not known, and no less than 0.
        work_s = np.where(values[1:] > values[:-1], values[1:] - values[:-1], 0) / 1e6
        work_s, length_s = work_s[length_s > 0], length_s[length_s > 0]
        if not len(length_s):
            return None
        order = np.argsort(-work_s / length_s, kind="stable")
        first_s = np.cumsum(length_s[order])
        most = np.cumsum(work_s[order]) / (first_s + LONGER_FRAC * first_s[-1])
        return float(most.max())

    def _last_of_windows(self, times_ns: Times, begin_ns: int) -> Times:
        """Where the last reading of each window is; the first of all is one by itself."""
        windows = np.ceil((times_ns - begin_ns) / WINDOW_NS - _EARLY_FRAC)
        return np.flatnonzero(np.append(np.diff(windows) > 0, True))


def _without_repeats(times_ns: Times, values: Unsigned) -> tuple[Times, Unsigned]:
    """Without readings that repeat the one before, where both neighbours moved on.

    Processes are counted every 5 s, and now and then a moment after the reading: its time is then
    in the next one's.
    """
    repeats = np.append(False, values[1:] == values[:-1])
    after, before = np.append(repeats[1:], True), np.append(True, repeats[:-1])
    is_kept = ~(repeats & ~after & ~before)
    return times_ns[is_kept], values[is_kept]
