"""`hpckit doctor`: what this machine has and lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hpckit
from hpckit.cli import output
from hpckit.errors import ConfigError
from hpckit.model.site import SubmitterKind

if TYPE_CHECKING:
    from hpckit.app.draft import Caller
    from hpckit.core.findings import Notice

_COLOURS = {"ok": "green", "note": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--site", default="local", show_default=True, envvar="HPCKIT_SITE",
              help="For jobs at this site.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, site: str, *, as_json: bool) -> None:
    """Say what this machine has and lacks; exit 1 if something needed is missing."""
    from hpckit import wiring
    from hpckit.app.doctor import examine, examine_gpus
    from hpckit.app.sites import load_site

    caller = wiring.caller()
    spec = load_site(wiring.resources(), site)
    looked_at = examine(
        wiring.command_runner(),
        wiring.job_folders(),
        wiring.job_index(),
        _job_root(spec.job_root, caller),
        submitter=spec.submitter,
        site=spec,
        probe=wiring.cluster_probe() if spec.submitter is SubmitterKind.SLURM else None,
    )
    findings = [*looked_at, examine_gpus(wiring.gpu_driver())]
    if as_json:
        output.document(_document(findings))
    else:
        output.result(f" hpckit {hpckit.__version__} on {caller.host} · site {site}")
        output.remarks([_row(one) for one in findings])
    if any(one.level == "error" for one in findings):
        ctx.exit(1)


def _job_root(job_root: str, caller: Caller) -> Path | ConfigError:
    from hpckit.app.submit import expand_job_root

    try:
        return expand_job_root(job_root, caller)
    except ConfigError as error:
        return error


def _document(findings: Sequence[Notice]) -> dict[str, object]:
    from hpckit.model.tree import to_tree

    return {
        "schema": "hpckit.doctor/1",
        "hpckit": hpckit.__version__,
        "findings": [to_tree(one) for one in findings],
    }


def _row(one: Notice) -> tuple[str, str, str]:
    text = one.text if one.remedy is None else f"{one.text} · {one.remedy}"
    return click.style(str(one.level), fg=_COLOURS[one.level]), one.subject, text
