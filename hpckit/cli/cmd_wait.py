"""`hpckit wait`: until jobs have ended."""

from __future__ import annotations

import click

from hpckit.cli import output
from hpckit.cli.job_argument import many_jobs_argument, status_document


@click.command("wait")
@many_jobs_argument
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), help="Seconds at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(
    ctx: click.Context, job_ids: tuple[str, ...], *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait until all JOB_IDs have ended (the newest job without one).

    Exit 0 if all completed, else 1.
    """
    from hpckit import wiring
    from hpckit.app.track import after_status, find_job
    from hpckit.cli.waiting import wait_at_terminal

    tools = wiring.track_tools()
    found = [find_job(tools.index, job_id) for job_id in job_ids or (None,)]
    entries = list({entry.submission: entry for entry in found}.values())
    statuses = wait_at_terminal(entries, tools, timeout_s=timeout_s)
    ended = [
        (after_status(entry, status), status)
        for entry, status in zip(entries, statuses, strict=True)
    ]
    if as_json:
        documents = [status_document(entry, status) for entry, status in ended]
        several = {"schema": "hpckit.statuses/1", "jobs": documents}
        output.document(several if len(job_ids) > 1 else documents[0])
    for entry, status in ended:
        if not as_json:
            output.result(f" {entry.job_id} {entry.name}   {output.outcome(status)}")
        if not status.state.is_final:
            output.talk(f" {entry.job_id} has not ended within {timeout_s:g} s")
    if any(status.state != "COMPLETED" for _, status in ended):
        ctx.exit(1)
