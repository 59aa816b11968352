"""`hpckit jobs`: the newest jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from hpckit.cli import output

if TYPE_CHECKING:
    from hpckit.model.slurm import JobEntry, JobStatus


@click.command("jobs")
@click.option("-n", "limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True,
              help="How many at most.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--rebuild", is_flag=True, help="Fill the index from the job folders first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(*, limit: int, everything: bool, rebuild: bool, as_json: bool) -> None:
    """List jobs, newest first."""
    from hpckit import wiring
    from hpckit.app.track import list_jobs
    from hpckit.model.site import SubmitterKind

    if rebuild:
        _rebuild()
    rows = list_jobs(
        wiring.job_index(),
        wiring.submitter(SubmitterKind.LOCAL),
        None if everything else limit,
    )
    if as_json:
        output.document(
            {
                "schema": "hpckit.jobs/1",
                "jobs": [_row(entry, status) for entry, status in rows],
            }
        )
        return
    if not rows:
        output.talk(" no job has been submitted yet · next: hpckit submit JOB")
        return
    output.table(
        ("JOB_ID", "NAME", "SITE", "SUBMITTED", "STATE", "EXIT"),
        [
            (
                entry.job_id,
                entry.name,
                entry.site,
                f"{datetime.fromtimestamp(entry.created_s):%Y-%m-%d %H:%M:%S}",
                output.state_word(status.state),
                "" if status.exit_code is None else str(status.exit_code),
            )
            for entry, status in rows
        ],
    )
    if not everything and len(rows) == limit:
        output.talk(f" the newest {limit}; hpckit jobs --all lists every one")


def _row(entry: JobEntry, status: JobStatus) -> dict[str, object]:
    return {
        "job_id": entry.job_id,
        "name": entry.name,
        "site": entry.site,
        "folder": entry.folder,
        "submitted_s": entry.created_s,
        "state": str(status.state),
        "exit_code": status.exit_code,
    }


def _rebuild() -> None:
    from hpckit import wiring
    from hpckit.app.sites import list_sites
    from hpckit.app.submit import expand_job_root
    from hpckit.app.track import rebuild
    from hpckit.model.site import SubmitterKind

    caller = wiring.caller()
    sites = [found.site for found in list_sites(wiring.resources()) if found.site is not None]
    roots = {expand_job_root(site.job_root, caller) for site in sites
             if site.submitter is SubmitterKind.LOCAL}  # fmt: skip
    count, wrong = rebuild(
        wiring.job_index(),
        wiring.job_folders(),
        wiring.submitter(SubmitterKind.LOCAL),
        sorted(roots),
    )
    output.talk(f" index rebuilt: {count} jobs from {', '.join(map(str, sorted(roots)))}")
    for sentence in wrong:
        output.talk(f" note  left out: {sentence}")
