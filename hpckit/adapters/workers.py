"""Work that is spread over the CPUs of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from hpckit.errors import AdapterError

Given = TypeVar("Given")
Made = TypeVar("Made")
MOST_WORKERS = 8
"""A report's memory is that of so many nodes at once."""
_GC_THRESHOLD = 100_000
"""Arrays and numbers are in no cycles: looking for them took a fifth of a worker's time."""


def in_processes(function: Callable[[Given], Made], given: Sequence[Given]) -> Iterator[Made]:
    """`function` of each, in their order; a result that nobody has taken yet is kept to a few.

    Raises AdapterError where a process was ended before it was done.
    """
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(given))
    if workers < 2:  # noqa: PLR2004  another process for one alone gains nothing
        yield from map(function, given)
        return
    # Not forked: numpy's threads would be missing in a copy of this process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=gc.set_threshold, initargs=(_GC_THRESHOLD,)
    ) as pool:
        try:
            yield from _in_order(pool, function, given, 2 * workers)
        except BrokenProcessPool:
            raise AdapterError(
                "one of the processes that share the work was killed before it was done",
                hint="for want of memory, mostly: try again where more of it is free, or "
                "with fewer CPUs and so fewer processes: taskset -c 0 hpckit …",
            ) from None


def _in_order(
    pool: ProcessPoolExecutor,
    function: Callable[[Given], Made],
    given: Sequence[Given],
    most_waiting: int,
) -> Iterator[Made]:
    waiting: list[Future[Made]] = []
    try:
        for one in given:
            waiting.append(pool.submit(function, one))
            if len(waiting) >= most_waiting:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:
            future.cancel()
