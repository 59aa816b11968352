"""`hpckit logs`: what a job printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument, site_of


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--rank", type=click.IntRange(0, 2**31), help="The output of one rank alone.")
@click.option("--json", "as_json", is_flag=True, help="Where the logs lie, as one JSON document.")
def command(job_id: str | None, *, follow: bool, rank: int | None, as_json: bool) -> None:
    """Print the output of JOB_ID (any beginning of it; the newest job without one)."""
    from hpckit import wiring
    from hpckit.app.logs import follow_log, read_log
    from hpckit.app.track import find_job, job_status

    index = wiring.job_index()
    entry = find_job(index, job_id)
    folder = Path(entry.folder)
    logs = wiring.job_logs()
    if as_json:
        output.document(
            {
                "schema": "hpckit.logs/1",
                "job_id": entry.job_id,
                "log": str(folder / "logs" / "job.log"),
                "ranks": {
                    str(number): str(folder / "logs" / f"rank-{number}.log")
                    for number in logs.ranks(folder)
                },
            }
        )
        return
    if not follow:
        _write(read_log(logs, folder, rank))
        return
    site = site_of(entry)
    submitter = wiring.submitter(site.submitter)
    chunks = follow_log(
        logs,
        folder,
        rank,
        wiring.clock(),
        poll_interval_s=site.poll_interval_s,
        has_ended=lambda: job_status(entry, submitter, index).state.is_final,
    )
    try:
        _write(chunks)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the job goes on: hpckit logs -f {entry.job_id}") from None


def _write(chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
