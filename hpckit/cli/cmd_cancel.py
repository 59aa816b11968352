"""`hpckit cancel`: end a job, or send it a signal."""

from __future__ import annotations

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
    """End JOB_ID (a local id may be shortened; or ID_TASK for one task of an array).

    TERM comes first, and KILL for what is left after the site's or Slurm's KillWait.
    """
    from hpckit import wiring
    from hpckit.app.track import after_status, find_task, job_status
    from hpckit.cli.waiting import asking, wait_at_terminal

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    site = site_of(entry)
    with asking(tools) as asked:
        asked.submitter_of(entry).cancel(entry, signal_name, task)
    if signal_name is None and task is None:
        timeout_s = site.kill_wait_s + _MARGIN_S
        status = wait_at_terminal([entry], tools, timeout_s=timeout_s)[0]
    else:
        with asking(tools) as asked:
            status = job_status(entry, asked)
    entry = after_status(entry, status)
    if as_json:
        output.document(status_document(entry, status))
    else:
        output.result(output.headline(entry.job_id, entry.name, output.outcome(status)))
    if signal_name is None and task is None and not status.state.is_final:
        output.talk(f" {entry.job_id} has not ended yet: {status.state}")
        ctx.exit(1)
