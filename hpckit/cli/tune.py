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
    help="Say what is wrong with the settings in FILE: a script, what env printed, a job file,"
    " an nccl.conf.",
)
@click.option(
    "--compare",
    type=click.Path(allow_dash=True),
    metavar="LOG",
    help="Say what a run used and lacks: output of nccl-tests, NCCL's log (NCCL_DEBUG=INFO).",
)
@output.fail_on_option(
    "With --lint or --compare: exit 1 for a finding of this severity or above it."
)
@click.option("--explain", metavar="VAR", help="Say all that is known about one variable.")
@click.option("--env", "as_env", is_flag=True, help="Print the variables alone, for a shell.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--fabric",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="The cluster's network (`hpckit fabric show --json`, ibnetdiscover), to see whether rails"
    " are joined.",
)
@options_of_a_job
@click.pass_context
def tune_command(ctx: click.Context, /, **params: Any) -> None:
    """Say which communication variables JOB needs on its nodes, and why: mostly none.

    Without JOB it is any job of two nodes; --site or --topology says what the nodes are. `hpckit
    render` and `submit` write the same into the script. --lint reads settings that are already
    there, --compare the log of a run.
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
