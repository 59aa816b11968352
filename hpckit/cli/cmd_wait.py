"""`hpckit wait`: until a job has ended."""

from __future__ import annotations

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument, site_of, status_document


@click.command("wait")
@job_argument
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), help="Seconds at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(
    ctx: click.Context, job_id: str | None, *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait until JOB_ID has ended; exit 0 if it completed, else 1."""
    from hpckit import wiring
    from hpckit.app.track import find_job
    from hpckit.cli.waiting import wait_at_terminal

    index = wiring.job_index()
    entry = find_job(index, job_id)
    site = site_of(entry)
    status = wait_at_terminal(
        entry,
        wiring.submitter(site.submitter),
        index,
        poll_interval_s=site.poll_interval_s,
        timeout_s=timeout_s,
    )
    if as_json:
        output.document(status_document(entry, status))
    else:
        output.result(f" {entry.job_id} {entry.name}   {output.outcome(status)}")
    if not status.state.is_final:
        output.talk(f" {entry.job_id} has not ended within {timeout_s:g} s")
    if status.state != "COMPLETED":
        ctx.exit(1)
