"""What Slurm's records of a job, from several commands, say together."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from hpckit.core.errors import HpckitError
from hpckit.core.units import format_indices
from hpckit.core.values import dataclass
from hpckit.slurm.values import (
    JobEntry,
    JobId,
    JobPart,
    JobRecord,
    JobState,
    JobStatus,
    is_confirmed,
)

CONFIRM_S: Final = 120.0
"""How long a submission whose end nobody saw may still become a job: sbatch ends with hpckit, but
slurmctld may have its request in hand."""
FAR_CONFIRM_S: Final = 300.0
"""The same on another login node, whose clock may differ."""

_WHY: Final[Mapping[JobState, str]] = {
    JobState.TIMEOUT: "time limit reached",
    JobState.NODE_FAIL: "a node failed",
    JobState.OUT_OF_MEMORY: "out of memory",
    JobState.PREEMPTED: "preempted by another job",
    JobState.BOOT_FAIL: "a node did not boot",
    JobState.DEADLINE: "its deadline has passed",
    JobState.LAUNCH_FAILED: "Slurm could not launch it",
    JobState.SUSPENDED: "suspended",
}
_BUSY_FIRST: Final = (
    JobState.RUNNING,
    JobState.COMPLETING,
    JobState.CONFIGURING,
    JobState.SUSPENDED,
)


@dataclass(slots=True)
class SlurmView:
    """The records of some jobs of one cluster by their submission, and why others are not told.

    `queue` is of slurmctld's squeue, `accounts` of slurmdbd's sacct; `has_accounts` is False where
    none are kept.
    """

    queue: Mapping[str, Sequence[JobRecord]] = field(default_factory=dict)
    accounts: Mapping[str, Sequence[JobRecord]] = field(default_factory=dict)
    has_accounts: bool = True
    queue_problem: str | None = None
    accounts_problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the first that did not answer did not."""
        return self.queue_problem or self.accounts_problem


