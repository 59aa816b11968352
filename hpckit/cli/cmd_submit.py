"""`hpckit submit`: check, render and start a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, JobOptions, job_options, job_source
from hpckit.cli.submission import (
    advice_words,
    comm_words,
    interrupt_on_signals,
    place_words,
    size_of,
    submission_document,
)
from hpckit.cli.tasks import id_of, log_task
from hpckit.model.site import SubmitterKind

if TYPE_CHECKING:
    from hpckit.app.prepare import PreparedJob
    from hpckit.app.submit import Submission
    from hpckit.model.slurm import JobStatus

_RANKS_SHOWN = 16
_LOG_LINES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions(JobOptions):
    """What `hpckit submit` is asked."""

    dry_run: bool
    test_only: bool
    checks: bool
    wait: bool
    quiet: bool
    as_json: bool


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
@click.option("--wait", "wait", is_flag=True, help="Wait for the end; exit 1 if the job failed.")
@click.option("--quiet", is_flag=True, help="Print the job id alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, /, **params: Any) -> None:
    """Start JOB (a job file, or - for stdin), or the COMMAND after --.

    What is started is, byte for byte, what `hpckit render` prints. The stages of a file with
    [[stages]] are all started, each to begin when the one before has completed.
    """
    from hpckit import wiring
    from hpckit.app.chain import stages_of
    from hpckit.app.prepare import prepare
    from hpckit.cli.chain import submit_stages
    from hpckit.cli.trial import try_jobs

    site = _local_site(ctx) if params["local"] else params["site"]
    options = SubmitOptions.of(ctx, {**params, "site": site})
    source = job_source(ctx, options)
    if stages_of(source):
        ctx.exit(submit_stages(source, options))
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    job = prepare(source, resources, wiring.template_cache())
    if options.dry_run:
        _dry_run(job, as_json=options.as_json)
        return
    if options.test_only:
        try_jobs([(job, None)], checks=options.checks, as_json=options.as_json)
        return
    ctx.exit(_start(job, options))


def _start(job: PreparedJob, options: SubmitOptions) -> int:
    """Submit, wait where that is asked for, print; gives the exit code."""
    from hpckit.cli.waiting import say_open

    submission = _submit(job, checks=options.checks)
    if not options.as_json:
        _say_submitted(job, submission, quiet=options.quiet)
    status = _wait(submission) if options.wait else None
    if options.as_json:
        output.document(submission_document(job, submission, status))
    elif status is not None and not options.quiet:
        _say_ended(submission, status)
    return 0 if status is None else say_open([(submission.entry, status)], None)


def _local_site(ctx: click.Context) -> str:
    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    if typed and ctx.params["site"] != "local":
        raise click.UsageError("--local is --site local; give only one of them", ctx)
    return "local"


def _submit(job: PreparedJob, *, checks: bool) -> Submission:
    from hpckit import wiring
    from hpckit.app.submit import submit
    from hpckit.cli.waiting import ASKING

    interrupt_on_signals()
    line = output.Progress()
    if job.site.submitter is SubmitterKind.SLURM:
        line.show(ASKING)
    try:
        tools = wiring.submit_tools(job.site.submitter, checks=checks)
        return submit(job, wiring.caller(), tools)
    finally:
        line.clear()


def _wait(submission: Submission) -> JobStatus:
    from hpckit import wiring
    from hpckit.cli.waiting import wait_at_terminal

    return wait_at_terminal([submission.entry], wiring.track_tools())[0]


def _dry_run(job: PreparedJob, *, as_json: bool) -> None:
    if as_json:
        output.document({**submission_document(job, None, None), "script": job.script.text})
        return
    click.echo(job.script.text, nl=False)
    output.say_notes(job.notes)
    output.talk(f" dry run: nothing was started · sha256 {job.script.sha256[:12]}")


def _say_submitted(job: PreparedJob, submission: Submission, *, quiet: bool) -> None:
    from hpckit.decide.checks import not_applied

    if quiet:
        output.result(submission.job_id)
        return
    job_id = submission.job_id
    script = submission.folder / "job.sbatch"
    rows = [
        ("job", f"{job.effective.spec.name}   {size_of(job)}   site {job.site.name}"),
        ("script", f"{script}\nsha256 {job.script.sha256[:12]} · hpckit show {job_id} --script"),
    ]
    rows += _decided(job, submission)
    environment = submission.environment
    if environment.held_back:
        names = " ".join(environment.held_back)
        rows.append(("env", f"held back: {names}\n(--pass NAME lets one through)"))
    if environment.sbatch_defaults:
        rows.append(("sbatch", f"reads your {' '.join(environment.sbatch_defaults)}"))
    rows += [("note", output.note(note)) for note in submission.notes]
    if submission.words:
        rows.append(("slurm", "\n".join(submission.words)))
    ignored = not_applied(job.effective, job.site)
    if ignored:
        rows.append(("note", f"not applied at site {job.site.name}: {' '.join(ignored)}"))
    if submission.entry.parts:
        ids = " ".join(submission.entry.job_ids)
        rows.append(("array", f"larger than the cluster's MaxArraySize, so in parts:\n{ids}"))
    rows.append(("submitted", job_id))
    log = id_of(job_id, _first_task(job))
    rows.append(("next", f"hpckit logs -f {log} · hpckit status {job_id}"))
    output.labelled(rows)


def _decided(job: PreparedJob, submission: Submission) -> list[tuple[str, str]]:
    """What was decided beyond what the job says."""
    rows = []
    places = place_words(job, submission.order)
    if places is not None:
        rows.append(("ranks", places))
    comm = comm_words(job)
    if comm is not None:
        rows.append(("comm", comm))
    if job.source.advised is not None:
        rows.append(("advice", advice_words(job)))
    return rows


def _first_task(job: PreparedJob) -> int | None:
    from hpckit.model.array import array_ranges

    array = job.effective.spec.slurm.array
    if array is None or job.site.submitter is not SubmitterKind.SLURM:
        return None
    return array_ranges(array)[0][0]


def _say_ended(submission: Submission, status: JobStatus) -> None:
    from hpckit import wiring
    from hpckit.model.job_folder import LogName

    logs = wiring.job_logs()
    ranks = logs.ranks(submission.folder)
    shown = [
        output.visible(
            f"{rank}: {''.join(logs.tail(LogName(folder=submission.folder, rank=rank), 1))}"
        )
        for rank in ranks[:_RANKS_SHOWN]
    ]
    if len(ranks) > _RANKS_SHOWN:
        shown.append(f"… and {len(ranks) - _RANKS_SHOWN} more: hpckit logs --rank N")
    rows = [("ranks", "\n".join(shown))] if shown else []
    task = log_task(status)
    tail = logs.tail(LogName(folder=submission.folder, task=task), _LOG_LINES_SHOWN)
    if status.state != "COMPLETED" and tail:
        rows.append(("log", "\n".join(map(output.visible, tail))))
    rows.append(("ended" if status.state.is_final else "state", output.outcome(status)))
    has_begun = status.started_s is not None or not status.state.is_final
    if status.state != "COMPLETED" and has_begun:
        rows.append(("next", f"hpckit logs {id_of(status.job_id, task)}"))
    output.labelled(rows)
