"""`hpckit status`: how a job is."""

from __future__ import annotations

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument, status_document, submitter_of
from hpckit.units import format_duration


@click.command("status")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str | None, *, as_json: bool) -> None:
    """Say how the job JOB_ID is (any beginning of it; the newest job without one)."""
    from hpckit import wiring
    from hpckit.app.track import find_job, job_status

    index = wiring.job_index()
    entry = find_job(index, job_id)
    status = job_status(entry, submitter_of(entry), index)
    if as_json:
        output.document(status_document(entry, status))
        return
    text = output.outcome(status)
    if not status.state.is_final and status.started_s is not None:
        text += f" for {format_duration(wiring.clock().now_s() - status.started_s)}"
    output.result(f" {entry.job_id} {entry.name}   {text}")
    output.labelled(
        [
            ("folder", entry.folder),
            ("next", f"hpckit logs {'' if status.state.is_final else '-f '}{entry.job_id}"),
        ]
    )
