"""What scancel is told: the job, or those of an array's tasks that a signal can reach."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.errors import HpckitError
from hpckit.model.slurm import JobRecord, JobStatus


def cancel_targets(status: JobStatus, task: int | None, signal: str | None) -> Sequence[str]:
    """The ids for scancel. `signal` None ends the job, KILL ends it at once.

    Another signal goes to what runs: scancel tries for half a minute to signal a task that waits.
    Raises HpckitError for what has not begun, has ended, or is not there.
    """
    job_id = status.job_id
    ends = signal in (None, "KILL")
    if task is not None:
        record = _record(status, task)
        _check_task(job_id, record, task, ends=ends)
        return (record.slurm_id,)
    if ends:
        # Each part of a split array is a job to Slurm, and one that has ended cannot be cancelled.
        living = [one.job_id for one in status.tasks if not one.state.is_final]
        return tuple(dict.fromkeys(living)) or (job_id,)
    if status.tasks:
        running = [one for one in status.tasks if _can_be_signalled(one)]
        if running:
            return [one.slurm_id for one in running]
        raise HpckitError(f"no task of job {job_id} runs now")
    if status.state.is_waiting:
        raise HpckitError(f"job {job_id} has not begun: {status.state}")
    return (job_id,)


def _record(status: JobStatus, task: int) -> JobRecord:
    for record in status.tasks:
        if record.task_index == task:
            return record
    if not status.tasks:
        raise HpckitError(f"job {status.job_id} is no job array and has no task {task}")
    raise HpckitError(f"job {status.job_id} has no task {task} that Slurm lists")


def _check_task(job_id: str, record: JobRecord, task: int, *, ends: bool) -> None:
    if record.state.is_final:
        raise HpckitError(f"task {task} of job {job_id} has already ended: {record.state}")
    if record.state.is_waiting and not ends:
        raise HpckitError(f"task {task} of job {job_id} has not begun: {record.state}")


def _can_be_signalled(record: JobRecord) -> bool:
    return not record.state.is_final and not record.state.is_waiting
