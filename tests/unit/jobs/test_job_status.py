"""What several of Slurm's records say together about one job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpckit.jobs.status import merge_records, status_of_records, unlisted_status
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


def test_a_running_job_waits_for_nothing() -> None:
    """Of a job that runs neither a reason nor an expected start is told."""
    status = status_of_records(CONFIRMED, [record(JobState.RUNNING, reason="None", started_s=10.0)])
    assert (status.slurm_reason, status.expected_start_s, status.reason) == (None, None, None)
    assert (status.started_s, status.cluster, status.tasks) == (10.0, "west", ())


def test_a_completed_job_has_the_code_0() -> None:
    """COMPLETED is exit code 0 also where only squeue saw it."""
    assert status_of_records(CONFIRMED, [record(JobState.COMPLETED)]).exit_code == 0


def test_a_failed_job_has_its_own_code_or_none() -> None:
    """The code and signal are the record's, and a code that nobody recorded is not made up."""
    killed = status_of_records(CONFIRMED, [record(JobState.FAILED, exit_code=137)])
    assert (killed.exit_code, killed.exit_signal) == (137, 9)
    assert status_of_records(CONFIRMED, [record(JobState.FAILED)]).exit_code is None


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (JobState.TIMEOUT, "the time limit was reached"),
        (JobState.OUT_OF_MEMORY, "out of memory"),
        (JobState.NODE_FAIL, "a node failed"),
        (JobState.FAILED, None),
        (JobState.COMPLETED, None),
    ],
)
def test_an_end_that_slurm_decided_has_its_reason(state: JobState, why: str | None) -> None:
    """A state that says why a job ended is put into words; another has no reason."""
    assert status_of_records(CONFIRMED, [record(state)]).reason == why


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


def test_a_completed_task_has_the_code_0() -> None:
    """A task that squeue alone has as COMPLETED ended with 0, though squeue shows no exit code."""
    records = (record(JobState.COMPLETED, task=0), record(JobState.RUNNING, task=1))
    tasks = status_of_records(CONFIRMED, records).tasks
    assert [task.exit_code for task in tasks] == [0, None]


def test_many_that_wait_together_are_listed() -> None:
    """Of tasks that Slurm lists as one record none is missing or counted; a cancelled one is."""
    together = record(JobState.PENDING, None, reason="Priority")
    status = status_of_records(CONFIRMED, [RUNNING_3, together], tasks=range(100_000))
    assert status.reason == "tasks: 1 RUNNING, many PENDING"
    gone = record(JobState.CANCELLED, None)
    status = status_of_records(CONFIRMED, [RUNNING_3, gone], tasks=range(5))
    assert str(status.reason).endswith("not listed: 0-2,4")


def test_an_array_that_goes_on_has_no_end() -> None:
    """While a task is left there is no end; where all wait, no start, and the task says why."""
    assert status_of_records(CONFIRMED, [DONE_1, RUNNING_3]).ended_s is None
    waits = status_of_records(CONFIRMED, [WAITING_4])
    assert (waits.started_s, waits.ended_s) == (None, None)
    assert waits.slurm_reason == "JobArrayTaskLimit"


def test_an_array_counts_its_tasks_and_names_a_bad_one() -> None:
    """The reason counts the tasks by state, and names the first that went wrong."""
    more = record(JobState.COMPLETED, 5)
    assert status_of_records(CONFIRMED, [DONE_1, FAILED_2, more]).reason == (
        "tasks: 2 COMPLETED, 1 FAILED; the first of them task 2"
    )
    assert status_of_records(CONFIRMED, [DONE_1, RUNNING_3, more]).reason == (
        "tasks: 2 COMPLETED, 1 RUNNING"
    )
    assert status_of_records(CONFIRMED, [DONE_1]).reason == "tasks: 1 COMPLETED"


UNKNOWN, NOT_SUBMITTED = JobState.UNKNOWN, JobState.NOT_SUBMITTED
GONE = "its end is not on record: "


@pytest.mark.parametrize(
    ("entry", "facts", "state", "is_lost", "reason"),
    [
        (UNCONFIRMED, {"is_submitting": True}, UNKNOWN, False, "it is being submitted"),
        (UNCONFIRMED, {"age_s": 30.4}, UNKNOWN, False, "in 90 s: do not submit it again before"),
        (UNCONFIRMED, {"age_s": 120.0}, NOT_SUBMITTED, False, "before Slurm took the job"),
        (UNCONFIRMED, {"has_log": True}, UNKNOWN, True, f"it ran, and {GONE}squeue and sacct"),
        (CONFIRMED, {"age_s": 119.0}, UNKNOWN, False, "Slurm does not list it yet"),
        (CONFIRMED, {"has_log": True}, UNKNOWN, True, f"it ran, and {GONE}squeue and sacct"),
        (CONFIRMED, {}, UNKNOWN, True, f"{GONE}squeue and sacct do not list it"),
        (CONFIRMED, {"accounts_asked": False}, UNKNOWN, True, f"{GONE}squeue does not list it"),
    ],
)
def test_a_job_that_slurm_does_not_list(
    entry: JobEntry, facts: dict[str, Any], state: JobState, is_lost: bool, reason: str
) -> None:
    """It is not known yet, never arrived, or is lost, which a log of an unconfirmed one proves."""
    usual = {"age_s": 1000.0, "is_submitting": False, "has_log": False, "accounts_asked": True}
    status = unlisted_status(entry, confirm_s=120.0, **{**usual, **facts})
    assert (status.state, status.is_lost) == (state, is_lost)
    assert (status.job_id, status.cluster) == (entry.job_id, entry.cluster)
    assert reason in str(status.reason)
