"""What `hpckit submit` does with a job, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import (
    ASKING,
    id_of,
    jobs_go_on,
    log_task,
    named_components,
    picked,
    placed_rows,
    say_open,
    wait_at_terminal,
)
from hpckit.cli.job_options import JobOptions
from hpckit.core.errors import JobRefused
from hpckit.core.units import counted
from hpckit.jobs.chain import StageStatus, explained, stopped_by
from hpckit.jobs.components import prepare_job
from hpckit.jobs.logs import FileJobLogs
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.source import JobSource
from hpckit.jobs.submit import Submission, try_out
from hpckit.jobs.submit_chain import places_of, prepare_chain, stages_of, submit_chain
from hpckit.placement.order_plan import OrderPlan
from hpckit.script.checks import not_applied
from hpckit.slurm.text import array_ranges
from hpckit.slurm.values import JobStatus
from hpckit.spec.folder_in_job import COMPONENTS_FOLDER
from hpckit.spec.job_folder import LogName
from hpckit.spec.merge import OriginKind
from hpckit.spec.options import StagePlace
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.platform import SettingOrigin


def submission_document(
    job: PreparedJob, submission: Submission | None, status: JobStatus | None
) -> dict[str, object]:
    """`hpckit.submission/1`: a job, its submission where it was submitted, how it ended."""
    environment = submission and submission.environment
    return {
        "schema": "hpckit.submission/1",
        "job_id": submission and submission.job_id,
        "name": job.name,
        "site": job.site.name,
        "folder": submission and str(submission.folder),
        "script_sha256": job.script.sha256,
        "cluster": submission and submission.entry.cluster,
        "held_back": environment.held_back if environment else (),
        "sbatch_defaults": environment.sbatch_defaults if environment else (),
        "words": submission.words if submission else (),
        "notes": (submission or job).notes,
        **picked(status, "state", "exit_code", "exit_signal", "reason"),
    }


def tasks_of(job: PreparedJob) -> int:
    """The tasks of a job's array; 1 without one."""
    array = _array(job)
    return 1 if array is None else sum(map(len, array_ranges(array)))


def _array(job: PreparedJob) -> str | None:
    return job.effective.spec.slurm.array if job.site.submitter is SubmitterKind.SLURM else None


def size_of(job: PreparedJob) -> str:
    """What a job asks for, in a few words."""
    if job.components:
        return counted(len(job.components), "component")
    spec = job.effective.spec
    parts = [counted(spec.resources.nodes, "node"), counted(spec.ntasks_per_node, "rank")]
    if spec.resources.gpus_per_node:
        parts.append(counted(spec.resources.gpus_per_node, "GPU"))
    slurm = job.site.submitter is SubmitterKind.SLURM
    default = "the partition's time limit" if slurm else "no time limit"
    limit = spec.resources.time_limit or default
    words = [" × ".join(parts), f"{limit} min" if limit.isdigit() else limit]
    if (tasks := tasks_of(job)) > 1:
        words.insert(0, f"{tasks} tasks")
    for name in ("partition", "account", "qos") if slurm else ():
        value = getattr(spec.slurm, name)
        if value is not None:
            words.append(f"{name} {value}")
    return " · ".join(words)


def place_words(job: PreparedJob, order: OrderPlan | None) -> str | None:
    """What is done about the places of ranks, in a few words; None for nothing."""
    parts = []
    if order is not None:
        leaves = len({*order.locality.domain_of.values()})
        parts.append(f"nodes ordered at start, by {order.source} ({leaves} leaves)")
    if job.plan.place is not None and job.plan.place.bind:
        near = " near its GPU" if job.effective.spec.resources.gpus_per_node else ""
        parts.append(f"each rank bound to cores{near}")
    return " · ".join(parts) or None


def comm_words(job: PreparedJob) -> str | None:
    """What is set for communication, in a few words; None for a job without GPUs that sets none."""
    settings = job.plan.communication
    own = [one.name for one in settings if one.origin is SettingOrigin.JOB]
    derived = [one.name for one in settings if one.origin is not SettingOrigin.JOB]
    parts = [f"{' '.join(own)} by the job"] if own else []
    if job.plan.profile is not None:
        parts.append(job.plan.profile.path)
    if derived:
        parts.append(f"{' '.join(derived)} (reasons in the script)")
    elif job.plan.profile is None and job.effective.spec.resources.gpus_per_node:
        parts.append(f"nothing{' else' if own else ''} set: {_library(job)} detects this machine")
    return " · ".join(parts) or None


