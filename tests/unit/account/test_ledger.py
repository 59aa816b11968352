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


def ended(exit_code: int, **more: object) -> dict[str, Any]:
    """An end with this code."""
    return {**END, "exit_code": exit_code, **more}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", []),  # killed before its first line
        (lines(START), [None]),
        *((lines(START) + json.dumps(END)[:-cut], [None]) for cut in (1, 20, 60)),
        # Ranks that torchrun started anew have a life each, killed or not.
        (lines(START, START, END, START), [None, 0, None]),
        # A line that was cut short has no line end: what follows stands on the same line.
        (lines(START) + json.dumps(END)[:30] + lines(START, END), [None, 0]),
        # Steps that ran at once: an end is its process's, in older files the last life's.
        (lines(START, {**START, "pid": 78}, ended(1, pid=77), ended(2, pid=78)), [1, 2]),
        (lines(START, START, ended(1), ended(2)), [2, 1]),
        # What a later version writes beside is no error.
        (lines({**START, "mood": "good"}, {"record": "note"}, END), [0]),
    ],
)
def test_lives_and_their_ends(text: str, codes: list[int | None]) -> None:
    """The exit code of each life; None is a rank that was killed, or runs."""
    assert [life.end and life.end.exit_code for life in whole_ledger(text)] == codes


def test_what_stands_before_a_line_that_is_none_is_kept() -> None:
    """Lives before a line that is wrong are read, and the line is named."""
    lives, error = read_ledger(lines(START, END) + "oops\n" + lines(START))
    assert [life.end is not None for life in lives] == [True]
    assert error is not None
    assert error.line_no == 3


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("oops\n" + lines(START), "Expecting value"),
        (lines([1]), "got list"),
        (lines(END), "an end without a start"),
        (lines(START, {**END, "pid": 78}), "an end without a start"),
        (lines({**START, "schema": "hpckit.ledger/2"}), "ledger/2"),
        (lines({**START, "rank": "three"}), "rank"),
        (lines(START, {**END, "at": {"monotonic_ns": 1.5}}), "at"),
        (lines({"rank": 3}), "record is None"),
        ("[" * 100_000 + "\n\n", "recursion"),
        (lines(START) + "[1]", "got list"),  # whole, so not cut short
    ],
)
def test_what_is_no_ledger_is_refused(text: str, what: str) -> None:
    """Errors name the line and show where."""
    with pytest.raises(ParseError, match=what) as caught:
        whole_ledger(text)
    assert "^" in str(caught.value)
