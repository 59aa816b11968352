"""What the commands about submitted jobs share: the JOB_ID argument and the parts behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hpckit.model.site import SiteSpec
    from hpckit.model.slurm import JobEntry, JobStatus
    from hpckit.ports import Submitter


def job_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the optional JOB_ID argument, completed from the index."""
    decorated: Callable[..., Any] = _argument(required=False, metavar="[JOB_ID]")(function)
    return decorated


def required_job_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a JOB_ID argument that must be given, for what cannot be taken back."""
    decorated: Callable[..., Any] = _argument(required=True, metavar="JOB_ID")(function)
    return decorated


def _argument(*, required: bool, metavar: str) -> Callable[..., Any]:
    add: Callable[..., Any] = click.argument(
        "job_id", required=required, metavar=metavar, shell_complete=_complete
    )
    return add


def _complete(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from hpckit import wiring
    from hpckit.errors import HpckitError

    try:
        entries = wiring.job_index().find(incomplete)
    except HpckitError:
        return []
    return [CompletionItem(entry.job_id, help=entry.name) for entry in entries]


def site_of(entry: JobEntry) -> SiteSpec:
    """The site that the job was submitted to, as its folder remembers it."""
    from hpckit import wiring
    from hpckit.errors import StorageFailed
    from hpckit.model.site import SiteSpec
    from hpckit.parse.document import convert

    folders, folder = wiring.job_folders(), Path(entry.folder)
    if not folders.is_folder(folder):
        raise StorageFailed(
            f"the folder of {entry.job_id} is gone: {folder}",
            hint="hpckit jobs --rebuild forgets jobs without a folder",
        )
    source = str(folder / "site.json")
    return convert(dict(folders.read_json(folder, "site.json")), SiteSpec, source)


def submitter_of(entry: JobEntry) -> Submitter:
    """What started this job."""
    from hpckit import wiring

    return wiring.submitter(site_of(entry).submitter)


def status_document(entry: JobEntry, status: JobStatus) -> dict[str, object]:
    """`hpckit.status/1`: a job and how it is."""
    return {
        "schema": "hpckit.status/1",
        "job_id": entry.job_id,
        "name": entry.name,
        "site": entry.site,
        "folder": entry.folder,
        "state": str(status.state),
        "exit_code": status.exit_code,
        "exit_signal": status.exit_signal,
        "reason": status.reason,
        "submitted_s": entry.created_s,
        "started_s": status.started_s,
        "ended_s": status.ended_s,
    }
