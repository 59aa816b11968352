"""`hpckit jobs`: the newest jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpckit.cli import output

if TYPE_CHECKING:
    from hpckit.app.track import TrackTools
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
    from hpckit.cli.waiting import asking

    if rebuild:
        _rebuild()
    with asking(wiring.track_tools()) as tools:
        rows = list_jobs(tools, None if everything else limit)
    if as_json:
        output.document(
            {"schema": "hpckit.jobs/1", "jobs": [_row(entry, status) for entry, status in rows]}
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
    _say_unknown(rows)


def _say_unknown(rows: Sequence[tuple[JobEntry, JobStatus]]) -> None:
    """One line for each reason why something is not known."""
    reasons = [status.reason for _, status in rows if status.state == "UNKNOWN"]
    for reason in dict.fromkeys(reasons):
        output.talk(f" note  {reasons.count(reason)} UNKNOWN: {reason}")


def _row(entry: JobEntry, status: JobStatus) -> dict[str, object]:
    return {
        "job_id": entry.job_id,
        "submission": entry.submission,
        "cluster": entry.cluster,
        "name": entry.name,
        "site": entry.site,
        "folder": entry.folder,
        "submitted_s": entry.created_s,
        "state": str(status.state),
        "exit_code": status.exit_code,
        "reason": status.reason,
        "slurm_reason": status.slurm_reason,
    }


def _rebuild() -> None:
    from hpckit import wiring
    from hpckit.app.track import rebuild

    tools = wiring.track_tools()
    roots, left_out, damage = _roots(tools)
    count, wrong = rebuild(tools, roots)
    output.talk(f" index rebuilt: {count} jobs from {', '.join(map(str, roots))}")
    if damage is not None:
        output.talk(f" note  {damage}: it is beside the new one, as jobs.sqlite.damaged")
    for sentence in (*left_out, *wrong):
        output.talk(f" note  left out: {sentence}")


def _roots(tools: TrackTools) -> tuple[list[Path], list[str], str | None]:
    """The job roots of today's sites and of the jobs in the index.

    Then what could not be told, and what is wrong with the index.
    """
    from hpckit import wiring
    from hpckit.app.sites import list_sites
    from hpckit.app.submit import expand_job_root
    from hpckit.errors import HpckitError

    caller = wiring.caller()
    roots, wrong = set(), []
    resources = wiring.resources()
    for found in list_sites(resources):
        if found.site is None:
            continue
        try:
            roots.add(expand_job_root(found.site.job_root, caller))
        except HpckitError as error:
            # hpckit brings sites of clusters that are elsewhere.
            if not resources.is_packaged(found.path):
                wrong.append(f"site {found.site.name}: {error.message}")
    entries, damage = tools.index.readable()
    roots |= {Path(entry.folder).parent for entry in entries}
    return sorted(roots), wrong, damage
