"""`hpckit check`: what would keep a job, or a script of your own, from running."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hpckit.cli import output, wiring
from hpckit.cli.job_options import JobCommand, JobOptions, job_options, job_source, typed_words
from hpckit.core.errors import HpckitError, JobRefused, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpckit.core.findings import Finding, Notice
    from hpckit.script.earlier import Earlier

_SHOWN = 6
_MOST_QUESTIONS = 8
_MOST_BYTES = 4 * 1024**2
"""slurm.conf(5), SchedulerParameters, max_script_size."""


@click.command("check", cls=JobCommand)
@job_options
@output.fail_on_option("Exit 1 for a finding of this severity or above it: error, unless told.")
@click.option("--offline", is_flag=True, help="Ask no cluster: what the files tell alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def check_command(
    ctx: click.Context, /, *, fail_on: str | None, offline: bool, as_json: bool, **params: Any
) -> None:
    """Say what would keep JOB from running: a job file, or a batch script of your own.

    A script is read as sbatch reads it, and nothing of it is run: its options on this release,
    the limits of its partition, QOS and account, reservations and licenses, and the settings of
    communication; then `sbatch --test-only` says when it would start, and what would start it
    earlier. Nothing is submitted.
    """
    options = JobOptions.of(ctx, params)
    text = _script(options.job)
    if text is None:
        checked = _of_job(ctx, options, offline=offline)
    elif options.words or options.command:
        raise click.UsageError(
            "a script has its options itself: give none, and no command after --"
        )
    else:
        checked = _of_script(text, os.environ, offline=offline)
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


class _Checked(NamedTuple):
    """What was found, what was not looked at, when it starts and what would start it earlier.

    `is_asked`: a cluster answered.
    """

    findings: Sequence[Finding]
    notes: Sequence[Notice] = ()
    start_s: float | None = None
    earlier: Sequence[Earlier] = ()
    is_asked: bool = True


def _script(job: str | None) -> str | None:
    """The text of a batch script, None for a job file."""
    if job is None or job == "-":
        return None
    data, _ = wiring.read_capture(job)
    if not data.startswith(b"#!"):
        if b"\n#SBATCH" in data[:_MOST_BYTES]:
            because = f"{job} does not begin with #!, and sbatch refuses such a script"
            raise HpckitError(because, hint="#!/bin/bash is its first line")
        return None
    if len(data) > _MOST_BYTES:
        raise StorageFailed(f"{job} is over 4 MiB, and sbatch takes no larger script")
    return data.decode(errors="replace")


def _of_script(
    text: str, variables: Mapping[str, str], *, offline: bool, is_own: bool = True
) -> _Checked:
    from hpckit.core.findings import Severity
    from hpckit.jobs.check import check_script, read_script, refusal
    from hpckit.script.admission import find_obstacles
    from hpckit.script.earlier import changes, earlier, own_hosts

    request, refused = read_script(text, variables)
    known, config, notes = (None, None, ()) if offline else wiring.ask_cluster(request)
    if known is None:
        found = check_script(text, request, refused, config, is_own=is_own)
        return _Checked(found, notes, is_asked=False)
    obstacles = find_obstacles(request, known.cluster, known.user, known.now_s)
    if any(one.severity is Severity.ERROR for one in obstacles):
        # What is remembered may have changed.
        again, config, notes = wiring.ask_cluster(request, fresh=True)
        known = again or known
        obstacles = find_obstacles(request, known.cluster, known.user, known.now_s)
    found = check_script(text, request, (*refused, *obstacles), config, is_own=is_own)
    if any(one.severity is Severity.ERROR for one in found):
        return _Checked(found, notes)
    # hpckit itself submits an array in parts that Slurm takes.
    always = ("--array=0",) if not is_own and request.array_size > 1 else ()
    tried = changes(request, known.cluster, known.user, known.now_s)
    own = own_hosts(request, known.cluster)
    with wiring.trial(text, request, variables, always, own) as trial:
        start_s, better = earlier(trial.start_s, tried, known.now_s, _MOST_QUESTIONS)
    if trial.refused:
        found = (refusal(trial.refused), *found)
    return _Checked(found, notes, start_s, better)


def _of_job(ctx: click.Context, options: JobOptions, *, offline: bool) -> _Checked:
    from hpckit.cli.submitted import ask_about_array
    from hpckit.core.findings import Level, Notice
    from hpckit.jobs.check import as_finding, without_lines
    from hpckit.jobs.prepare import prepare
    from hpckit.jobs.secrets import secrets_of
    from hpckit.jobs.submit import environment_of
    from hpckit.spec.site import SubmitterKind

    resources = wiring.resources(options.site_dirs, options.template_dirs)
    try:
        job = prepare(job_source(ctx, options), resources, wiring.template_cache())
        ask_about_array(job)
        secrets_of(job.effective.spec.environment, os.environ, Path.home(), job.source.folder)
    except JobRefused as refused:
        errors = (
            Notice(level=Level.ERROR, subject=subject, text=text, remedy=remedy)
            for subject, text, remedy in refused.findings
        )
        return _Checked(tuple(map(as_finding, errors)))
    is_here = job.site.submitter is SubmitterKind.SLURM and not offline
    variables = environment_of(job, wiring.caller(), by_sbatch=True).variables
    checked = _of_script(job.script.text, variables, offline=not is_here, is_own=False)
    found = (*map(as_finding, job.notes), *checked.findings)
    return checked._replace(findings=without_lines(found))


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


def _say(options: JobOptions, checked: _Checked, *, is_script: bool) -> None:
    from hpckit.core.finding_lines import finding_lines, left_lines, next_lines, verdict, words_of
    from hpckit.core.findings import Severity
    from hpckit.core.text import Line, Style

    name, findings, width = options.job or "the command", checked.findings, output.screen_width()
    best = (
        "nothing keeps it from running" if checked.is_asked else "nothing found; no cluster asked"
    )
    title = f"{name}: {verdict(findings, best)}"
    lines = [Line(text=title, style=Style.TITLE)]
    for one in findings[:_SHOWN]:
        line_no = getattr(one, "line_no", None)
        head = f"{one.subject}: {one.because}" if _names_setting(one.subject) else one.because
        head = f"line {line_no}: {head}" if line_no else head
        remedy = ("fix:", *words_of(one.remedy)) if one.remedy else ()
        lines += finding_lines(one.severity, words_of(head), remedy, width=width)
    job = [] if options.job is None else [options.job]
    command = shlex.join(["hpckit", "check", *job, *typed_words(options)])
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
    if not any(one.severity is Severity.ERROR for one in findings):
        words = [
            *job,
            *typed_words(options),
            *(("--", *options.command) if options.command else ()),
        ]
        output.say(
            next_lines(
                [shlex.join([*(("sbatch",) if is_script else ("hpckit", "submit")), *words])]
            )
        )
