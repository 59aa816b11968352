"""`hpckit doctor`: what this machine has and lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.core.errors import ConfigError

if TYPE_CHECKING:
    from hpckit.core.findings import Notice
    from hpckit.jobs.draft import Caller


_COLOURS = {"ok": "green", "note": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--site", default="local", show_default=True, envvar="HPCKIT_SITE",
              help="For jobs at this site.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def doctor_command(ctx: click.Context, site: str, *, as_json: bool) -> None:
    """Say what this machine has and lacks; exit 1 if something needed is missing."""
    from hpckit.cli.examine import examine, examine_gpus, examine_pyslurm
    from hpckit.jobs.sites import load_site
    from hpckit.slurm.pyslurm_ask import probe_pyslurm

    caller = wiring.caller()
    spec = load_site(wiring.resources(), site)
    runner = wiring.command_runner()
    looked_at = examine(
        runner,
        wiring.job_folders(),
        wiring.job_index(),
        _job_root(spec.job_root, caller),
        submitter=spec.submitter,
        site=spec,
        probe=wiring.cluster_probe() if spec.submitter == "slurm" else None,
    )
    findings = [*looked_at]
    if spec.submitter == "slurm":
        findings.append(examine_pyslurm(probe_pyslurm(runner)))
    findings.append(examine_gpus(wiring.gpu_driver().read()))
    if as_json:
        about = {"schema": "hpckit.doctor/1", "hpckit": hpckit.__version__}
        output.document({**about, "findings": findings})
    else:
        output.result(f" hpckit {hpckit.__version__} on {caller.host} · site {site}")
        output.remarks([_row(finding) for finding in findings])
    if any(finding.level == "error" for finding in findings):
        ctx.exit(1)


def _job_root(job_root: str, caller: Caller) -> Path | ConfigError:
    from hpckit.jobs.submit import expand_job_root

    try:
        return expand_job_root(job_root, caller)
    except ConfigError as error:
        return error


def _row(finding: Notice) -> tuple[str, str, str]:
    text = finding.text if finding.remedy is None else f"{finding.text} · {finding.remedy}"
    return click.style(str(finding.level), fg=_COLOURS[finding.level]), finding.subject, text
