"""What Slurm's records of a job, from several commands, say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.model.slurm import JobEntry, JobRecord, JobState, JobStatus

CONFIRM_S: Final = 120.0
"""How long a submission whose end nobody saw may still become a job: sbatch ends with hpckit, but
slurmctld may have its request in hand."""
FAR_CONFIRM_S: Final = 300.0
"""The same where the submitting process cannot be looked at, on another login node: longer by
what a submission may take before it calls sbatch for the last time."""

_WHY: Final[Mapping[JobState, str]] = {
    JobState.TIMEOUT: "the time limit was reached",
    JobState.NODE_FAIL: "a node failed",
    JobState.OUT_OF_MEMORY: "out of memory",
    JobState.PREEMPTED: "preempted by another job",
    JobState.BOOT_FAIL: "a node did not boot",
    JobState.DEADLINE: "its deadline had passed",
    JobState.LAUNCH_FAILED: "Slurm could not launch it",
    JobState.SUSPENDED: "suspended",
}
_BUSY_FIRST: Final = (
    JobState.RUNNING,
    JobState.COMPLETING,
    JobState.CONFIGURING,
    JobState.SUSPENDED,
)


def merge_records(queue: Sequence[JobRecord], accounts: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """One record for each task: squeue's while it lives, else the one that knows its exit code.

    Of several records of one task in the accounts the last is the newest.
    """
    merged = {record.task_index: record for record in accounts}
    for record in queue:
        known = merged.get(record.task_index)
        final = record.state.is_final and known is not None and known.state.is_final
        if not final:
            merged[record.task_index] = record
    return sorted(merged.values(), key=lambda record: record.task_index or 0)


def status_of_records(entry: JobEntry, records: Sequence[JobRecord]) -> JobStatus:
    """The status of a job from its records, at least one: of a job array, of all its tasks.

    An array runs while one of its tasks does, waits while one is left, has failed when one has.
    """
    first = records[0]
    if len(records) == 1 and first.task_index is None:
        return _status(entry, first)
    chosen = _chosen(records)
    status = _status(entry, chosen)
    starts = [record.started_s for record in records if record.started_s is not None]
    ends = [record.ended_s for record in records if record.ended_s is not None]
    return replace(
        status,
        started_s=min(starts, default=None),
        ended_s=max(ends, default=None) if status.state.is_final else None,
        reason=_tasks_sentence(records, chosen),
        nodelist=None,
        tasks=tuple(records),
    )


def _status(entry: JobEntry, record: JobRecord) -> JobStatus:
    waits = record.state.is_waiting
    return JobStatus(
        job_id=record.job_id,
        cluster=entry.cluster,
        state=record.state,
        exit_code=0 if record.state is JobState.COMPLETED else record.exit_code,
        exit_signal=record.exit_signal,
        expected_start_s=record.expected_start_s if waits else None,
        started_s=record.started_s,
        ended_s=record.ended_s,
        nodelist=record.nodelist,
        reason=_why(record),
        slurm_reason=record.reason if waits else None,
        raw=record.raw,
    )


def _why(record: JobRecord) -> str | None:
    """Why it ended, or is held up, in words; sacct says who cancelled."""
    if record.state is JobState.CANCELLED:
        _, by, uid = record.raw.partition(" by ")
        return f"cancelled by uid {uid}" if by else "cancelled"
    return _WHY.get(record.state)


def _chosen(records: Sequence[JobRecord]) -> JobRecord:
    """The task that speaks for its array: one that is busy, one that waits, one that failed."""
    for state in _BUSY_FIRST:
        for record in records:
            if record.state is state:
                return record
    living = [record for record in records if not record.state.is_final]
    bad = [record for record in records if record.state is not JobState.COMPLETED]
    return (living or bad or records)[0]


def _tasks_sentence(records: Sequence[JobRecord], chosen: JobRecord) -> str:
    counts = Counter(record.state for record in records)
    text = "tasks: " + ", ".join(f"{count} {state}" for state, count in counts.most_common())
    bad = chosen.state.is_final and chosen.state is not JobState.COMPLETED
    return f"{text}; the first of them task {chosen.task_index}" if bad else text


def unlisted_status(
    entry: JobEntry,
    *,
    age_s: float,
    confirm_s: float,
    is_submitting: bool,
    has_log: bool,
    accounts_asked: bool,
) -> JobStatus:
    """The status of a job that Slurm, asked, does not list.

    `age_s` is the submission's; `confirm_s` how long it may still appear; `is_submitting` whether
    the process that submits it lives; `has_log` whether Slurm has opened its log;
    `accounts_asked` whether the accounts answered too.
    """
    if not entry.is_confirmed:
        if is_submitting:
            return _unknown(entry, "it is being submitted")
        if age_s < confirm_s:
            left = confirm_s - age_s
            return _unknown(
                entry,
                "its submission was cut short; whether Slurm has it is certain "
                f"in {left:.0f} s: do not submit it again before",
            )
        if not has_log:
            return JobStatus(
                job_id=entry.job_id,
                state=JobState.NOT_SUBMITTED,
                reason="the submission ended before Slurm took the job",
            )
    elif age_s < confirm_s:
        return _unknown(entry, "Slurm does not list it yet")
    ran = "it ran, and " if has_log else ""
    asked = "squeue and sacct do not list it" if accounts_asked else "squeue does not list it"
    return replace(_unknown(entry, f"{ran}its end is not on record: {asked}"), is_lost=True)


def stale_status(status: JobStatus, why: str) -> JobStatus:
    """The status of a job that only the accounts tell, which hear of changes last."""
    return replace(status, reason=f"as the accounts have it; {why}")


def unanswered_status(entry: JobEntry, why: str) -> JobStatus:
    """The status of a job while Slurm does not answer."""
    return _unknown(entry, why)


def _unknown(entry: JobEntry, reason: str) -> JobStatus:
    return JobStatus(
        job_id=entry.job_id, cluster=entry.cluster, state=JobState.UNKNOWN, reason=reason
    )
