"""`hpckit submit`: check, render and start a job."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, JobOptions, job_options, job_source

if TYPE_CHECKING:
    from hpckit.jobs.prepare import PreparedJob


@click.command("submit", cls=JobCommand)
@job_options
@click.option("--local", is_flag=True, help="Run on this machine: the same as --site local.")
@click.option("--dry-run", is_flag=True, help="Do all but start it; the script goes to stdout.")
@click.option(
    "--test-only", is_flag=True, help="Have Slurm say whether and when it would start, no more."
)
@click.option(
    "--checks/--no-checks",
    default=True,
    show_default=True,
    help="Look first whether the cluster takes the job.",
)
@click.option("--yes", is_flag=True, help="Start an array that is larger than the site asks about.")
@click.option("--wait", "wait", is_flag=True, help="Wait for the end; exit 1 if the job failed.")
@click.option("--quiet", is_flag=True, help="Print the job id alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def submit_command(ctx: click.Context, /, **params: Any) -> None:
    """Start JOB (a job file, or - for stdin), or the COMMAND after --.

    What is started is, byte for byte, what `hpckit render` prints. The stages of a file with
    [[stages]] are all started, each to begin when the one before has completed.
    """
    from hpckit.cli.submitted import submit_source

    site = _local_site(ctx) if params["local"] else params["site"]
    options = JobOptions.of(ctx, {**params, "site": site})
    ctx.exit(submit_source(job_source(ctx, options), options))


def _local_site(ctx: click.Context) -> str:
    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    if typed and ctx.params["site"] != "local":
        raise click.UsageError("--local is --site local; give only one of them", ctx)
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
@click.option("--queue", help="Kueue's queue, with --scheduler kubernetes.")
@click.option(
    "--topology-level",
    metavar="LABEL",
    help="Label of a block's nodes there, such as cloud.google.com/gce-topology-block.",
)
@click.option("--explain", is_flag=True, help="List every value and where it comes from.")
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
    as_json: bool,
    **params: Any,
) -> None:
    """Print the batch script of JOB (a job file, or - for stdin), for review.

    The text depends on the job, the site and the templates alone: the same bytes anywhere, and
    the same bytes that `hpckit submit` sends.
    """
    from hpckit.core.fields import to_tree
    from hpckit.jobs.components import prepare_job
    from hpckit.jobs.prepare import effective_document

    options = JobOptions.of(ctx, params)
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    job = prepare_job(job_source(ctx, options), resources, wiring.template_cache())
    if scheduler == "slurm" and (queue or topology_level):
        raise click.UsageError("--queue and --topology-level go with --scheduler kubernetes", ctx)
    is_slurm = scheduler == "slurm"
    text = job.script.text if is_slurm else _manifest(job, scheduler, queue, topology_level)
    if as_json:
        output.document(
            {
                "schema": "hpckit.script/1",
                "site": job.site.name,
                "script_sha256": hashlib.sha256(text.encode()).hexdigest(),
                "script": text,
                "effective": effective_document(job.effective),
            }
        )
    elif explain:
        output.table(
            ("KEY", "VALUE", "FROM"),
            [output.origin_row(**to_tree(origin)) for origin in job.effective.origins],
        )
    else:
        click.echo(text, nl=False)
        output.say_notes(job.notes)


def _manifest(job: PreparedJob, scheduler: str, queue: str | None, level: str | None) -> str:
    from hpckit.core.errors import ConfigError
    from hpckit.script.kubernetes import Cluster, ManifestKind, manifest

    if job.components:
        reason = "a manifest is of one job, and this file has components"
        hint = f"--component is one of: {', '.join(one.name for one in job.components)}"
        raise ConfigError(reason, key="--scheduler", hint=hint)
    kind = None if scheduler == "kubernetes" else ManifestKind(scheduler)
    cluster = Cluster(queue=queue, level=level)
    return manifest(job.effective, job.plan, job.site, cluster, kind)
