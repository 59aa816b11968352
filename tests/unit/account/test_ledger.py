"""Ledgers: lives of a rank, cut short, begun anew, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpckit.account.ledger import read_ledger
from hpckit.core.errors import ParseError
from tests.fakes.ledgers import whole_ledger

AT = {"realtime_ns": 3, "monotonic_ns": 2, "boottime_ns": 2}
GPU = {"uuid": "GPU-1", "monotonic_ns": 2, "energy_mj": 5, "refused": None}
START: dict[str, Any] = {
    "schema": "hpckit.ledger/1", "record": "start", "rank": 3, "local_rank": 1, "world_size": 8,
    "node": "n1", "pid": 77, "boot_id": "b", "at": AT, "gpus": [GPU], "claim": "visible",
    "visible": "1",
}  # fmt: skip
END: dict[str, Any] = {"record": "end", "at": AT, "exit_code": 0, "gpus": [GPU], "updates": []}


def lines(*trees: object) -> str:
    """A ledger of these lines."""
    return "".join(json.dumps(tree) + "\n" for tree in trees)


def test_a_life_has_both_ends() -> None:
    """A start and an end are one life."""
    (life,) = whole_ledger(lines(START, END))
    assert life.start.rank == 3
    assert life.start.gpus[0].energy_mj == 5
    assert life.end is not None
    assert life.end.exit_code == 0


def test_a_killed_rank_has_no_end() -> None:
    """A start alone is a rank that was killed, or runs."""
    (life,) = whole_ledger(lines(START))
    assert life.end is None


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_of_a_line_that_was_cut_short_nothing_is_taken(cut: int) -> None:
    """A torn last line is that of a rank that was killed while it wrote."""
    (life,) = whole_ledger(lines(START) + json.dumps(END)[:-cut])
    assert life.end is None


def test_torchrun_appends_another_life() -> None:
    """Ranks that were started anew have a life each, killed or not."""
    lives = whole_ledger(lines(START, START, END, START))
    assert [life.end is not None for life in lives] == [False, True, False]


def test_another_life_behind_a_torn_line_is_found() -> None:
    """A line that was cut short has no line end: what follows stands on the same line."""
    lives = whole_ledger(lines(START) + json.dumps(END)[:30] + lines(START, END))
    assert [life.end is not None for life in lives] == [False, True]


def test_ends_of_steps_that_ran_at_once_find_their_starts() -> None:
    """Ranks of one number that run at once have their own ends, by the process that wrote them."""
    other = {**START, "pid": 78}
    ends = [{**END, "pid": 77, "exit_code": 1}, {**END, "pid": 78, "exit_code": 2}]
    lives = whole_ledger(lines(START, other, *ends))
    assert [life.end and life.end.exit_code for life in lives] == [1, 2]


def test_ends_without_a_process_are_read() -> None:
    """In older files an end is that of the last life without one."""
    lives = whole_ledger(lines(START, START, {**END, "exit_code": 1}, {**END, "exit_code": 2}))
    assert [life.end and life.end.exit_code for life in lives] == [2, 1]


def test_many_lives_at_once_have_their_own_ends() -> None:
    """Each end is that of the process that began."""
    starts = [{**START, "pid": pid, "gpus": []} for pid in range(100)]
    ends = [{**END, "pid": pid, "gpus": []} for pid in range(100)]
    text = lines(*starts, *ends)
    lives, _ = read_ledger(text)
    assert all(life.end is not None and life.end.pid == life.start.pid for life in lives)


def test_an_end_of_another_process_is_refused() -> None:
    """An end of a process that wrote no start is no life's."""
    with pytest.raises(ParseError, match="an end without a start"):
        whole_ledger(lines(START, {**END, "pid": 78}))


def test_what_stands_before_a_line_that_is_none_is_kept() -> None:
    """Lives before a line that is wrong are read, and the line is named."""
    lives, error = read_ledger(lines(START, END) + "oops\n" + lines(START))
    assert [life.end is not None for life in lives] == [True]
    assert error is not None
    assert error.line_no == 3


def test_unknown_keys_and_records_are_passed_over() -> None:
    """What a later version writes beside is no error."""
    (life,) = whole_ledger(lines({**START, "mood": "good"}, {"record": "note"}, END))
    assert life.end is not None


def test_an_empty_ledger_has_no_life() -> None:
    """A rank that was killed before its first line left nothing."""
    assert whole_ledger("") == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("oops\n" + lines(START), "Expecting value"),
        (lines([1]), "got list"),
        (lines(END), "an end without a start"),
        (lines({**START, "schema": "hpckit.ledger/2"}), "ledger/2"),
        (lines({**START, "rank": "three"}), "rank"),
        (lines(START, {**END, "at": {"monotonic_ns": 1.5}}), "at"),
        (lines({"rank": 3}), "record is None"),
        ("[" * 100_000 + "\n\n", "nested too deeply|not readable"),
    ],
)
def test_what_is_no_ledger_is_refused(text: str, what: str) -> None:
    """Errors name the line and show where."""
    with pytest.raises(ParseError, match=what) as caught:
        whole_ledger(text)
    assert "^" in str(caught.value)
