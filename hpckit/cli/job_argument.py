"""What the commands about submitted jobs share: the JOB_ID argument and the parts behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hpckit.cli.tasks import id_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hpckit.decide.pending import PendingExplanation
    from hpckit.model.site import SiteSpec
    from hpckit.model.slurm import JobDetail, JobEntry, JobStatus


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
    from hpckit.cli.output import one_line
    from hpckit.errors import HpckitError

    try:
        entries = wiring.job_index().find(incomplete)
    except HpckitError:
        return []
    return [CompletionItem(entry.job_id, help=one_line(entry.name)) for entry in entries]


def many_jobs_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add any number of JOB_ID arguments."""
    add = click.argument("job_ids", nargs=-1, metavar="[JOB_ID]...", shell_complete=_complete)
    decorated: Callable[..., Any] = add(function)
    return decorated


def site_of(entry: JobEntry) -> SiteSpec:
    """The site that the job was submitted to, as its folder remembers it."""
    from hpckit import wiring
    from hpckit.app.sites import recorded_site

    return recorded_site(entry, wiring.job_folders())


def help_for(status: JobStatus, shown: str) -> PendingExplanation | None:
    """Why a job waits, explained; the commands that help name it as it is `shown`."""
    if status.slurm_reason is None:
        return None
    from hpckit.decide.pending import explain_pending

    told = explain_pending(status.slurm_reason)
    return replace(told, help=told.help and re.sub(r"\bID\b", shown, told.help))


def status_document(
    entry: JobEntry, status: JobStatus, task: int | None = None, detail: JobDetail | None = None
) -> dict[str, object]:
    """`hpckit.status/1`: a job, or one task of it, and how it is."""
    pending = help_for(status, id_of(status.job_id, task))
    return {
        "schema": "hpckit.status/1",
        "job_id": status.job_id,
        "task": task,
        "part_ids": [part.job_id for part in status.parts],
        "cluster": status.cluster,
        "name": entry.name,
        "site": entry.site,
        "folder": entry.folder,
        "state": str(status.state),
        "slurm_state": status.raw,
        "is_lost": status.is_lost,
        "exit_code": status.exit_code,
        "exit_signal": status.exit_signal,
        "reason": status.reason,
        "slurm_reason": status.slurm_reason,
        "pending": pending
        and {"meaning": pending.meaning, "help": pending.help, "hopeless": pending.hopeless},
        "submitted_s": entry.created_s,
        "expected_start_s": status.expected_start_s,
        "started_s": status.started_s,
        "ended_s": status.ended_s,
        "nodelist": status.nodelist,
        "tasks": [
            {
                "task": task.task_index,
                "state": str(task.state),
                "exit_code": task.exit_code,
                "started_s": task.started_s,
                "ended_s": task.ended_s,
                "nodelist": task.nodelist,
            }
            for task in status.tasks
        ],
        "detail": None if detail is None else _detail_document(detail),
    }


def _detail_document(detail: JobDetail) -> dict[str, object]:
    return {
        "partition": detail.partition,
        "account": detail.account,
        "qos": detail.qos,
        "restarts": detail.restarts,
        "tres_allocated": dict(detail.tres_allocated),
        "steps": [
            {
                "step": step.step_id,
                "name": step.name,
                "state": str(step.state),
                "slurm_state": step.raw,
                "exit_code": step.exit_code,
                "exit_signal": step.exit_signal,
                "started_s": step.started_s,
                "ended_s": step.ended_s,
                "nodelist": step.nodelist,
            }
            for step in detail.steps
        ],
    }
