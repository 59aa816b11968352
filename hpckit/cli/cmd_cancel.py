"""`hpckit cancel`: end a job, or send it a signal."""

from __future__ import annotations

from pathlib import Path

import click

from hpckit.cli import output
from hpckit.cli.job_argument import required_job_argument, site_of, status_document

_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "KILL")
_MARGIN_S = 10.0


@click.command("cancel")
@required_job_argument
@click.option("--signal", "signal_name", type=click.Choice(_SIGNALS, case_sensitive=False),
              help="Only send this signal to the job.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, /, job_id: str, *, signal_name: str | None, as_json: bool) -> None:
    """End JOB_ID (any beginning of it): TERM, and KILL for what is left after kill_wait_s."""
    from hpckit import wiring
    from hpckit.app.track import find_job, job_status
    from hpckit.cli.waiting import wait_at_terminal

    index = wiring.job_index()
    entry = find_job(index, job_id)
    site = site_of(entry)
    submitter = wiring.submitter(site.submitter)
    submitter.cancel(entry.job_id, Path(entry.folder), signal_name)
    if signal_name is None:
        status = wait_at_terminal(
            entry,
            submitter,
            index,
            poll_interval_s=site.poll_interval_s,
            timeout_s=site.kill_wait_s + _MARGIN_S,
        )
    else:
        status = job_status(entry, submitter, index)
    if as_json:
        output.document(status_document(entry, status))
    else:
        output.result(f" {entry.job_id} {entry.name}   {output.outcome(status)}")
    if signal_name is None and not status.state.is_final:
        output.talk(f" {entry.job_id} has not ended yet: {status.state}")
        ctx.exit(1)
