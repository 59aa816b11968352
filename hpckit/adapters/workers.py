"""Work that is spread over the CPUs of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
MOST_WORKERS = 8
"""A report's memory is that of so many nodes at once."""
_GC_THRESHOLD = 100_000
"""Arrays and numbers are in no cycles: looking for them took a fifth of a worker's time."""


def in_processes(function: Callable[[Given], Made], given: Sequence[Given]) -> Iterator[Made]:
    """`function` of each, in their order; a result that nobody has taken yet is kept to a few."""
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(given))
    if workers < 2:  # noqa: PLR2004  another process for one alone gains nothing
        yield from map(function, given)
        return
    # Not forked: numpy's threads would be missing in a copy of this process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=gc.set_threshold, initargs=(_GC_THRESHOLD,)
    ) as pool:
        waiting: list[Future[Made]] = []
        rest = iter(given)
        try:
            for one in rest:
                waiting.append(pool.submit(function, one))
                if len(waiting) >= 2 * workers:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
