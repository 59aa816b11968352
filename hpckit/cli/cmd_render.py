"""`hpckit render`: the script on stdout, and nothing else."""

from __future__ import annotations

from typing import Any

import click

from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, JobOptions, job_options, job_source


@click.command("render", cls=JobCommand)
@job_options
@click.option("--explain", is_flag=True, help="List every value and where it comes from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, /, *, explain: bool, as_json: bool, **params: Any) -> None:
    """Print the batch script of JOB (a job file, or - for stdin), for review.

    The text depends on the job, the site and the templates alone: the same bytes anywhere, and
    the same bytes that `hpckit submit` sends.
    """
    from hpckit import wiring
    from hpckit.app.prepare import effective_document, prepare
    from hpckit.model.tree import to_tree

    options = JobOptions.of(ctx, params)
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    job = prepare(job_source(ctx, options), resources, wiring.template_cache())
    if as_json:
        output.document(
            {
                "schema": "hpckit.script/1",
                "site": job.site.name,
                "script_sha256": job.script.sha256,
                "script": job.script.text,
                "effective": effective_document(job.effective),
            }
        )
    elif explain:
        output.table(
            ("KEY", "VALUE", "FROM"),
            [output.origin_row(**to_tree(origin)) for origin in job.effective.origins],
        )
    else:
        click.echo(job.script.text, nl=False)
        output.say_notes(job.notes)
