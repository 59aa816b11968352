"""`hpckit status`: how a job is, and why it waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.job_argument import help_for, job_argument, site_of, status_document
from hpckit.cli.tasks import id_of, log_task, status_of_task
from hpckit.units import format_duration, format_indices

if TYPE_CHECKING:
    from hpckit.model.slurm import JobDetail, JobEntry, JobState, JobStatus, StepRecord

_STEPS_SHOWN = 6


@click.command("status")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str | None, *, as_json: bool) -> None:
    """Say how the job JOB_ID is (the newest job without one).

    ID_TASK is one task of a job array, as Slurm writes it: 4242_7.
    """
    from hpckit import wiring
    from hpckit.app.chain import chain_status
    from hpckit.app.track import after_status, find_task, job_detail
    from hpckit.cli.chain import chain_document, chain_row
    from hpckit.cli.waiting import asking

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    site_of(entry)
    with asking(tools) as asked:
        chain = chain_status(entry, asked)
        status = chain.status_of(entry)
        entry = after_status(entry, status)
        if task is not None:
            status = status_of_task(entry, status, task)
        detail = job_detail(entry, status, asked, task)
    if as_json:
        document = status_document(entry, status, task, detail)
        output.document({**document, "chain": chain_document(chain)})
        return
    now_s = tools.clock.now_s()
    shown = id_of(entry.job_id, task)
    output.result(output.headline(shown, entry.name, _how(entry, status, now_s)))
    output.labelled(
        [
            *chain_row(chain),
            *_why_it_waits(status, shown, now_s),
            *_tasks(status),
            *_steps(detail),
            *_where(entry, status, shown),
        ]
    )


def _how(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    text = output.outcome(status, now_s)
    if status.state.is_waiting:
        text += f" · submitted {format_duration(now_s - entry.created_s)} ago"
    return text


def _why_it_waits(status: JobStatus, shown: str, now_s: float) -> Iterator[tuple[str, str]]:
    told = help_for(status, shown)
    if told is None:
        return
    never = "; it does not start as it stands" if told.hopeless else ""
    yield "why", output.prose(told.meaning + never)
    if told.help is not None:
        yield "help", output.prose(told.help)
    if told.hopeless:
        return
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


def _steps(detail: JobDetail | None) -> Iterator[tuple[str, str]]:
    """Which steps ended badly, the first ones of many."""
    steps = () if detail is None else detail.steps
    bad = [_step(s) for s in steps if s.state.is_final and s.state != "COMPLETED"]
    if bad:
        left = len(bad) - _STEPS_SHOWN
        more = [f"{left} more"] if left > 0 else []
        yield "steps", output.prose(" · ".join([*bad[:_STEPS_SHOWN], *more]))


def _step(step: StepRecord) -> str:
    code = "" if step.exit_code is None else f" {step.exit_code}"
    nodes = f" on {step.nodelist}" if step.nodelist and step.step_id.isdecimal() else ""
    return f"{step.step_id} {step.state}{code}{nodes}"


def _where(entry: JobEntry, status: JobStatus, shown: str) -> Iterator[tuple[str, str]]:
    if status.nodelist:
        yield "nodes", status.nodelist
    yield "folder", entry.folder
    if status.state.is_waiting:
        yield "next", f"hpckit wait {entry.job_id} · hpckit cancel {shown}"
    elif not status.state.is_final or status.started_s is not None:
        over = status.state.is_final or status.is_lost
        yield "next", f"hpckit logs {'' if over else '-f '}{id_of(shown, log_task(status))}"
