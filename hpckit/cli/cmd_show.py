"""`hpckit show`: what was submitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument

if TYPE_CHECKING:
    from hpckit.model.slurm import JobEntry


@click.command("show")
@job_argument
@click.option("--script", is_flag=True, help="Print the script as it was submitted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str | None, *, script: bool, as_json: bool) -> None:
    """Show the job JOB_ID (the newest job without one)."""
    from hpckit import wiring
    from hpckit.app.track import find_job

    entry = find_job(wiring.job_index(), job_id)
    folder = Path(entry.folder)
    folders = wiring.job_folders()
    text = folders.read(folder, "job.sbatch")
    if script and not as_json:
        click.echo(text, nl=False)
        return
    effective = folders.read_json(folder, "effective.json")
    intent = folders.read_json(folder, "intent.json")
    if as_json:
        output.document(
            {
                "schema": "hpckit.job-record/1",
                "job_id": entry.job_id,
                "name": entry.name,
                "site": entry.site,
                "folder": entry.folder,
                "submitted_s": entry.created_s,
                "script_sha256": intent["script_sha256"],
                "script": text,
                "effective": effective,
            }
        )
        return
    _show(entry, effective, intent["script_sha256"])


def _show(entry: JobEntry, effective: Mapping[str, Any], script_sha256: str) -> None:
    output.labelled(
        [
            ("job", f"{entry.job_id}   {output.one_line(entry.name)}   site {entry.site}"),
            ("folder", entry.folder),
            ("script", f"job.sbatch   sha256 {script_sha256[:12]}"),
            ("digest", effective["digest"][:12]),
        ]
    )
    output.table(
        ("KEY", "VALUE", "FROM"), [output.origin_row(**one) for one in effective["origins"]]
    )
    output.labelled([("next", f"hpckit show {entry.job_id} --script")])
