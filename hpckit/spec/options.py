"""A job array that is larger than the cluster takes becomes parts that it does take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.fields import MAX_COUNT, matching
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.spec.job import MAX_VOLUME_BYTES, MeshAxis

if TYPE_CHECKING:
    from hpckit.slurm.values import JobId


# Source of arrays: sbatch(1), "--array"; slurm.conf(5), "MaxArraySize".


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


MOST_PARTS: Final = 1000
"""So many jobs at most come of one array: each is a call of sbatch."""
_COUNTED: Final = 1_000_000


def array_parts(expression: str, max_array_size: int | None) -> tuple[ArrayPart, ...]:
    """The parts of an array, each with indexes below `max_array_size` (None: it is not known).

    The tasks from w times that size on are one part, counted from its first index on; where all
    fit, the expression itself is the one part. Each part keeps the throttle. Raises PlanError for
    more than MOST_PARTS.
    """
    from hpckit.slurm.text import array_ranges, split_throttle

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
                    f"job array {expression} is too large for this cluster",
                    have=f"{MOST_PARTS} parts of at most {max_array_size} tasks (MaxArraySize)",
                    need="more parts",
                    hint="let each task do more work, or submit several arrays",
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
    from hpckit.slurm.text import split_throttle

    return bool(split_throttle(expression)[1])


def array_shape(expression: str | None) -> ArrayShape | None:
    """First, last, count and step of an array as Slurm tells them to its tasks; None without one.

    Slurm's step is the first one that the expression writes, else 1 (tried with 24.11.5). Of more
    than a million tasks those that are named twice are counted twice.
    """
    if expression is None:
        return None
    from hpckit.slurm.text import array_ranges

    ranges = array_ranges(expression)
    if not ranges:
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


STAGES_KEY = "stages"
COMPONENT_KEY = "component"
STAGE_NAME_PATTERN = r"[A-Za-z0-9_.-]+"
stage_name_rule = matching(STAGE_NAME_PATTERN, "a name of letters, digits, _, . and -")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlace:
    """Where a job stands in its chain: the uuid of the chain, and the jobs that must end well."""

    chain: str
    stage: str
    stages: tuple[str, ...]
    after: tuple[JobId, ...] = ()

    @property
    def is_first(self) -> bool:
        """Whether it waits for no other stage."""
        return self.stage == self.stages[0]


Value = TypeVar("Value", int, float)
_PAIR: Final = regex(r"\s*(?P<axis>[A-Za-z_-]+)\s*=\s*(?P<value>[^=,\s]{1,30})\s*", re.ASCII)
_NUMBER: Final = regex(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST: Final = 100


def parse_mesh(text: str, option: str = "--mesh") -> dict[MeshAxis, int]:
    """Sizes of the axes, innermost first. Raises ConfigError."""
    return _pairs(text, option, "tensor=8,pipeline=4,data=16", _size)


def parse_volumes(text: str, option: str = "--volume") -> dict[MeshAxis, float]:
    """Bytes that each rank gives to a step of each axis. Raises ConfigError."""
    return _pairs(text, option, "data=4e9,pipeline=2e8", _bytes)


def _pairs(
    text: str, option: str, example: str, read: Callable[[str], Value]
) -> dict[MeshAxis, Value]:
    found: dict[MeshAxis, Value] = {}
    for part in text.split(","):
        match = _PAIR.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"got {part[:_LONGEST]!r}, expected axis=value",
                key=option,
                hint=f"for example {example}",
            )
        axis = _axis(match["axis"], option)
        if axis in found:
            raise ConfigError(f"{axis} is given twice", key=option)
        try:
            found[axis] = read(match["value"])
        except ValueError as error:
            raise ConfigError(
                f"{axis}: {error}", key=option, hint=f"for example {example}"
            ) from None
    return found


_AXES: Final = {"tp": "tensor", "dp": "data", "fsdp": "data", "pp": "pipeline", "cp": "context",
                "ep": "expert"}  # fmt: skip
"""What frameworks call an axis → the axis."""


def _axis(word: str, option: str) -> MeshAxis:
    try:
        return MeshAxis(word)
    except ValueError:
        meant = _AXES.get(word.lower())
        raise ConfigError(
            f"got axis {word[:_LONGEST]!r}, expected one of: {', '.join(MeshAxis)}",
            key=option,
            hint=meant and f"{meant}, for {word}",
        ) from None


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_COUNT:
        raise ValueError(f"got {text!r}, expected a whole number of at least 1")
    return int(text)


def _bytes(text: str) -> float:
    found = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= found <= MAX_VOLUME_BYTES:
        raise ValueError(f"got {text!r}, expected a number of bytes, such as 4e9")
    return found
