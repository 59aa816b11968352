"""`hpckit logs`: what a job printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import (
    id_of,
    job_argument,
    not_known,
    site_of,
    task_has_ended,
)
from hpckit.core.errors import HpckitError, StorageFailed

if TYPE_CHECKING:
    from hpckit.jobs.logs import FileJobLogs
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.values import JobEntry, JobStatus
    from hpckit.spec.job_folder import LogName


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--rank", type=click.IntRange(0, 2**31), help="The output of one rank alone.")
@click.option("--json", "as_json", is_flag=True, help="Where the logs lie, as one JSON document.")
def logs_command(job_id: str | None, *, follow: bool, rank: int | None, as_json: bool) -> None:
    """Print the output of JOB_ID (the newest job without one).

    ID_TASK is one task of a job array, as Slurm writes it: 4242_7. ID+COMPONENT is one component
    of a heterogeneous job, by its number or name: 4242+1, of which rank 0 is shown.
    """
    from hpckit.jobs.logs import FileJobLogs, read_log
    from hpckit.jobs.track import find_task
    from hpckit.spec.job_folder import LogName

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    logs = FileJobLogs()
    _refuse_what_cannot_be(entry, logs, task)
    rank = _rank_of(entry, rank)
    log = LogName(folder=Path(entry.folder), rank=rank, task=task)
    if as_json:
        output.document(_document(entry, logs, task))
    elif follow:
        _follow(entry, logs, log, tools)
    else:
        _write(read_log(logs, log, entry.job_id, has_ended=entry.state.is_final))


def _rank_of(entry: JobEntry, rank: int | None) -> int | None:
    """The rank that is meant: a component has no merged log, the whole job no ranks of its own."""
    from hpckit.jobs.local_record import component_names

    if entry.is_component:
        return rank or 0
    names = () if rank is None else component_names(Path(entry.folder))
    if names:
        reason = f"job {entry.job_id} has components, each with ranks of its own"
        raise HpckitError(reason, hint=f"hpckit logs {entry.job_id}+{names[0]} --rank {rank}")
    return rank


def _refuse_what_cannot_be(entry: JobEntry, logs: FileJobLogs, task: int | None) -> None:
    """Raise HpckitError for a job without a folder, and for the task of one that has no tasks."""
    folder = Path(entry.folder)
    if not wiring.job_folders().is_folder(folder):
        raise StorageFailed(
            f"the folder of {entry.job_id} is gone, and its logs with it: {folder}",
            hint="if it lies on a file system that this host has not, ask on one that has; "
            "else `hpckit jobs --rebuild` forgets ended jobs without a folder",
        )
    if task is not None and not logs.tasks(folder) and _is_array(folder) is False:
        from hpckit.jobs.status import no_array

        raise no_array(entry, task, f"hpckit logs {entry.job_id}")


def _document(entry: JobEntry, logs: FileJobLogs, task: int | None) -> dict[str, object]:
    from hpckit.spec.job_folder import LogName, log_file

    folder = Path(entry.folder)
    has_log = task is not None or not _is_array(folder)
    return {
        "schema": "hpckit.logs/1",
        "job_id": entry.job_id,
        "task": task,
        "log": str(logs.path(LogName(folder=folder, task=task))) if has_log else None,
        "ranks": {
            str(number): str(folder / log_file(number, task)) for number in logs.ranks(folder, task)
        },
        "tasks": {
            str(number): str(logs.path(LogName(folder=folder, task=number)))
            for number in logs.tasks(folder)
        },
    }


def _is_array(folder: Path) -> bool | None:
    """Whether each of the job's tasks has a merged log, and the job has none; None if not known."""
    try:
        effective = wiring.job_folders().read_json(folder, "effective.json")
        return effective["job"]["slurm"].get("array") is not None
    except (HpckitError, KeyError, TypeError, AttributeError):
        return None


def _follow(entry: JobEntry, logs: FileJobLogs, log: LogName, tools: TrackTools) -> None:
    from hpckit.jobs.logs import follow_log
    from hpckit.jobs.track import job_status
    from hpckit.spec.site import SubmitterKind

    site = site_of(entry)
    lost: list[JobStatus] = []

    def has_ended() -> bool:
        status = job_status(entry, tools)
        if task_has_ended(status, log.task):
            return True
        if status.is_lost:
            lost.append(status)
        return status.is_lost

    chunks = follow_log(
        logs,
        log,
        tools.clock,
        job_id=entry.job_id,
        poll_interval_s=site.poll_interval_s,
        back_off=site.submitter is SubmitterKind.SLURM,
        has_ended=has_ended,
    )
    try:
        _write(chunks)
    except KeyboardInterrupt:
        shown = id_of(entry.job_id, log.task)
        raise KeyboardInterrupt(f"the job goes on: hpckit logs -f {shown}") from None
    except HpckitError as error:
        if not lost:
            raise
        raise HpckitError(f"{not_known(entry, lost[0])}; {error.message}") from error
    if lost:
        raise HpckitError(not_known(entry, lost[0]))


def _write(chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
