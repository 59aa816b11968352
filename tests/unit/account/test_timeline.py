"""Attempts and ranks over time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.page.plots import TimeAxis
from hpckit.account.page.timeline import Row, Timeline, timeline
from hpckit.account.values import JobReport, RankAccount
from tests.fakes.report_values import Shape, training_report
from tests.fakes.reports import STARTED_S

REPORT = training_report(Shape(gpus=8, nodes=2, points=20))


def shown(report: JobReport) -> Timeline:
    """The timeline of a job of an hour."""
    return timeline(report, TimeAxis(last_s=3600.0))


def ranks(*changes: dict[str, Any]) -> tuple[RankAccount, ...]:
    """Ranks of the report, changed."""
    return tuple(replace(REPORT.ranks[0], rank=at, **one) for at, one in enumerate(changes))


def spans(row: Row) -> list[tuple[str, str, str]]:
    """What is drawn of a row."""
    return [(one.look, one.first, one.width) for one in row.stretches]


def test_attempts_are_rows_where_there_are_several() -> None:
    """What was lost to a requeue is drawn as such, and named as findings name it."""
    first, last = REPORT.incarnations
    first = replace(first, started_s=STARTED_S, ended_s=STARTED_S + 900)
    last = replace(last, started_s=STARTED_S + 1800, ended_s=STARTED_S + 3600)
    found = shown(replace(REPORT, incarnations=(first, last)))

    assert [(one.name, one.node) for one in found.attempts] == [
        ("attempt 1", "15:00, lost"),
        ("attempt 2", "restart 1 · 30:00"),
    ]
    assert [spans(one) for one in found.attempts] == [
        [("lost", "0.00%", "25.00%")],
        [("ran", "50.00%", "50.00%")],
    ]
    assert shown(replace(REPORT, incarnations=(last,))).attempts == ()


def test_a_rank_of_two_attempts_is_one_row() -> None:
    """It shows both stretches, both nodes, both ends."""
    one = REPORT.ranks[0]
    lives = (
        replace(
            one, restart=0, node="n7", started_s=STARTED_S, ended_s=STARTED_S + 900, exit_code=143
        ),
        replace(one, started_s=STARTED_S + 1800, ended_s=STARTED_S + 3600, gpus=()),
    )
    (row,) = shown(replace(REPORT, ranks=lives)).ranks

    assert (row.name, row.node, row.end, row.is_bad) == (
        "rank 0", "n7 → n001", "signal 15 → 0", False,
    )  # fmt: skip
    assert spans(row) == [("failed", "0.00%", "25.00%"), ("ran", "50.00%", "50.00%")]


def test_idle_gpus_are_over_the_rank_that_had_them() -> None:
    """From when to when nothing ran on the GPU of a rank."""
    rows = shown(REPORT).ranks
    assert [one.look for one in rows[0].stretches] == ["ran", "idle"]
    assert rows[7].stretches[1].about == "GPU without a process, 2.0 s to 59:58"


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        # Who failed first is said where others ended badly after it, killed or by themselves.
        ([(1, 50.0), (143, 51.0), (0, 49.0)], ["1, first", "signal 15", "0"]),
        ([(3, 60.0), (2, 50.0)], ["3", "2, first"]),
        ([(1, 50.0), (0, 60.0)], ["1", "0"]),
        ([(137, 50.0), (143, 60.0)], ["signal 9", "signal 15"]),
        ([(None, 50.0)], ["unknown"]),
    ],
)
def test_ends(ends: list[tuple[int | None, float]], told: list[str]) -> None:
    """How each rank ended."""
    changes = [{"exit_code": code, "ended_s": STARTED_S + at_s} for code, at_s in ends]
    assert [one.end for one in shown(replace(REPORT, ranks=ranks(*changes))).ranks] == told


def test_who_is_behind_stands_out() -> None:
    """The farthest behind has the longest bar; 5 % and more is marked; not compared is no 0."""
    behind = (
        {"behind_frac": 0.2},
        {"behind_frac": 0.05},
        {"behind_frac": 0.0},
        {"behind_frac": None},
    )
    rows = shown(replace(REPORT, ranks=ranks(*behind))).ranks
    assert [(one.behind, one.bar, one.is_behind) for one in rows] == [
        ("20 %", "100.0", True),
        ("5 %", "25.0", True),
        ("0 %", "", False),
        ("–", "", False),
    ]


def test_of_many_ranks_those_that_failed_and_are_behind_are_shown() -> None:
    """In the order of ranks, and it is said that there are more."""
    changes = [{"behind_frac": at / 1000, "exit_code": int(at == 3)} for at in range(100)]
    found = shown(replace(REPORT, ranks=ranks(*changes)))
    assert [one.name for one in found.ranks][:2] == ["rank 3", "rank 69"]
    assert len(found.ranks) == 32
    assert found.note.startswith("32 of 100 ranks")
