"""What several of Slurm's records say together about one job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.jobs.status import merge_records, own_records, status_of_records
from hpckit.slurm.values import JobEntry, JobId, JobRecord, JobState, JobStatus

UNCONFIRMED = JobEntry(
    submission="a" * 32,
    job_id=JobId("Uaaaaaaaa"),
    name="train",
    site="s",
    folder="/f",
    created_s=0.0,
    state=JobState.UNKNOWN,
)
CONFIRMED = replace(UNCONFIRMED, job_id=JobId("4242"), cluster="west", state=JobState.PENDING)


def record(
    state: JobState,
    task: int | None = None,
    *,
    exit_code: int | None = None,
    reason: str | None = None,
    started_s: float | None = None,
    ended_s: float | None = None,
) -> JobRecord:
    """A line of squeue or sacct about job 4242."""
    return JobRecord(
        job_id=JobId("4242"),
        task_index=task,
        state=state,
        raw=str(state),
        reason=reason,
        exit_code=exit_code,
        exit_signal=9 if exit_code == 137 else None,
        expected_start_s=50.0,
        started_s=started_s,
        ended_s=ended_s,
        nodelist="n1",
    )


KNOWN = record(JobState.FAILED, exit_code=7)
ENDED, RUNNING = record(JobState.FAILED), record(JobState.RUNNING)
AGAIN = record(JobState.COMPLETED, exit_code=0)


@pytest.mark.parametrize(
    ("queue", "accounts", "merged"),
    [
        ([record(JobState.COMPLETING)], [RUNNING], [record(JobState.COMPLETING)]),
        ([RUNNING], [ENDED], [RUNNING]),
        ([ENDED], [KNOWN], [KNOWN]),
        ([ENDED], [RUNNING], [ENDED]),
        ([ENDED], [], [ENDED]),
        ([], [record(JobState.NODE_FAIL), AGAIN], [AGAIN]),
        ([], [], []),
    ],
)
def test_the_queue_knows_the_living_and_the_accounts_the_ended(
    queue: list[JobRecord], accounts: list[JobRecord], merged: list[JobRecord]
) -> None:
    """Squeue counts while a job lives, then what has the exit code; the last account is newest."""
    assert merge_records(queue, accounts) == merged


def test_each_task_is_merged_for_itself() -> None:
    """The records of an array are merged task by task and come in the order of their numbers."""
    queue = [record(JobState.PENDING, 10), record(JobState.RUNNING, 2)]
    accounts = [record(JobState.RUNNING, 2, exit_code=0), record(JobState.COMPLETED, 1)]
    assert merge_records(queue, accounts) == [
        record(JobState.COMPLETED, 1),
        record(JobState.RUNNING, 2),
        record(JobState.PENDING, 10),
    ]


def test_a_waiting_job_says_why_and_until_when() -> None:
    """A job that waits has Slurm's reason and estimate; the id is the record's own."""
    status = status_of_records(UNCONFIRMED, [record(JobState.PENDING, reason="Priority")])
    assert status == JobStatus(
        job_id=JobId("4242"),
        state=JobState.PENDING,
        raw="PENDING",
        slurm_reason="Priority",
        expected_start_s=50.0,
        nodelist="n1",
    )


RUNNING_3 = record(JobState.RUNNING, 3, started_s=20.0)
DONE_1 = record(JobState.COMPLETED, 1, exit_code=0, started_s=10.0, ended_s=15.0)
FAILED_2 = record(JobState.FAILED, 2, exit_code=7, started_s=12.0, ended_s=18.0)
WAITING_4 = record(JobState.PENDING, 4, reason="JobArrayTaskLimit")


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ((DONE_1, FAILED_2, WAITING_4, RUNNING_3), JobState.RUNNING),
        ((record(JobState.SUSPENDED, 5), record(JobState.COMPLETING, 6)), JobState.COMPLETING),
        ((DONE_1, FAILED_2, WAITING_4), JobState.PENDING),
        ((DONE_1, FAILED_2), JobState.FAILED),
        ((DONE_1, record(JobState.CANCELLED, 2)), JobState.CANCELLED),
        ((DONE_1,), JobState.COMPLETED),
        ((DONE_1, record(JobState.COMPLETED, 2, exit_code=0)), JobState.COMPLETED),
    ],
)
def test_an_array_is_as_its_tasks_are(records: tuple[JobRecord, ...], state: JobState) -> None:
    """An array runs while a task does, waits while one is left, has failed when one has."""
    status = status_of_records(CONFIRMED, records)
    assert status.state is state
    assert status.tasks == records


def test_an_array_begins_with_its_first_and_ends_with_its_last_task() -> None:
    """Start is the earliest of the tasks', end the latest, and no node list stands for all."""
    status = status_of_records(CONFIRMED, [DONE_1, FAILED_2])
    assert (status.started_s, status.ended_s, status.nodelist) == (10.0, 18.0, None)
    assert status.exit_code == 7


def test_many_that_wait_together_are_listed() -> None:
    """Of tasks that Slurm lists as one record none is missing or counted; a cancelled one is."""
    together = record(JobState.PENDING, None, reason="Priority")
    status = status_of_records(CONFIRMED, [RUNNING_3, together], tasks=range(100_000))
    assert status.reason == "tasks: 1 RUNNING, many PENDING"
    gone = record(JobState.CANCELLED, None)
    status = status_of_records(CONFIRMED, [RUNNING_3, gone], tasks=range(5))
    assert str(status.reason).endswith("not listed: 0-2,4")


def test_an_array_counts_its_tasks_and_names_a_bad_one() -> None:
    """The reason counts the tasks by state, and names the first that went wrong."""
    more = record(JobState.COMPLETED, 5)
    assert status_of_records(CONFIRMED, [DONE_1, FAILED_2, more]).reason == (
        "tasks: 2 COMPLETED, 1 FAILED; first: task 2"
    )
    assert status_of_records(CONFIRMED, [DONE_1, RUNNING_3, more]).reason == (
        "tasks: 2 COMPLETED, 1 RUNNING"
    )
    assert status_of_records(CONFIRMED, [DONE_1]).reason == "tasks: 1 COMPLETED"


UNKNOWN, NOT_SUBMITTED = JobState.UNKNOWN, JobState.NOT_SUBMITTED


def test_a_heterogeneous_job_is_its_components() -> None:
    """The whole is as one that is busy, or that ended badly; each is told by its own id."""
    named = replace(ENDED, submission=CONFIRMED.submission, exit_code=3)
    left = replace(named, job_id=JobId("4242+0"), state=JobState.COMPLETED)
    right = replace(named, job_id=JobId("4242+1"))
    whole = status_of_records(CONFIRMED, merge_records([], [right, left]))
    assert (whole.job_id, whole.state, whole.exit_code) == ("4242", JobState.FAILED, 3)
    assert [one.job_id for one in whole.components] == ["4242+0", "4242+1"]
    assert own_records(CONFIRMED, [left, right]) == [left, right]
    before = replace(named, job_id=JobId("4242"), state=JobState.CANCELLED)
    assert merge_records([left, right], [before]) == [left, right]
    component = replace(CONFIRMED, job_id=JobId("4242+1"))
    assert own_records(component, [left, right]) == [right]
    assert status_of_records(component, [right]).components == ()
