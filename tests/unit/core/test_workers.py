"""Work spread over processes: the same results in the same order."""

from __future__ import annotations

import os

import pytest

from hpckit.core.errors import AdapterError
from hpckit.core.process import in_processes


def test_results_come_in_the_order_of_what_was_given() -> None:
    """However many processes there are, the first result is that of the first."""
    assert list(in_processes(abs, list(range(-20, 0)))) == list(range(20, 0, -1))


def test_one_alone_needs_no_other_process() -> None:
    """A function that no other process could be sent is called here."""
    assert list(in_processes(lambda number: number + 1, [1])) == [2]


def test_nothing_gives_nothing() -> None:
    """No work is no error."""
    assert list(in_processes(abs, [])) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no other process")
def test_a_process_that_was_killed_is_said() -> None:
    """The kernel may do that for want of memory: an answer of the world outside, and no bug."""
    with pytest.raises(AdapterError, match="was killed before it was done") as caught:
        list(in_processes(os._exit, [9, 9]))
    assert "memory" in (caught.value.hint or "")


def test_an_error_comes_out() -> None:
    """What a process raises is raised here."""
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["1", "x", "3"]))
