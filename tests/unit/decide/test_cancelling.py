"""What scancel is told of a job, an array, and one of its tasks."""

from __future__ import annotations

import pytest

from hpckit.decide.cancelling import cancel_targets
from hpckit.errors import HpckitError
from hpckit.model.slurm import JobId, JobRecord, JobState, JobStatus

ENDED, RUNNING, WAITING = JobState.FAILED, JobState.RUNNING, JobState.PENDING


def a_job(*tasks: JobState, state: JobState = RUNNING) -> JobStatus:
    """Job 42, with tasks in these states if any."""
    records = tuple(
        JobRecord(job_id=JobId("42"), task_index=at, state=one, raw=str(one))
        for at, one in enumerate(tasks)
    )
    return JobStatus(job_id=JobId("42"), state=state, tasks=records)


@pytest.mark.parametrize(
    ("status", "task", "signal", "targets"),
    [
        (a_job(), None, None, ("42",)),
        (a_job(state=WAITING), None, "KILL", ("42",)),
        (a_job(), None, "USR1", ("42",)),
        (a_job(ENDED, RUNNING, WAITING, RUNNING), None, None, ("42",)),
        (a_job(ENDED, RUNNING, WAITING, RUNNING), None, "USR1", ["42_1", "42_3"]),
        (a_job(ENDED, RUNNING, WAITING), 2, None, ("42_2",)),
        (a_job(ENDED, RUNNING, WAITING), 1, "USR1", ("42_1",)),
    ],
)
def test_a_signal_goes_to_what_runs_and_an_end_to_all(
    status: JobStatus, task: int | None, signal: str | None, targets: object
) -> None:
    """The end and KILL are for the whole job; another signal for its running tasks alone."""
    assert cancel_targets(status, task, signal) == targets


@pytest.mark.parametrize(
    ("status", "task", "signal", "words"),
    [
        (a_job(state=WAITING), None, "USR1", "job 42 has not begun: PENDING"),
        (a_job(ENDED, WAITING), None, "USR1", "no task of job 42 runs now"),
        (a_job(ENDED, WAITING), 1, "USR1", "task 1 of job 42 has not begun: PENDING"),
        (a_job(ENDED, WAITING), 0, None, "task 0 of job 42 has already ended: FAILED"),
        (a_job(ENDED, WAITING), 9, None, "job 42 has no task 9 that Slurm lists"),
        (a_job(), 9, None, "job 42 is no job array and has no task 9"),
    ],
)
def test_what_cannot_be_reached_is_refused(
    status: JobStatus, task: int | None, signal: str | None, words: str
) -> None:
    """A signal that nothing could receive is refused before scancel is called."""
    with pytest.raises(HpckitError, match=words):
        cancel_targets(status, task, signal)
