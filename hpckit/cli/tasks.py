"""One task of a job array, as the commands about jobs take it: 4242_7."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hpckit.errors import HpckitError

if TYPE_CHECKING:
    from hpckit.model.slurm import JobEntry, JobStatus


def id_of(job_id: str, task: int | None) -> str:
    """A job, or a task of it, as one types it."""
    return job_id if task is None else f"{job_id}_{task}"


def log_task(status: JobStatus) -> int | None:
    """The task of an array whose log says most: one that failed, one that runs, the first.

    None where there are no tasks: then the job has a log of its own.
    """
    from hpckit.model.slurm import JobState

    tasks = [task for task in status.tasks if task.task_index is not None]
    if status.state.is_final:
        first = [
            task
            for task in tasks
            if task.state is not JobState.COMPLETED and task.started_s is not None
        ]
    else:
        first = [task for task in tasks if task.state is JobState.RUNNING]
    return next((task.task_index for task in (*first, *tasks)), None)


def status_of_task(entry: JobEntry, status: JobStatus, task: int) -> JobStatus:
    """How one task of an array is. Raises HpckitError when Slurm does not list it.

    What is not known of the job is not known of its tasks either.
    """
    from hpckit.decide.job_status import status_of_records
    from hpckit.model.slurm import JobState
    from hpckit.units import format_indices

    found = next((record for record in status.tasks if record.task_index == task), None)
    if found is not None:
        return status_of_records(entry, [replace(found, task_index=None)])
    listed = [record.task_index for record in status.tasks if record.task_index is not None]
    if not listed and status.state in (JobState.UNKNOWN, JobState.NOT_SUBMITTED):
        return status
    if not listed:
        raise no_array(entry, task, f"hpckit status {entry.job_id}")
    raise HpckitError(
        f"Slurm lists no task {task} of job {entry.job_id}",
        hint=f"it lists: {format_indices(listed)}",
    )


def no_array(entry: JobEntry, task: int, hint: str) -> HpckitError:
    """The error about a task of a job that has none; `hint` is the command for the whole job."""
    return HpckitError(f"job {entry.job_id} is no job array and has no task {task}", hint=hint)


def task_has_ended(status: JobStatus, task: int | None) -> bool:
    """Whether nothing more comes from a job, or from one task of it."""
    for record in status.tasks:
        if task is not None and record.task_index == task:
            return record.state.is_final
    return status.state.is_final
