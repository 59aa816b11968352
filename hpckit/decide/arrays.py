"""A job array that is larger than the cluster takes becomes parts that it does take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hpckit.errors import PlanError
from hpckit.model.array import ArrayPart, ArrayShape, array_ranges, split_throttle

MOST_PARTS: Final = 1000
"""So many jobs at most come of one array: each is a call of sbatch."""
_COUNTED: Final = 1_000_000


def array_parts(expression: str, max_array_size: int | None) -> tuple[ArrayPart, ...]:
    """The parts of an array, each with indexes below `max_array_size` (None: it is not known).

    The tasks from w times that size on are one part, counted from its first index on; where all
    fit, the expression itself is the one part. Each part keeps the throttle. Raises PlanError for
    more than MOST_PARTS.
    """
    ranges = array_ranges(expression)
    whole = (ArrayPart(expression=expression, offset=0),)
    if not max_array_size or all(tasks[-1] < max_array_size for tasks in ranges):
        return whole
    windows: dict[int, list[range]] = {}
    for tasks in ranges:
        for window in _windows(tasks, max_array_size):
            first = window[0] - window[0] % max_array_size
            windows.setdefault(first, []).append(window)
            if len(windows) > MOST_PARTS:
                raise PlanError(
                    f"the array {expression} is too large for this cluster",
                    have=f"{MOST_PARTS} parts of at most {max_array_size} tasks (MaxArraySize)",
                    need="more parts",
                    hint="let each task do more, or submit the array in several jobs",
                )
    throttle = split_throttle(expression)[1]
    return tuple(
        ArrayPart(expression=_shifted(pieces, first) + throttle, offset=first)
        for first, pieces in sorted(windows.items())
    )


def _windows(tasks: range, size: int) -> Iterator[range]:
    """The tasks in pieces, none of which goes over a multiple of `size`."""
    while tasks:
        end = (tasks[0] // size + 1) * size
        piece = range(tasks[0], min(tasks[-1] + 1, end), tasks.step)
        yield piece
        tasks = tasks[len(piece) :]


def _shifted(pieces: Sequence[range], offset: int) -> str:
    return ",".join(_written(range(p[0] - offset, p[-1] - offset + 1, p.step)) for p in pieces)


def _written(tasks: range) -> str:
    if len(tasks) == 1:
        return str(tasks[0])
    step = "" if tasks.step == 1 else f":{tasks.step}"
    return f"{tasks[0]}-{tasks[-1]}{step}"


def is_throttled(expression: str) -> bool:
    """Whether an array says how many of its tasks may run at once."""
    return bool(split_throttle(expression)[1])


def array_shape(expression: str | None) -> ArrayShape | None:
    """First, last, count and step of an array as Slurm tells them to its tasks; None without one.

    Slurm's step is the first one that the expression writes, else 1 (tried with 24.11.5). Of more
    than a million tasks those that are named twice are counted twice.
    """
    ranges = array_ranges(expression) if expression is not None else ()
    if expression is None or not ranges:
        return None
    count = sum(map(len, ranges))
    if count <= _COUNTED:
        count = len({task for tasks in ranges for task in tasks})
    written = re.search(r":(\d+)", expression)
    return ArrayShape(
        first=min(tasks[0] for tasks in ranges),
        last=max(tasks[-1] for tasks in ranges),
        count=count,
        step=int(written[1]) if written else 1,
    )