def _library(job: PreparedJob) -> str:
    facts = job.comm.facts
    name = "NCCL" if facts.library is None else facts.library.upper()
    return name if facts.version is None else f"{name} {facts.version}"


def advice_words(job: PreparedJob) -> str:
    """What of a report's advice the job has, in a few words."""
    report_id = "" if job.source.advised is None else job.source.advised.report_id
    applied = [one for one in job.effective.origins if one.origin is OriginKind.REPORT]
    if not applied:
        return f"report {report_id} changes nothing"
    values = " · ".join(f"{one.key} {one.value}" for one in applied)
    return f"{values}   by report {report_id}"


_RANKS_SHOWN = 16
_COMPONENT_RANKS_SHOWN = 4
_LOG_LINES_SHOWN = 3


def submit_source(source: JobSource, options: JobOptions) -> int:
    """Submit, or do what comes before it, as the options say; gives the exit code."""
    is_chain = bool(stages_of(source))
    if is_chain and source.command:
        raise click.UsageError("no command after --: each stage has its own")
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    cache = wiring.template_cache()
    jobs = (
        prepare_chain(source, resources, cache)
        if is_chain
        else [prepare_job(source, resources, cache)]
    )
    if options.dry_run:
        _dry_run(jobs, is_chain=is_chain, as_json=options.as_json)
        return 0
    if options.test_only:
        places = places_of(jobs, wiring.caller()) if is_chain else [None]
        placed = list(zip(jobs, places, strict=True))
        try_jobs(placed, checks=options.checks, as_json=options.as_json)
        return 0
    for job in () if options.yes else jobs:
        ask_about_array(job)
    return _submit_chain(jobs, options) if is_chain else _submit(jobs[0], options)


def ask_about_array(job: PreparedJob) -> None:
    """Raise JobRefused for an array that is larger than the site starts without a question."""
    tasks, most = tasks_of(job), job.site.slurm.confirm_array_above
    if tasks > most:
        text = f"{tasks} tasks at once; site {job.site.name} asks for confirmation above {most}"
        raise JobRefused([("slurm.array", text, "hpckit submit --yes …")])


def _submit(job: PreparedJob, options: JobOptions) -> int:
    """Submit, wait where that is asked for, print; gives the exit code."""
    from hpckit.executor import submit_job

    with _submitting(job):
        submission = submit_job(job, checks=options.checks).started
    entry = submission.entry
    status: JobStatus | None = None
    with jobs_go_on([submission.job_id]):
        if not options.as_json:
            _say_submitted(job, submission, quiet=options.quiet)
        if options.wait:
            (status,) = wait_at_terminal([entry], wiring.track_tools())
    if options.as_json:
        output.document(submission_document(job, submission, status))
    elif status is not None and not options.quiet:
        _say_ended(job, submission, status)
    return 0 if status is None else say_open([(entry, status)], None)


@contextmanager
def _submitting(job: PreparedJob) -> Iterator[None]:
    """While Slurm is asked a line on a terminal says so."""
    wiring.interrupt_on_signals()
    line = output.Progress()
    if job.site.submitter is SubmitterKind.SLURM:
        line.show(ASKING)
    try:
        yield
    finally:
        line.clear()


def _dry_run(jobs: Sequence[PreparedJob], *, is_chain: bool, as_json: bool) -> None:
    """Print the scripts of a chain's stages, or of a job by itself."""
    if as_json:
        documents = [
            {**submission_document(job, None, None), "script": job.script.text} for job in jobs
        ]
        chain = {"schema": CHAIN_SCHEMA, "stages": documents}
        output.document(chain if is_chain else documents[0])
        return
    for job in jobs:
        output.as_file(job.script.text)
        output.say_notes(job.notes)
        of_stage = f" of stage {job.source.stage}" if is_chain else ""
        output.talk(f" dry run{of_stage}: nothing submitted · sha256 {job.script.sha256[:12]}")


def _say_submitted(job: PreparedJob, submission: Submission, *, quiet: bool) -> None:
    if quiet:
        with output.written(f"job {submission.job_id} was submitted"):
            output.result(submission.job_id)
        return
    with output.written(f"job {submission.job_id} was submitted"):
        _say_rows(job, submission)


