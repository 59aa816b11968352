"""`hpckit check`: what would keep a job, or a script of your own, from running."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, JobOptions, job_options, job_source, typed_words
from hpckit.core.errors import HpckitError, JobRefused, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.core.findings import Finding
    from hpckit.jobs.check import Checked

_SHOWN = 6
_MOST_BYTES = 4 * 1024**2
"""slurm.conf(5), SchedulerParameters, max_script_size."""


@click.command("check", cls=JobCommand)
@job_options
@output.fail_on_option("Exit 1 for a finding of this severity or above. [default: error]")
@click.option("--offline", is_flag=True, help="Do not ask the cluster; check the file only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def check_command(
    ctx: click.Context, /, *, fail_on: str | None, offline: bool, as_json: bool, **params: Any
) -> None:
    """Check JOB, a job file or a batch script, against the cluster's limits. Nothing is submitted.

    Checked are options of this Slurm release, limits of partition, QOS and account, reservations,
    licenses and communication settings. Then it shows when the job would start, and what would
    start it earlier. Nothing of a script is run.
    """
    from hpckit.jobs.check import check

    options = JobOptions.of(ctx, params)
    text = _script(options.job)
    if text is None:
        checked = _of_job(ctx, options, offline=offline)
    elif options.words or options.command:
        raise click.UsageError("a batch script takes no options and no command")
    else:
        checked = check(text, os.environ, None if offline else wiring.limits_probe())
    if as_json:
        output.document(
            {
                "schema": "hpckit.check/1",
                "file": options.job,
                "findings": _trees(checked.findings),
                "notes": checked.notes,
                "expected_start_s": checked.start_s,
                "earlier": checked.earlier,
            }
        )
    else:
        _say(options, checked, is_script=text is not None)
    ctx.exit(output.fail_code(checked.findings, fail_on or "error"))


def _script(job: str | None) -> str | None:
    """The text of a batch script, None for a job file."""
    if job is None or job == "-":
        return None
    data, _ = wiring.read_capture(job)
    if not data.startswith(b"#!"):
        if b"\n#SBATCH" in data[:_MOST_BYTES]:
            because = f"{job} does not begin with #!: sbatch refuses it"
            raise HpckitError(because, hint="make #!/bin/bash its first line")
        return None
    if len(data) > _MOST_BYTES:
        raise StorageFailed(f"{job} is over 4 MiB: sbatch refuses it")
    return data.decode(errors="replace")


def _of_job(ctx: click.Context, options: JobOptions, *, offline: bool) -> Checked:
    from hpckit.cli.submitted import ask_about_array
    from hpckit.core.findings import Level, Notice
    from hpckit.jobs.check import Checked, as_finding, check, without_lines
    from hpckit.jobs.components import in_one_partition, prepare_job
    from hpckit.jobs.submit import (
        about_cluster,
        about_images,
        about_launch,
        cluster_of,
        environment_of,
        secrets_for,
    )
    from hpckit.spec.pace import SubmitterKind

    resources, caller = wiring.resources(options.site_dirs, options.template_dirs), wiring.caller()
    try:
        job = prepare_job(job_source(ctx, options), resources, wiring.template_cache())
        ask_about_array(job)
        secrets_for(job, caller)
    except JobRefused as refused:
        errors = (
            Notice(level=Level.ERROR, subject=subject, text=text, remedy=remedy)
            for subject, text, remedy in refused.findings
        )
        return Checked(findings=tuple(map(as_finding, errors)))
    is_here = job.site.submitter is SubmitterKind.SLURM and not offline
    variables = environment_of(job, caller, by_sbatch=True).variables
    probe = wiring.limits_probe() if is_here else None
    checked = check(job.script.text, variables, probe, is_own=False)
    for one in (*job.alone[1:], *in_one_partition(job)):
        # Of a heterogeneous script the reading above is of the first group.
        also = check(one.script.text, variables, probe, is_own=False)
        checked = replace(checked, findings=(*checked.findings, *also.findings))
    notices = [*job.notes, *about_images(job, caller, wiring.job_folders())]
    if checked.config is not None:
        notices += about_cluster(job, checked.config, cluster_of(variables))
        notices += about_launch(job, checked.config)
    found = (*map(as_finding, notices), *checked.findings)
    return replace(checked, findings=without_lines(found))


def _trees(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [
        {
            "rule": one.rule,
            "line": getattr(one, "line_no", None),
            "severity": one.severity.value,
            "subject": one.subject,
            "because": one.because,
            "remedy": one.remedy or None,
            "source": getattr(one, "source", None) or None,
        }
        for one in findings
    ]


def _names_setting(subject: str) -> bool:
    """Whether it is an option or a variable, which the words about it then leave out."""
    return subject.startswith("--") or subject.isupper()


def _say(options: JobOptions, checked: Checked, *, is_script: bool) -> None:
    from hpckit.core.finding_lines import finding_lines, left_lines, next_lines, verdict, words_of
    from hpckit.core.text import Line, Style
    from hpckit.jobs.check import has_errors

    name, findings, width = options.job or "the command", checked.findings, output.screen_width()
    is_asked = checked.config is not None
    best = "no problems found" if is_asked else "no problems in the file (cluster not asked)"
    title = f"{name}: {verdict(findings, best)}"
    lines = [Line(text=title, style=Style.TITLE)]
    for one in findings[:_SHOWN]:
        line_no = getattr(one, "line_no", None)
        head = f"{one.subject}: {one.because}" if _names_setting(one.subject) else one.because
        head = f"line {line_no}: {head}" if line_no else head
        remedy = ("fix:", *words_of(one.remedy)) if one.remedy else ()
        lines += finding_lines(one.severity, words_of(head), remedy, width=width)
    words = [*([] if options.job is None else [options.job]), *typed_words(options)]
    words += ["--", *options.command] if options.command else []
    command = shlex.join(["hpckit", "check", *words])
    lines += left_lines(len(findings) - _SHOWN, command)
    if checked.start_s is not None:
        lines.append(
            Line(text=f"starts   {datetime.fromtimestamp(checked.start_s):%Y-%m-%d %H:%M} as it is")
        )
    for better in checked.earlier:
        when = f"{datetime.fromtimestamp(better.start_s):%Y-%m-%d %H:%M}"
        lines.append(Line(text=f"         {when} with {shlex.join(better.words)}"))
    output.say(lines)
    output.say_notes(checked.notes)
    if not has_errors(findings):
        # sbatch has none of hpckit's options.
        then = ["sbatch", str(options.job)] if is_script else ["hpckit", "submit", *words]
        output.say(next_lines([shlex.join(then)]))
