"""What stopped a chain, and what never began."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.jobs.chain import StageStatus, explained, stopped_by
from hpckit.slurm.values import JobId, JobState, JobStatus
from tests.fakes.world import entry_of

OK, FAILED, GONE, RUNS = (
    JobState.COMPLETED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.RUNNING,
)


def a_chain(*states: JobState, began: tuple[int, ...] = ()) -> list[StageStatus]:
    """Stages s0, s1, … with the ids 40, 41, …; those in `began` have a start."""
    return [
        (
            replace(entry_of(str(40 + at), Path("/f")), chain="c", stage=f"s{at}"),
            JobStatus(
                job_id=JobId(str(40 + at)), state=state, started_s=1.0 if at in began else None
            ),
        )
        for at, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("chain", "stage"),
    [
        (a_chain(OK, OK), None),
        (a_chain(OK, RUNS), None),
        (a_chain(OK, FAILED, GONE), "s1"),
        (a_chain(GONE, GONE), "s0"),
    ],
)
def test_the_first_bad_end_stops_a_chain(chain: list[StageStatus], stage: str | None) -> None:
    """The first stage that ended otherwise than COMPLETED is what stopped the chain."""
    stopper = stopped_by(chain)
    assert (None if stopper is None else stopper[0].stage) == stage


@pytest.mark.parametrize(
    ("chain", "reasons"),
    [
        (a_chain(OK, FAILED, GONE), [None, None, "not started: s1 (41) FAILED"]),
        (a_chain(GONE, GONE), [None, "not started: s0 (40) CANCELLED"]),
        (a_chain(FAILED, GONE, GONE), [None, *["not started: s0 (40) FAILED"] * 2]),
        (a_chain(OK, GONE), [None, None]),
        (a_chain(FAILED, GONE, began=(1,)), [None, None]),
    ],
)
def test_a_stage_that_never_began_says_why(
    chain: list[StageStatus], reasons: list[str | None]
) -> None:
    """A stage that was cancelled unstarted after an earlier one failed names that one."""
    assert [status.reason for status in explained(chain)] == reasons
