"""`hpckit tune`: what communication needs on a job's nodes, and why."""

from __future__ import annotations

from typing import Any

import click

from hpckit.cli import output
from hpckit.cli.job_options import (
    JobCommand,
    JobOptions,
    given_source,
    options_of_a_job,
)


@click.command("tune", cls=JobCommand)
@click.option(
    "--lint",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Find wrong settings in FILE: a script, the output of env, a job file, an nccl.conf.",
)
@click.option(
    "--compare",
    type=click.Path(allow_dash=True),
    metavar="LOG",
    help="Show what a run used and missed: output of nccl-tests, log of NCCL_DEBUG=INFO.",
)
@output.fail_on_option("With --lint or --compare: exit 1 for a finding of this severity or above.")
@click.option("--explain", metavar="VAR", help="Explain one variable.")
@click.option("--env", "as_env", is_flag=True, help="Print only the variables, for a shell.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--fabric",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="The cluster's network (any FILE of hpckit fabric): tells whether rails are connected.",
)
@options_of_a_job
@click.pass_context
def tune_command(ctx: click.Context, /, **params: Any) -> None:
    """Choose the communication variables that JOB needs, with a reason for each: mostly none.

    Without JOB: a job of two nodes, as --site or --topology describes them, else as this node if it
    has GPUs. `hpckit render` and `submit` write the same into the script. --lint reads settings
    that exist, --compare the log of a run.
    """
    options = JobOptions.of(ctx, params)
    _check_together(options)
    source = given_source(options)
    from hpckit.cli.tuned import answer

    ctx.exit(answer(options, source))


def _check_together(options: JobOptions) -> None:
    asked = [name for name in ("lint", "compare", "explain", "as_env") if getattr(options, name)]
    if len(asked) > 1:
        names = [f"--{name.removeprefix('as_')}" for name in asked]
        raise click.UsageError(f"{' and '.join(names)} exclude each other")
    if options.as_env and options.as_json:
        raise click.UsageError("--env and --json exclude each other")
    if options.fail_on and not (options.lint or options.compare):
        raise click.UsageError("--fail-on is for --lint and --compare")
    files = [options.job, options.topology, options.fabric, options.lint, options.compare]
    if files.count("-") > 1:
        raise click.UsageError("only one file can be standard input")
