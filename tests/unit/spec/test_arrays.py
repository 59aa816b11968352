"""Which parts an array falls into, and what it is as a whole."""

from __future__ import annotations

import pytest

from hpckit.core.errors import PlanError
from hpckit.spec.options import MOST_PARTS, ArrayShape, array_parts, array_shape


@pytest.mark.parametrize(
    ("expression", "size", "parts"),
    [
        ("0-100", 101, [("0-100", 0)]),
        ("0-9:3,4%2", None, [("0-9:3,4%2", 0)]),
        ("7-4", 101, [("7-4", 0)]),
        ("0-101", 101, [("0-100", 0), ("0", 101)]),
        ("0-249", 101, [("0-100", 0), ("0-100", 101), ("0-47", 202)]),
        ("9000%8", 1001, [("992%8", 8008)]),
        ("0-20:7,25%3", 10, [("0-7:7%3", 0), ("4%3", 10), ("5%3", 20)]),
        ("3,1,12-13,11", 10, [("3,1", 0), ("2-3,1", 10)]),
        ("0-2500:2000", 1001, [("0", 0), ("999", 1001)]),
    ],
)
def test_an_array_falls_into_parts(
    expression: str, size: int | None, parts: list[tuple[str, int]]
) -> None:
    """Each part begins at a multiple of the size; what fits, or may fit, is as given."""
    assert [(part.expression, part.offset) for part in array_parts(expression, size)] == parts


@pytest.mark.parametrize("expression", ["0-1000000", "0-99999999999999"])
def test_a_vast_array_is_refused(expression: str) -> None:
    """An array of more parts than can be submitted raises PlanError at once."""
    with pytest.raises(PlanError, match=f"{MOST_PARTS} parts of at most 101 tasks"):
        array_parts(expression, 101)


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("5", (5, 5, 1, 1)),
        ("0-9:3", (0, 9, 4, 3)),
        ("0,4,8", (0, 8, 3, 1)),
        ("1,2-8:2%2", (1, 8, 5, 2)),
        ("0-9,5-14", (0, 14, 15, 1)),
    ],
)
def test_the_whole_of_an_array(expression: str, shape: tuple[int, int, int, int]) -> None:
    """First, last, count and step are what Slurm 24.11 tells the tasks of such an array."""
    first, last, count, step = shape
    assert array_shape(expression) == ArrayShape(first=first, last=last, count=count, step=step)


@pytest.mark.parametrize("expression", [None, "7-4"])
def test_no_tasks_have_no_shape(expression: str | None) -> None:
    """A job without an array, and an array that names no task, have none."""
    assert array_shape(expression) is None
