"""How a job ended, kept in its folder: asked about again, no scheduler is troubled."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.app.prepare import as_json
from hpckit.errors import ConfigError, StorageFailed
from hpckit.model.job_folder import RESULT_FILE, RESULT_SCHEMA
from hpckit.model.slurm import JobEntry, JobState, JobStatus
from hpckit.model.tree import to_tree
from hpckit.parse.document import convert
from hpckit.units import MAX_EPOCH_S

if TYPE_CHECKING:
    from hpckit.adapters.job_folder import FileJobFolders


def recalled_end(entry: JobEntry, folders: FileJobFolders) -> JobStatus | None:
    """The end of a job that the index knows to have ended; None where it must be asked for.

    A job can be requeued: then the index knows better than the folder.
    """
    if not entry.state.is_final:
        return None
    status = folder_end(entry, folders)
    return status if status is not None and status.state is entry.state else None


def folder_end(entry: JobEntry, folders: FileJobFolders) -> JobStatus | None:
    """The final status that the folder of a job holds; None where it holds none."""
    try:
        document = dict(folders.read_json(Path(entry.folder), RESULT_FILE))
        if document.pop("schema", None) != RESULT_SCHEMA:
            return None
        status = convert(document, JobStatus, RESULT_FILE)
    except (StorageFailed, ConfigError):
        return None
    times = [time_s for time_s in (status.started_s, status.ended_s) if time_s is not None]
    can_be = status.state.is_final and all(0 <= time_s < MAX_EPOCH_S for time_s in times)
    return status if can_be and status.job_id == entry.job_id else None


def record_end(entry: JobEntry, status: JobStatus, folders: FileJobFolders) -> None:
    """Write the final status of a job into its folder, unless what ran it has.

    A submission that became no job is left out: Slurm's answer to it can still change.
    """
    folder = Path(entry.folder)
    if not status.state.is_final or status.state is JobState.NOT_SUBMITTED:
        return
    with contextlib.suppress(StorageFailed):
        if folders.read_json(folder, RESULT_FILE).get("schema") != RESULT_SCHEMA:
            return
    # A folder on a full disk must not hide how the job is: it is asked for again.
    with contextlib.suppress(StorageFailed):
        folders.write(folder, RESULT_FILE, as_json({"schema": RESULT_SCHEMA, **to_tree(status)}))
