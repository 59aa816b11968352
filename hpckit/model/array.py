"""Job arrays: which tasks an expression names, and the parts into which a cluster makes one fall.

Source: sbatch(1), "--array"; slurm.conf(5), "MaxArraySize".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+)(?::(?P<step>[1-9]\d*))?)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPart:
    """What is submitted as one array: its task `index` is task `index + offset` of the whole."""

    expression: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """The whole of an array, in the terms of Slurm's SLURM_ARRAY_TASK_MIN, _MAX, _COUNT, _STEP."""

    first: int
    last: int
    count: int
    step: int


def split_throttle(expression: str) -> tuple[str, str]:
    """The tasks of an expression, and its throttle with the `%`, empty where there is none."""
    tasks, percent, number = expression.partition("%")
    return tasks, percent + number


def array_ranges(expression: str) -> tuple[range, ...]:
    """The tasks that `0-9:2,40%8` names, a range for each of its parts that has any.

    Raises ValueError for what is no such list.
    """
    ranges = []
    for part in split_throttle(expression)[0].split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no range of tasks")
        first = int(match["first"])
        ranges.append(range(first, int(match["last"] or first) + 1, int(match["step"] or 1)))
    return tuple(found for found in ranges if found)
