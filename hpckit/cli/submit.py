"""`hpckit submit`: check, render and start a job."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import submitted_script
from hpckit.cli.job_options import (
    JobCommand,
    JobOptions,
    job_options,
    job_source,
    source_again,
)
from hpckit.core.late import regex

if TYPE_CHECKING:
    from hpckit.jobs.prepare import PreparedJob


@click.command("submit", cls=JobCommand)
@job_options
@click.option("--again", metavar="ID",
              help="Submit the job ID once more, as it was; options override it.")  # fmt: skip
@click.option("--local", is_flag=True, help="Run on this machine, without Slurm (--site local).")
@click.option("--dry-run", is_flag=True, help="Check and print the script; submit nothing.")
@click.option(
    "--test-only", is_flag=True, help="Ask Slurm when it would start (sbatch --test-only)."
)
@click.option(
    "--checks/--no-checks",
    default=True,
    show_default=True,
    help="Check partition, QOS and GRES limits before submitting.",
)
@click.option("--yes", is_flag=True, help="Submit an array above the site's confirmation limit.")
@click.option("--wait", "wait", is_flag=True, help="Wait for the job's end; exit 1 if it failed.")
@click.option("--quiet", is_flag=True, help="Print only the job ID.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def submit_command(ctx: click.Context, /, *, again: str | None, **params: Any) -> None:
    """Check, render and submit JOB (a job file, or - for stdin), or the COMMAND after --.

    \b
      hpckit submit -N 2 --gpus-per-node 8 -t 8:00:00 -- torchrun train.py
      hpckit submit job.toml --wait
      hpckit submit --local -- python3 train.py
      hpckit submit --again 4242 -t 12:00:00

    The script is, byte for byte, what `hpckit render` prints. Of a file with [[stages]] all
    stages are submitted, each to start when the one before has completed.
    """
    from hpckit.cli.submitted import submit_source

    options = JobOptions.of(ctx, {**params, "site": _site(ctx, is_again=again is not None)})
    if again is None:
        ctx.exit(submit_source(job_source(ctx, options), options))
    if options.job is not None or options.command or options.stage or options.component:
        raise click.UsageError("--again ID takes no other job", ctx)
    source, workdir = source_again(options, again)
    with contextlib.chdir(workdir):
        ctx.exit(submit_source(source, options))


def _site(ctx: click.Context, *, is_again: bool) -> str | None:
    """Return the site that is asked for; of a job that is submitted again no default of today."""
    is_typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    site: str | None = ctx.params["site"]
    if not ctx.params["local"]:
        return site if is_typed or not is_again else None
    if is_typed and site != "local":
        raise click.UsageError("--local means --site local: give only one of them", ctx)
    return "local"


@click.command("render", cls=JobCommand)
@job_options
@click.option(
    "--scheduler",
    type=click.Choice(["slurm", "kubernetes", "jobset", "pytorchjob", "mpijob"]),
    default="slurm",
    show_default=True,
    help="Print a manifest for Kubernetes: a JobSet, for MPI an MPIJob, or the kind named.",
)
@click.option("--queue", help="With --scheduler kubernetes: Kueue's local queue.")
@click.option(
    "--topology-level",
    metavar="LABEL",
    help="With --scheduler kubernetes: node label of a block.",
)
@click.option("--explain", is_flag=True, help="List every value and its origin.")
@click.option(
    "--diff",
    "other",
    metavar="JOB_ID|FILE",
    help="Show what changed since that job, or against a batch script.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def render_command(
    ctx: click.Context,
    /,
    *,
    scheduler: str,
    queue: str | None,
    topology_level: str | None,
    explain: bool,
    other: str | None,
    as_json: bool,
    **params: Any,
) -> None:
    """Print the batch script of JOB (a job file, or - for stdin), for review.

    \b
      hpckit render job.toml
      hpckit render job.toml --explain
      hpckit render job.toml --diff 4242

    The same job, site and templates give the same bytes on any machine, and `hpckit submit`
    sends exactly these.
    """
    from hpckit.core.fields import to_tree
    from hpckit.jobs.components import prepare_job

    options = JobOptions.of(ctx, params)
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    job = prepare_job(job_source(ctx, options), resources, wiring.template_cache())
    if scheduler == "slurm" and (queue or topology_level):
        raise click.UsageError("--queue and --topology-level need --scheduler kubernetes", ctx)
    is_slurm = scheduler == "slurm"
    text = job.script.text if is_slurm else _manifest(job, scheduler, queue, topology_level)
    if other is not None:
        if as_json or explain:
            raise click.UsageError("--diff excludes --json and --explain", ctx)
        _show_changes(other, text)
    elif as_json:
        output.document(_script_document(job, text))
    elif explain:
        output.table(
            ("KEY", "VALUE", "FROM"),
            [output.origin_row(**to_tree(origin)) for origin in job.effective.origins],
        )
    else:
        output.as_file(text)
        output.say_notes(job.notes)


def _script_document(job: PreparedJob, text: str) -> dict[str, object]:
    """`hpckit.script/1`: a script, and the job that it is of."""
    import hashlib

    from hpckit.jobs.prepare import effective_document

    return {
        "schema": "hpckit.script/1",
        "site": job.site.name,
        "script_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "script": text,
        "effective": effective_document(job.effective),
    }


_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
_MAKING: Final = ("# hpckit ", "# reproduce", "# custom template")
_QUOTED: Final = r'"(?:\\.|[^"\\])*"|\'[^\']*\''
_REASON: Final = regex(rf"^(#SBATCH (?:{_QUOTED}|[^\"'])*?)\s+# .*$")


def _show_changes(other: str, text: str) -> None:
    """Print how a script differs from that of a job, or from a file."""
    from hpckit.core.text import without_steering

    name, before = _script_of(other)
    from difflib import unified_diff

    changes = unified_diff(_compared(before), _compared(text), name, "now", lineterm="")
    lines = list(changes)
    for line in map(without_steering, lines):
        output.result(click.style(line, fg=_COLOURS[line[0]]) if line[0] in _COLOURS else line)
    if not lines:
        output.result(f" no change: the script is that of {name}")
    old, new = (
        [line for line in script.splitlines() if line.startswith(_MAKING)]
        for script in (before, text)
    )
    if old and old != new:
        output.talk(" note  not shown: comments on hpckit's version, digests and how to reproduce")


def _compared(script: str) -> list[str]:
    """Return the lines of a script without the reasons of directives and how it was made."""
    lines = script.rstrip("\n").split("\n")
    lines = [line for line in lines if not line.startswith(_MAKING)]
    return [_REASON.sub(r"\1", line.expandtabs(4)) for line in lines]


def _script_of(other: str) -> tuple[str, str]:
    """Return a script and what to call it. Raises StorageFailed, NoSuchJob."""
    path = Path(other)
    if path.suffix or "/" in other or os.path.exists(other):  # noqa: PTH110  this one never raises
        file = str(path / "job.sbatch") if path.is_dir() else other
        return file, wiring.read_capture(file)[0].decode(errors="replace")
    from hpckit.jobs.track import find_job

    entry = find_job(wiring.job_index(), other)
    return f"job {entry.job_id}", submitted_script(entry)


def _manifest(job: PreparedJob, scheduler: str, queue: str | None, level: str | None) -> str:
    from hpckit.core.errors import ConfigError
    from hpckit.script.kubernetes import Cluster, ManifestKind, manifest

    if job.components:
        reason = "a manifest describes one job, and this file has components"
        hint = f"--component is one of: {', '.join(one.name for one in job.components)}"
        raise ConfigError(reason, key="--scheduler", hint=hint)
    kind = None if scheduler == "kubernetes" else ManifestKind(scheduler)
    cluster = Cluster(queue=queue, level=level)
    return manifest(job.effective, job.plan, job.site, cluster, kind)