def own_records(entry: JobEntry, records: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """The records of this submission's own job.

    A script that is submitted again by hand keeps its uuid under another id: a confirmed job is
    known by both, and of an unconfirmed one the first id is its own. So it is with each part of a
    split array, which has its offset beside the uuid.
    """
    own: list[JobRecord] = []
    for part in _parts(entry):
        named = [
            record
            for record in records
            if (record.submission, record.array_offset) == (entry.submission, part.offset)
        ]
        job_id: JobId | None = part.job_id
        if not is_confirmed(part.job_id):
            ids = (record.leader_id for record in named)
            job_id = min(ids, key=lambda job_id: (len(job_id), job_id), default=None)
        own += [record for record in named if job_id in (record.job_id, record.leader_id)]
    return own


def _parts(entry: JobEntry) -> tuple[JobPart, ...]:
    return entry.parts or (JobPart(offset=0, job_id=entry.job_id),)


def _with_ids(entry: JobEntry, records: Sequence[JobRecord]) -> JobEntry:
    """The entry with the ids that Slurm's records give to it and to its parts."""
    if entry.is_component:
        return entry
    found = {record.array_offset: record.leader_id for record in records}
    parts = tuple(
        replace(part, job_id=found.get(part.offset, part.job_id)) for part in _parts(entry)
    )
    return replace(entry, job_id=parts[0].job_id, parts=parts if entry.parts else ())


def merge_records(queue: Sequence[JobRecord], accounts: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """One record for each task: squeue's while it lives, else the one that knows its exit code.

    Of several records of one task in the accounts the last is the newest.
    """
    merged = {_task(record): record for record in accounts}
    for record in queue:
        known = merged.get(_task(record))
        final = record.state.is_final and known is not None and known.state.is_final
        if not final:
            merged[_task(record)] = record
    # squeue shows tasks that were cancelled together as the array, the accounts each of them.
    told = {record.array_offset for record in merged.values() if record.task_index is not None}
    for record in list(merged.values()):
        if record.task_index is None and record.state.is_final and record.array_offset in told:
            del merged[_task(record)]
    # sacct has one record of a heterogeneous job that was cancelled before it began.
    if any(record.component is not None for record in merged.values()):
        merged = {key: one for key, one in merged.items() if one.component is not None}
    return sorted(
        merged.values(),
        key=lambda record: record.task_index or record.component or record.array_offset,
    )


def _task(record: JobRecord) -> tuple[int | None, int, int | None]:
    """What tells a task, or a component, from the others.

    Tasks that Slurm lists together are one of each part.
    """
    return record.task_index, record.array_offset, record.component


def status_of_records(
    entry: JobEntry,
    records: Sequence[JobRecord],
    view: SlurmView | None = None,
    tasks: Sequence[int] | None = None,
) -> JobStatus:
    """The status of a job from its records, at least one: of a job array, of all its tasks.

    An array runs while one of its tasks does, waits while one is left, has failed when one has.
    `tasks` are those that were asked for, None where that is not known; without a `view` all of
    Slurm has answered.
    """
    view = view or SlurmView()
    entry = _with_ids(entry, records)
    first = records[0]
    if first.component is not None and not entry.is_component:
        return _stale(_heterogeneous_status(entry, records), view)
    if len(records) == 1 and first.task_index is None:
        return _stale(_status(entry, first), view)
    status = _array_status(entry, records)
    missing = _not_listed(entry, records, tasks or ())
    if not missing:
        return _stale(status, view)
    which = f"{status.reason}; not listed: {format_indices(missing)}"
    if not status.state.is_final:
        return _stale(replace(status, reason=which), view)
    never = "never started" if entry.is_whole else "never started, or never submitted"
    return _without_tasks(status, which, never, view)


def _heterogeneous_status(entry: JobEntry, records: Sequence[JobRecord]) -> JobStatus:
    """The status of a heterogeneous job: that of its first component, whose node runs the script.

    Where that completed, another may have ended badly.
    """
    chosen = _chosen(records)
    ends = [record.ended_s for record in records if record.ended_s is not None]
    status = _status(entry, chosen)
    return replace(
        status,
        nodelist=None,
        ended_s=max(ends, default=None) if status.state.is_final else None,
        components=tuple(replace(record, exit_code=_exit_code(record)) for record in records),
    )


def status_of_task(entry: JobEntry, status: JobStatus, task: int) -> JobStatus:
    """How one task of an array is. Raises HpckitError when Slurm does not list it.

    What is not known of the job is not known of its tasks either.
    """
    found = next((record for record in status.tasks if record.task_index == task), None)
    if found is not None:
        return status_of_records(entry, [replace(found, task_index=None)])
    listed = [record.task_index for record in status.tasks if record.task_index is not None]
    if not listed and status.state in (JobState.UNKNOWN, JobState.NOT_SUBMITTED):
        return status
    if not listed:
        raise no_array(entry, task, f"hpckit status {entry.job_id}")
    raise HpckitError(
        f"job {entry.job_id} has no task {task} in Slurm",
        hint=f"its tasks: {format_indices(listed)}",
    )


def no_array(entry: JobEntry, task: int, hint: str) -> HpckitError:
    """The error about a task of a job that has none; `hint` is the command for the whole job."""
    return HpckitError(f"job {entry.job_id} is not a job array: it has no task {task}", hint=hint)


def _not_listed(
    entry: JobEntry, records: Sequence[JobRecord], tasks: Sequence[int]
) -> Sequence[int]:
    """The tasks of which there is no record, neither of their own nor of many together."""
    listed = {record.task_index for record in records}
    together = {record.array_offset for record in records if _is_of_many(record)}
    offsets = [part.offset for part in entry.parts] or [0]
    return [
        task
        for task in tasks
        if task not in listed and offsets[bisect_right(offsets, task) - 1] not in together
    ]


def _is_of_many(record: JobRecord) -> bool:
    """Whether it stands for very many tasks that wait: Slurm does not say which, or how many."""
    return record.task_index is None and not record.state.is_final


def _without_tasks(status: JobStatus, which: str, never: str, view: SlurmView) -> JobStatus:
    """The status of an array that has ended, of which not every task is on record."""
    if view.accounts_problem is None and view.has_accounts:
        # Slurm keeps no record of a task that is cancelled before it begins.
        completed = status.state is JobState.COMPLETED
        state = JobState.CANCELLED if completed else status.state
        code = None if completed else status.exit_code
        return replace(status, state=state, exit_code=code, reason=f"{which} ({never})")
    return replace(
        status,
        state=JobState.UNKNOWN,
        exit_code=None,
        ended_s=None,
        is_lost=not view.has_accounts,
        reason=f"{which}; {view.problem or 'Slurm keeps no accounting of ended tasks'}",
    )


def _array_status(entry: JobEntry, records: Sequence[JobRecord]) -> JobStatus:
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
        tasks=tuple(replace(record, exit_code=_exit_code(record)) for record in records),
    )


def _exit_code(record: JobRecord) -> int | None:
    """COMPLETED is Slurm's word for the code 0, which squeue leaves out."""
    return 0 if record.state is JobState.COMPLETED else record.exit_code


def _stale(status: JobStatus, view: SlurmView) -> JobStatus:
    """The accounts hear of changes last: while they alone answer, a living job says so."""
    if view.queue_problem is None or status.state.is_final:
        return status
    return replace(status, reason=f"from sacct, may be out of date; {view.problem}")


def _status(entry: JobEntry, record: JobRecord) -> JobStatus:
    waits = record.state.is_waiting
    elsewhere = record.state is JobState.REVOKED
    return JobStatus(
        job_id=entry.job_id,
        cluster=entry.cluster,
        parts=entry.parts,
        state=JobState.UNKNOWN if elsewhere else record.state,
        is_lost=elsewhere,
        exit_code=_exit_code(record),
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
    if record.state is JobState.REVOKED:
        return "another cluster of the federation started it: run this command there"
    if record.state is JobState.UNKNOWN:
        return f'Slurm reports the state "{record.raw}", which is unknown to hpckit'
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
    counts = Counter(record.state for record in records if not _is_of_many(record))
    many = dict.fromkeys(record.state for record in records if _is_of_many(record))
    words = [f"{count} {state}" for state, count in counts.most_common()]
    text = "tasks: " + ", ".join([*words, *(f"many {state}" for state in many)])
    bad = chosen.state.is_final and chosen.state is not JobState.COMPLETED
    return f"{text}; first: task {chosen.task_index}" if bad else text


def unsettled_status(status: JobStatus) -> JobStatus:
    """The status of an array that has ended as far as it is listed, and may be listed further."""
    reason = f"{status.reason}; more tasks may follow"
    return replace(status, state=JobState.UNKNOWN, exit_code=None, ended_s=None, reason=reason)


def runaway_status(entry: JobEntry, status: JobStatus) -> JobStatus:
    """The status of a job that only the accounts believe to live; sacctmgr calls it a runaway."""
    reason = f"sacct says {status.state}, but slurmctld no longer has the job"
    return replace(unknown_status(entry, reason), is_lost=True)


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
            return unknown_status(entry, "submission in progress")
        if age_s < confirm_s:
            return unknown_status(
                entry,
                "its submission was interrupted: do not submit it again yet; in "
                f"{confirm_s - age_s:.0f} s it is certain whether Slurm has it",
            )
        if not has_log:
            reason = "the submission ended before Slurm accepted the job"
            return JobStatus(job_id=entry.job_id, state=JobState.NOT_SUBMITTED, reason=reason)
    elif age_s < confirm_s:
        return unknown_status(entry, "Slurm does not list it yet")
    tools = "squeue and sacct no longer list" if accounts_asked else "squeue no longer lists"
    return replace(unknown_status(entry, f"{tools} it"), is_lost=True)


def unknown_status(entry: JobEntry, reason: str) -> JobStatus:
    """The status of a job while those who could tell do not answer, or are elsewhere."""
    return JobStatus(
        job_id=entry.job_id,
        cluster=entry.cluster,
        parts=entry.parts,
        state=JobState.UNKNOWN,
        reason=reason,
    )
