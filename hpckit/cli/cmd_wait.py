"""`hpckit wait`: until jobs have ended."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.job_argument import many_jobs_argument, status_document
from hpckit.errors import HpckitError

if TYPE_CHECKING:
    from hpckit.app.track import JobIndex
    from hpckit.model.slurm import JobEntry


@click.command("wait")
@many_jobs_argument
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), help="Seconds at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(
    ctx: click.Context, job_ids: tuple[str, ...], *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait until all JOB_IDs have ended (the newest job without one).

    Exit 0 if all completed, 7 if Slurm has not answered for an hour, else 1.
    """
    if timeout_s is not None and isnan(timeout_s):
        raise click.UsageError("--timeout is a number of seconds", ctx)
    from hpckit import wiring
    from hpckit.app.chain import with_reasons
    from hpckit.app.track import after_status
    from hpckit.cli.waiting import say_open, wait_at_terminal

    tools = wiring.track_tools()
    jobs = [_whole_job(tools.index, job_id) for job_id in job_ids or (None,)]
    entries = list({entry.submission: entry for entry in jobs}.values())
    begun_s = tools.clock.now_s()
    statuses = wait_at_terminal(entries, tools, timeout_s=timeout_s)
    waited_s = tools.clock.now_s() - begun_s
    ended = [
        (after_status(entry, status), status)
        for entry, status in zip(entries, with_reasons(entries, statuses, tools), strict=True)
    ]
    if as_json:
        documents = [status_document(entry, status) for entry, status in ended]
        several = {"schema": "hpckit.statuses/1", "jobs": documents}
        output.document(several if len(job_ids) > 1 else documents[0])
    else:
        for entry, status in ended:
            output.result(output.headline(entry.job_id, entry.name, output.outcome(status)))
    ctx.exit(
        say_open(ended, timeout_s if timeout_s is not None and waited_s >= timeout_s else None)
    )


def _whole_job(index: JobIndex, wanted: str | None) -> JobEntry:
    from hpckit.app.track import find_task

    entry, task = find_task(index, wanted)
    if task is not None:
        raise HpckitError(
            f"hpckit waits for whole jobs, and {wanted} is one task of an array",
            hint=f"hpckit wait {entry.job_id}",
        )
    return entry
