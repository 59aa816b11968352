"""What several of Slurm's records say together about one job."""

from __future__ import annotations

import pytest

from hpckit.jobs.status import merge_records, status_of_records, unanswered_status, unlisted_status
from hpckit.slurm.values import JobEntry, JobId, JobRecord, JobState, JobStatus

CONFIRMED = JobEntry(
    submission="a" * 32,
    job_id=JobId("4242"),
    cluster="west",
    name="train",
    site="s",
    folder="/f",
    created_s=0.0,
    state=JobState.PENDING,
)
UNCONFIRMED = JobEntry(
    submission="a" * 32,
    job_id=JobId("Uaaaaaaaa"),
    name="train",
    site="s",
    folder="/f",
    created_s=0.0,
    state=JobState.UNKNOWN,
)


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


def test_the_queue_knows_a_living_job_better() -> None:
    """While a job lives squeue's record counts, whatever the accounts still say."""
    living = record(JobState.COMPLETING)
    assert merge_records([living], [record(JobState.RUNNING)]) == [living]
    assert merge_records([record(JobState.RUNNING)], [record(JobState.FAILED)]) == [
        record(JobState.RUNNING)
    ]


def test_the_accounts_know_an_ended_job_better() -> None:
    """When both say that a job has ended, the record with the exit code is the accounts'."""
    known = record(JobState.FAILED, exit_code=7)
    assert merge_records([record(JobState.FAILED)], [known]) == [known]


def test_an_end_that_the_accounts_have_not_seen_counts() -> None:
    """A job that has ended in the queue has ended, though the accounts have it running or not."""
    ended = record(JobState.FAILED)
    assert merge_records([ended], [record(JobState.RUNNING)]) == [ended]
    assert merge_records([ended], []) == [ended]


def test_the_last_account_of_a_requeued_job_counts() -> None:
    """Of several records of one job in the accounts the last one is the newest."""
    again = record(JobState.COMPLETED, exit_code=0)
    assert merge_records([], [record(JobState.NODE_FAIL), again]) == [again]


def test_each_task_is_merged_for_itself() -> None:
    """The records of an array are merged task by task and come in the order of their numbers."""
    queue = [record(JobState.PENDING, 10), record(JobState.RUNNING, 2)]
    accounts = [record(JobState.RUNNING, 2, exit_code=0), record(JobState.COMPLETED, 1)]
    assert merge_records(queue, accounts) == [
        record(JobState.COMPLETED, 1),
        record(JobState.RUNNING, 2),
        record(JobState.PENDING, 10),
    ]


def test_no_record_is_none() -> None:
    """What neither command lists has no record."""
    assert merge_records([], []) == []


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
    """While a task is left, the end of another is not the array's."""
    assert status_of_records(CONFIRMED, [DONE_1, RUNNING_3]).ended_s is None


def test_an_array_that_waits_has_begun_nothing() -> None:
    """Without a task that started there is no start, and the waiting task says why."""
    status = status_of_records(CONFIRMED, [WAITING_4])
    assert (status.started_s, status.ended_s, status.slurm_reason) == (
        None,
        None,
        "JobArrayTaskLimit",
    )


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


def unlisted(
    entry: JobEntry,
    *,
    age_s: float = 1000.0,
    is_submitting: bool = False,
    has_log: bool = False,
    accounts_asked: bool = True,
) -> JobStatus:
    """The status of a job that Slurm does not list, with a confirmation time of 120 s."""
    return unlisted_status(
        entry,
        age_s=age_s,
        confirm_s=120.0,
        is_submitting=is_submitting,
        has_log=has_log,
        accounts_asked=accounts_asked,
    )


def test_a_job_that_is_being_submitted_is_not_known_yet() -> None:
    """While its submitter lives, a job without an id is UNKNOWN and not lost, however old."""
    status = unlisted(UNCONFIRMED, is_submitting=True)
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, False)
    assert status.reason == "it is being submitted"


def test_a_submission_cut_short_is_certain_later() -> None:
    """Before the confirmation time is over it says how long not to submit again."""
    status = unlisted(UNCONFIRMED, age_s=30.4)
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, False)
    assert status.reason is not None
    assert "in 90 s: do not submit it again before" in status.reason


def test_a_submission_that_never_arrived_was_not_submitted() -> None:
    """After the confirmation time a job without id and log never became one, which is final."""
    status = unlisted(UNCONFIRMED, age_s=120.0)
    assert status.state is JobState.NOT_SUBMITTED
    assert status.state.is_final


def test_a_log_proves_that_an_unconfirmed_job_ran() -> None:
    """A job without an id whose log Slurm opened did run: it is lost, never NOT_SUBMITTED."""
    status = unlisted(UNCONFIRMED, has_log=True)
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, True)
    assert status.reason == (
        "it ran, and its end is not on record: squeue and sacct do not list it"
    )


def test_a_young_job_may_not_be_listed_yet() -> None:
    """A confirmed job that Slurm does not list soon after its submission is not lost."""
    status = unlisted(CONFIRMED, age_s=119.0)
    assert (status.state, status.is_lost, status.reason) == (
        JobState.UNKNOWN,
        False,
        "Slurm does not list it yet",
    )


@pytest.mark.parametrize(
    ("has_log", "accounts_asked", "reason"),
    [
        (True, True, "it ran, and its end is not on record: squeue and sacct do not list it"),
        (False, True, "its end is not on record: squeue and sacct do not list it"),
        (True, False, "it ran, and its end is not on record: squeue does not list it"),
        (False, False, "its end is not on record: squeue does not list it"),
    ],
)
def test_a_job_that_slurm_forgot_is_lost(
    *, has_log: bool, accounts_asked: bool, reason: str
) -> None:
    """An old job that nobody lists is lost, and the reason says who was asked and what is sure."""
    status = unlisted(CONFIRMED, has_log=has_log, accounts_asked=accounts_asked)
    assert (status.state, status.is_lost, status.reason) == (JobState.UNKNOWN, True, reason)
    assert (status.job_id, status.cluster) == ("4242", "west")


def test_no_answer_is_no_news() -> None:
    """While Slurm does not answer a job is UNKNOWN under its own id, with the cause, not lost."""
    assert unanswered_status(CONFIRMED, "slurmctld is down") == JobStatus(
        job_id=JobId("4242"), cluster="west", state=JobState.UNKNOWN, reason="slurmctld is down"
    )
