"""When a GPU was used last, for ranks that were killed and could not say when they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.rows import Rows, Times

_NONE: Final = 0xFF


class Use(NamedTuple):
    """Whether something used a GPU in a stretch of time, and when it was seen to be gone for good.

    `gone_ns` is None where something used it to the end, and where nothing tells: processes are
    not counted, are hidden, or there are no samples behind the last use.
    """

    was_used: bool
    gone_ns: int | None


class LastUse:
    """Finds the last use of one GPU in each of some stretches, first and last moment in them.

    A use is a process or a kernel; utilization lags by its second. Nothing is gone that was never
    there: where kernels run and no process is counted, processes are hidden.
    """

    def __init__(self, stretches_ns: Sequence[tuple[int, int]]) -> None:
        self._stretches_ns = stretches_ns
        self._was_used = [False] * len(stretches_ns)
        self._had_process = [False] * len(stretches_ns)
        self._gone_ns: list[int | None] = [None] * len(stretches_ns)

    def add(self, times_ns: Times, rows: Rows) -> None:
        """The GPU's next rows, one at least, and their times."""
        counted = (rows["processes"] != _NONE) & (rows["processes"] > 0)
        used = counted | ((rows["util_pct"] != _NONE) & (rows["util_pct"] > 0))
        empty = (rows["processes"] == 0) & ~used
        begin_ns, end_ns = int(times_ns.min()), int(times_ns.max())
        for place, (first_ns, last_ns) in enumerate(self._stretches_ns):
            if last_ns < begin_ns or first_ns > end_ns:
                continue
            inside = (times_ns >= first_ns) & (times_ns <= last_ns)
            if inside.any():
                self._had_process[place] |= bool((counted & inside).any())
                self._take(place, times_ns, used & inside, empty & inside)

    def found(self) -> tuple[Use, ...]:
        """What was found of each stretch."""
        return tuple(
            Use(was_used, gone_ns if had_process else None)
            for was_used, had_process, gone_ns in zip(
                self._was_used, self._had_process, self._gone_ns, strict=True
            )
        )

    def _take(
        self, place: int, times_ns: Times, used: NDArray[np.bool_], empty: NDArray[np.bool_]
    ) -> None:
        uses = np.flatnonzero(used)
        if len(uses):
            self._was_used[place], self._gone_ns[place] = True, None
            empty = empty.copy()
            empty[: uses[-1]] = False
        gone = np.flatnonzero(empty)
        if self._was_used[place] and self._gone_ns[place] is None and len(gone):
            self._gone_ns[place] = int(times_ns[gone[0]])
