"""The parts of an array are its tasks, no more and no fewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpckit.slurm.text import array_ranges
from hpckit.spec.options import array_parts

INDEXES = st.integers(0, 3000)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """An array as somebody writes it: single tasks, ranges and steps, perhaps a throttle."""
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        first, last = sorted((draw(INDEXES), draw(INDEXES)))
        step = draw(st.none() | st.integers(1, 1500))
        single = draw(st.booleans())
        parts.append(str(first) if single else f"{first}-{last}" + (f":{step}" if step else ""))
    throttle = draw(st.none() | st.integers(1, 99))
    return ",".join(parts) + (f"%{throttle}" if throttle else "")


def tasks_of(expression: str) -> set[int]:
    """The tasks that an expression names."""
    return {task for tasks in array_ranges(expression) for task in tasks}


@given(expressions(), st.integers(10, 1500))
def test_the_parts_are_the_whole(expression: str, size: int) -> None:
    """Shifted back, the tasks of all parts are those of the array, each in one part alone."""
    parts = array_parts(expression, size)
    found = [task + part.offset for part in parts for task in tasks_of(part.expression)]
    assert sorted(found) == sorted(tasks_of(expression))


@given(expressions(), st.integers(10, 1500))
def test_every_part_is_one_that_the_cluster_takes(expression: str, size: int) -> None:
    """The indexes of each part lie below the size, none is empty, and each keeps the throttle."""
    for part in array_parts(expression, size):
        tasks = tasks_of(part.expression)
        assert tasks
        assert max(tasks) < size
        assert part.expression.partition("%")[2] == expression.partition("%")[2]
