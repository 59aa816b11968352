"""`hpckit status`: how a job is, and why it waits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument, site_of, status_document
from hpckit.units import format_duration, format_indices

if TYPE_CHECKING:
    from hpckit.model.slurm import JobEntry, JobState, JobStatus


@click.command("status")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str | None, *, as_json: bool) -> None:
    """Say how the job JOB_ID is (any beginning of it; the newest job without one)."""
    from hpckit import wiring
    from hpckit.app.track import after_status, find_job, job_status

    tools = wiring.track_tools()
    entry = find_job(tools.index, job_id)
    site_of(entry)
    status = job_status(entry, tools)
    entry = after_status(entry, status)
    if as_json:
        output.document(status_document(entry, status))
        return
    now_s = tools.clock.now_s()
    output.result(f" {entry.job_id} {entry.name}   {_headline(entry, status, now_s)}")
    output.labelled([*_why_it_waits(status, now_s), *_tasks(status), *_where(entry, status)])


def _headline(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    text = output.outcome(status)
    if status.state.is_waiting:
        text += f" · submitted {format_duration(now_s - entry.created_s)} ago"
    elif not status.state.is_final and status.started_s is not None:
        text += f" for {format_duration(now_s - status.started_s)}"
    return text


def _why_it_waits(status: JobStatus, now_s: float) -> Iterator[tuple[str, str]]:
    if status.slurm_reason is None:
        return
    from hpckit.decide.pending import explain_pending

    told = explain_pending(status.slurm_reason)
    never = "; it does not start as it stands" if told.hopeless else ""
    yield "why", output.prose(told.meaning + never)
    if told.help is not None:
        yield "help", output.prose(re.sub(r"\bID\b", status.job_id, told.help))
    if status.expected_start_s is not None:
        start = datetime.fromtimestamp(status.expected_start_s)
        in_s = status.expected_start_s - now_s
        when = f" (in {format_duration(in_s)})" if in_s > 0 else ""
        yield "start", f"expected {start:%Y-%m-%d %H:%M:%S}{when}"
    else:
        yield "start", "Slurm has made no estimate yet"


def _tasks(status: JobStatus) -> Iterator[tuple[str, str]]:
    groups: dict[tuple[JobState, int | None], list[int]] = {}
    for task in status.tasks:
        if task.task_index is not None:
            groups.setdefault((task.state, task.exit_code or None), []).append(task.task_index)
    lines = [
        f"{output.state_word(state)}  {format_indices(indices)}"
        + (f"  exit code {code}" if code else "")
        for (state, code), indices in groups.items()
    ]
    if lines:
        yield "tasks", "\n".join(lines)


def _where(entry: JobEntry, status: JobStatus) -> Iterator[tuple[str, str]]:
    if status.nodelist:
        yield "nodes", status.nodelist
    yield "folder", entry.folder
    if status.state.is_waiting:
        yield "next", f"hpckit wait {entry.job_id} · hpckit cancel {entry.job_id}"
    elif status.state != "NOT_SUBMITTED":
        yield "next", f"hpckit logs {'' if status.state.is_final else '-f '}{entry.job_id}"
