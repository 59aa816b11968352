"""`hpckit submit`: check, render and start a job."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hpckit.cli import output
from hpckit.cli.job_options import JobCommand, job_options, job_source

if TYPE_CHECKING:
    from hpckit.app.prepare import PreparedJob
    from hpckit.app.submit import Submission
    from hpckit.model.slurm import JobStatus
    from hpckit.ports import JobLogs

_RANKS_SHOWN = 16
_LOG_LINES_SHOWN = 3


@click.command("submit", cls=JobCommand)
@job_options
@click.option("--local", is_flag=True, help="Run on this machine: the same as --site local.")
@click.option("--dry-run", is_flag=True, help="Do all but start it; the script goes to stdout.")
@click.option("--wait", "wait", is_flag=True, help="Wait for the end; exit 1 if the job failed.")
@click.option("--quiet", is_flag=True, help="Print the job id alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, /, **params: Any) -> None:
    """Start JOB (a job file, or - for stdin), or the COMMAND after --.

    What is started is, byte for byte, what `hpckit render` prints.
    """
    from hpckit import wiring
    from hpckit.app.prepare import prepare
    from hpckit.app.submit import submit

    if params["local"]:
        typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
        if typed and params["site"] != "local":
            raise click.UsageError("--local is --site local; give only one of them", ctx)
        params["site"] = "local"
    source = job_source(ctx, params)
    resources = wiring.resources(params["site_dirs"], params["template_dirs"])
    job = prepare(source, resources, wiring.template_cache())
    if params["dry_run"]:
        _dry_run(job, as_json=params["as_json"])
        return
    # SIGTERM undoes or completes a submission as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    submission = submit(job, wiring.caller(), wiring.submit_tools(job.site.submitter))
    if not params["as_json"]:
        _say_submitted(job, submission, quiet=params["quiet"])
    status = _wait(job, submission) if params["wait"] else None
    if params["as_json"]:
        output.document(_document(job, submission, status))
    elif status is not None and not params["quiet"]:
        _say_ended(submission, status)
    if status is not None and status.state != "COMPLETED":
        ctx.exit(1)


def _wait(job: PreparedJob, submission: Submission) -> JobStatus:
    from hpckit import wiring
    from hpckit.app.track import find_job
    from hpckit.cli.waiting import wait_at_terminal

    index = wiring.job_index()
    return wait_at_terminal(
        find_job(index, submission.job_id),
        wiring.submitter(job.site.submitter),
        index,
        poll_interval_s=job.site.poll_interval_s,
    )


def _dry_run(job: PreparedJob, *, as_json: bool) -> None:
    if as_json:
        output.document({**_document(job, None, None), "script": job.script.text})
        return
    click.echo(job.script.text, nl=False)
    output.talk(f" dry run: nothing was started · sha256 {job.script.sha256[:12]}")


def _document(
    job: PreparedJob, submission: Submission | None, status: JobStatus | None
) -> dict[str, object]:
    return {
        "schema": "hpckit.submission/1",
        "job_id": None if submission is None else submission.job_id,
        "name": job.effective.spec.name,
        "site": job.site.name,
        "folder": None if submission is None else str(submission.folder),
        "script_sha256": job.script.sha256,
        "held_back": [] if submission is None else list(submission.held_back),
        "state": None if status is None else str(status.state),
        "exit_code": None if status is None else status.exit_code,
        "exit_signal": None if status is None else status.exit_signal,
        "reason": None if status is None else status.reason,
    }


def _say_submitted(job: PreparedJob, submission: Submission, *, quiet: bool) -> None:
    from hpckit.decide.checks import not_applied

    if quiet:
        output.result(submission.job_id)
        return
    job_id = submission.job_id
    script = submission.folder / "job.sbatch"
    rows = [
        ("job", f"{job.effective.spec.name}   {_size(job)}   site {job.site.name}"),
        ("script", f"{script}\nsha256 {job.script.sha256[:12]} · hpckit show {job_id} --script"),
    ]
    if submission.held_back:
        names = " ".join(submission.held_back)
        rows.append(("env", f"held back: {names}\n(--pass NAME lets one through)"))
    ignored = not_applied(job.effective, job.site)
    if ignored:
        rows.append(("note", f"not applied at site {job.site.name}: {' '.join(ignored)}"))
    rows.append(("submitted", job_id))
    rows.append(("next", f"hpckit logs -f {job_id} · hpckit status {job_id}"))
    output.labelled(rows)


def _size(job: PreparedJob) -> str:
    spec = job.effective.spec
    parts = [f"{spec.resources.nodes} node" + ("s" if spec.resources.nodes > 1 else "")]
    parts.append(f"{spec.ntasks_per_node} rank" + ("s" if spec.ntasks_per_node > 1 else ""))
    if spec.resources.gpus_per_node:
        gpus = spec.resources.gpus_per_node
        parts.append(f"{gpus} GPU" + ("s" if gpus > 1 else ""))
    size = " × ".join(parts)
    return f"{size} · {spec.resources.time_limit or 'no time limit'}"


def _say_ended(submission: Submission, status: JobStatus) -> None:
    from hpckit import wiring

    logs = wiring.job_logs()
    ranks = logs.ranks(submission.folder)
    shown = [f"{rank}: {_last(logs, submission, rank)}" for rank in ranks[:_RANKS_SHOWN]]
    if len(ranks) > _RANKS_SHOWN:
        shown.append(f"… and {len(ranks) - _RANKS_SHOWN} more: hpckit logs --rank N")
    rows = [("ranks", "\n".join(shown))] if shown else []
    tail = logs.tail(submission.folder, None, _LOG_LINES_SHOWN)
    if status.state != "COMPLETED" and tail:
        rows.append(("log", "\n".join(tail)))
    rows.append(("ended", output.outcome(status)))
    if status.state != "COMPLETED":
        rows.append(("next", f"hpckit logs {submission.job_id}"))
    output.labelled(rows)


def _last(logs: JobLogs, submission: Submission, rank: int) -> str:
    return "".join(logs.tail(submission.folder, rank, 1))