def _say_rows(job: PreparedJob, submission: Submission) -> None:
    job_id = submission.job_id
    script = submission.folder / "job.sbatch"
    rows = [
        ("job", f"{job.name}   {size_of(job)}   site\N{NO-BREAK SPACE}{job.site.name}"),
        ("script", f"{script}\nsha256 {job.script.sha256[:12]} · hpckit show {job_id} --script"),
    ]
    rows += [(part.name, size_of(part.job)) for part in job.components]
    rows += [] if job.components else _decided(job, submission)
    rows += _held_back(submission)
    if submission.environment.sbatch_defaults:
        names = " ".join(submission.environment.sbatch_defaults)
        rows.append(("sbatch", f"reads your {names}"))
    rows += [("note", output.note(note)) for note in submission.notes]
    if submission.words:
        rows.append(("slurm", "\n".join(submission.words)))
    ignored = not_applied(job.effective, job.site)
    if ignored:
        gpus = any("gpu" in key for key in ignored)
        sees = "; ranks see the GPUs that this machine has (hpckit inspect)" if gpus else ""
        why = f"site {job.site.name} ignores {', '.join(ignored)} (no scheduler){sees}"
        rows.append(("note", why))
    if submission.entry.parts:
        ids = " ".join(submission.entry.job_ids)
        parts = len(submission.entry.parts)
        rows.append(("array", f"above the cluster's MaxArraySize, split into {parts} jobs:\n{ids}"))
    rows.append(("submitted", job_id))
    log = id_of(job_id, _first_task(job))
    rows.append(("next", f"hpckit logs -f {log} · hpckit status {job_id}"))
    output.labelled([(label, _within(label, text)) for label, text in rows])


def _within(label: str, text: str) -> str:
    """Return the text in lines that fit; a path, a command and Slurm's own words are not broken."""
    if label in {"script", "next", "slurm"}:
        return text
    return output.prose(text, 12).replace("\N{NO-BREAK SPACE}", " ")


def _held_back(submission: Submission) -> list[tuple[str, str]]:
    names = " ".join(submission.environment.held_back)
    return [("env", f"blocked: {names}\n(--pass NAME exports one)")] if names else []


def _decided(job: PreparedJob, submission: Submission) -> list[tuple[str, str]]:
    words = {
        "ranks": place_words(job, submission.order),
        "comm": comm_words(job),
        "advice": None if job.source.advised is None else advice_words(job),
    }
    return [(label, text) for label, text in words.items() if text is not None]


def _first_task(job: PreparedJob) -> int | None:
    array = _array(job)
    return None if array is None else array_ranges(array)[0][0]


def _ranks(label: str, folder: Path, most: int) -> list[tuple[str, str]]:
    """The last line of each of the first ranks that have a log below a folder."""
    logs = FileJobLogs()
    ranks = logs.ranks(folder)
    shown = [
        f"rank {rank}: {output.log_line(lines[-1])}"
        for rank in ranks[:most]
        if (lines := logs.tail(LogName(folder=folder, rank=rank), 1, is_own=True))
    ]
    if len(ranks) > most:
        shown.append(f"… and {len(ranks) - most} more: hpckit logs --rank N")
    return [(label, "\n".join(shown))] if shown else []


def _say_ended(job: PreparedJob, submission: Submission, status: JobStatus) -> None:
    logs = FileJobLogs()
    rows = _ranks("ranks", submission.folder, _RANKS_SHOWN)
    for part in job.components:
        folder = submission.folder / COMPONENTS_FOLDER / part.name
        rows += _ranks(part.name, folder, _COMPONENT_RANKS_SHOWN)
    task = log_task(status)
    tail = logs.tail(LogName(folder=submission.folder, task=task), _LOG_LINES_SHOWN)
    if status.state != "COMPLETED" and tail:
        rows.append(("log", "\n".join(map(output.log_line, tail))))
    failed = [name for name, one in named_components(submission.entry, status)
              if one.state == "FAILED"]  # fmt: skip
    how = " · ".join([output.outcome(status), *(f"{name} failed" for name in failed)])
    rows.append(("ended" if status.state.is_final else "state", how))
    rows += placed_rows(submission.entry, status)
    has_begun = status.started_s is not None or not status.state.is_final
    logs_words = f"hpckit logs {id_of(status.job_id, task)}"
    if status.state == "COMPLETED":
        rows.append(("next", f"hpckit report {status.job_id} · {logs_words}"))
    elif has_begun:
        rows.append(("next", logs_words))
    output.labelled(rows)


