"""hpckit.account.usage: when a GPU was used last; synthetic rows, one a second."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.samples import GPU_DTYPE
from hpckit.account.usage import LastUse, Use

NOT_MEASURED = 255


def use(processes: list[int], util: list[int], stretch: tuple[int, int] = (0, 99)) -> Use:
    """What is found of rows at 0, 1, 2 …, given one at a time and at once, which must agree."""
    rows = np.zeros(len(processes), GPU_DTYPE)
    rows["processes"], rows["util_pct"] = processes, util
    times = np.arange(len(rows), dtype=np.int64)
    at_once, one_by_one = LastUse([stretch]), LastUse([stretch])
    at_once.add(times, rows)
    for at in range(len(rows)):
        one_by_one.add(times[at : at + 1], rows[at : at + 1])
    assert at_once.found() == one_by_one.found()
    return at_once.found()[0]


def test_it_is_gone_with_its_last_process_and_kernel() -> None:
    """The first row without both, behind the last use, is when it was gone."""
    assert use([0, 1, 1, 0, 0, 0], [0, 90, 0, 40, 0, 0]) == Use(was_used=True, gone_ns=4)


def test_a_process_that_comes_back_was_not_gone() -> None:
    """Only what is gone for good counts."""
    assert use([1, 0, 0, 1, 0], [9, 0, 0, 9, 0]).gone_ns == 4


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ([1, 1, 1, 1], "used to the end"),
        ([0, 0, 0, 0], "hidden: kernels without a process"),
        ([1, 1, NOT_MEASURED, NOT_MEASURED], "not counted"),
    ],
)
def test_what_does_not_tell(processes: list[int], why: str) -> None:
    """Nothing is said to be gone without a row that shows it."""
    assert use(processes, [90, 90, 0, 0]).gone_ns is None, why


def test_a_gpu_that_nobody_came_to() -> None:
    """Nothing is gone that was never there."""
    assert use([0, 0], [0, 0]) == Use(was_used=False, gone_ns=None)


def test_only_the_stretch_counts() -> None:
    """What another rank did before and behind it is not its use."""
    assert use([1, 1, 0, 0, 1], [9, 9, 0, 0, 9], (1, 3)) == Use(was_used=True, gone_ns=2)
