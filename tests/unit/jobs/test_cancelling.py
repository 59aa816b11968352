"""What scancel is told of a job, an array, and one of its tasks."""

from __future__ import annotations

import pytest

from hpckit.core.errors import HpckitError
from hpckit.jobs.track import cancel_targets
from hpckit.slurm.values import JobId, JobRecord, JobState, JobStatus

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


def parts(*tasks: tuple[str, int, int, JobState]) -> JobStatus:
    """Job 42, an array in parts: id, offset, index in the whole and state of each task."""
    records = tuple(
        JobRecord(job_id=JobId(job_id), task_index=index, state=state, raw="", array_offset=offset)
        for job_id, offset, index, state in tasks
    )
    return JobStatus(job_id=JobId("42"), state=RUNNING, tasks=records)


SPLIT = parts(
    ("42", 0, 7, ENDED),
    ("43", 100, 100, RUNNING),
    ("43", 100, 105, RUNNING),
    ("44", 200, 250, WAITING),
)


@pytest.mark.parametrize(
    ("task", "signal", "targets"),
    [
        (None, None, ["43", "44"]),
        (None, "USR1", ["43_0", "43_5"]),
        (105, None, ["43_5"]),
        (250, "KILL", ["44_50"]),
    ],
)
def test_parts_are_cancelled_as_slurm_knows_them(
    task: int | None, signal: str | None, targets: list[str]
) -> None:
    """A task goes by its part's id and its index there; a part that has ended is left out."""
    assert list(cancel_targets(SPLIT, task, signal)) == targets


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