CHAIN_SCHEMA = "hpckit.chain/1"


def _submit_chain(stages: Sequence[PreparedJob], options: JobOptions) -> int:
    """Submit every stage, wait where that is asked for, print; gives the exit code."""
    with _submitting(stages[0]):
        tools = wiring.submit_tools(stages[0].site.submitter, checks=options.checks)
        submissions = submit_chain(stages, [wiring.caller() for _ in stages], tools)
    with jobs_go_on([submission.job_id for submission in submissions]):
        if options.quiet and not options.as_json:
            for submission in submissions:
                output.result(submission.job_id)
        elif not options.as_json:
            _say_chain_submitted(stages, submissions)
        ended = _wait_for_chain(submissions) if options.wait else []
    if options.as_json:
        statuses: Sequence[JobStatus | None] = [status for _, status in ended]
        statuses = statuses or [None] * len(stages)
        documents = [
            submission_document(stage, submission, status)
            for stage, submission, status in zip(stages, submissions, statuses, strict=True)
        ]
        output.document({"schema": CHAIN_SCHEMA, "stages": documents})
    elif ended and not options.quiet:
        rows = [(str(entry.stage), output.outcome(status)) for entry, status in ended]
        output.labelled([*rows, *_stopped(ended)])
    return say_open(ended, None)


def _wait_for_chain(submissions: Sequence[Submission]) -> Sequence[StageStatus]:
    entries = [submission.entry for submission in submissions]
    statuses = wait_at_terminal(entries, wiring.track_tools())
    return list(zip(entries, explained(list(zip(entries, statuses, strict=True))), strict=True))


def _stopped(ended: Sequence[StageStatus]) -> Iterator[tuple[str, str]]:
    if (stopper := stopped_by(ended)) is not None:
        entry, status = stopper
        yield "stopped", f"at {entry.stage} ({status.job_id}): {status.state}"
        log = id_of(status.job_id, log_task(status))
        yield "next", f"hpckit status {status.job_id} · hpckit logs {log}"


def _say_chain_submitted(stages: Sequence[PreparedJob], submissions: Sequence[Submission]) -> None:
    last = submissions[-1]
    rows = [
        ("chain", f"{len(stages)} stages, each starts when the one before has completed"),
        *(
            (str(stage.source.stage), f"{submission.job_id}   {size_of(stage)}")
            for stage, submission in zip(stages, submissions, strict=True)
        ),
    ]
    rows += _held_back(last)
    notes = dict.fromkeys(note for submission in submissions for note in submission.notes)
    rows += [("note", output.note(note)) for note in notes]
    words = dict.fromkeys(word for submission in submissions for word in submission.words)
    if words:
        rows.append(("slurm", "\n".join(words)))
    ids = " ".join(submission.job_id for submission in submissions)
    rows.append(("next", f"hpckit status {last.job_id} · hpckit wait {ids}"))
    output.labelled(rows)


def try_jobs(
    placed: Sequence[tuple[PreparedJob, StagePlace | None]], *, checks: bool, as_json: bool
) -> None:
    """Have each job looked at, in its place in a chain or by itself, and print what is said."""
    site = placed[0][0].site
    tools = wiring.submit_tools(site.submitter, checks=checks)
    trials = [(job, try_out(job, wiring.caller(), tools, place)) for job, place in placed]
    if as_json:
        documents = [
            {
                "name": job.name,
                "script_sha256": job.script.sha256,
                "words": trial.words,
                "notes": trial.notes,
            }
            for job, trial in trials
        ]
        output.document({"schema": "hpckit.trial/1", "site": site.name, "jobs": documents})
        return
    for job, trial in trials:
        rows = [("job", f"{job.name}   site {job.site.name}")]
        rows += [("note", output.note(note)) for note in trial.notes]
        rows.append(("slurm", "\n".join(trial.words) or "no objection"))
        output.labelled(rows)
    output.talk(" nothing submitted")
