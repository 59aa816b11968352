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


@pytest.mark.parametrize(
    ("processes", "util", "stretch", "gone_ns"),
    [
        ([0, 1, 1, 0, 0, 0], [0, 90, 0, 40, 0, 0], (0, 99), 4),  # the first row without both
        ([1, 0, 0, 1, 0], [9, 0, 0, 9, 0], (0, 99), 4),  # what is gone for good
        ([1, 1, 1, 1], [90, 90, 0, 0], (0, 99), None),  # used to the end
        ([0, 0, 0, 0], [90, 90, 0, 0], (0, 99), None),  # hidden: kernels without a process
        ([1, 1, NOT_MEASURED, NOT_MEASURED], [90, 90, 0, 0], (0, 99), None),  # not counted
        ([0, 0], [0, 0], (0, 99), None),
        ([1, 1, 0, 0, 1], [9, 9, 0, 0, 9], (1, 3), 2),  # not what others did before and behind
    ],
)
def test_when_a_gpu_was_left(
    processes: list[int], util: list[int], stretch: tuple[int, int], gone_ns: int | None
) -> None:
    """With its last process and kernel in a stretch; nothing is gone without a row showing it."""
    was_used = any(processes) or any(util)
    assert use(processes, util, stretch) == Use(was_used=was_used, gone_ns=gone_ns)
