"""A chain of jobs at the terminal: submitted, waited for, and shown in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.submission import interrupt_on_signals, size_of, submission_document

if TYPE_CHECKING:
    from hpckit.app.chain import Chain, PreparedStage
    from hpckit.app.prepare import JobSource
    from hpckit.app.submit import Submission
    from hpckit.cli.cmd_submit import SubmitOptions
    from hpckit.decide.chain import StageLine, StageStatus
    from hpckit.model.slurm import JobStatus

CHAIN_SCHEMA = "hpckit.chain/1"


def submit_stages(source: JobSource, options: SubmitOptions) -> int:
    """Submit every stage of a job file, as `hpckit submit` was told; gives the exit code."""
    from hpckit import wiring
    from hpckit.app.chain import places_of, prepare_chain
    from hpckit.cli.trial import try_jobs

    if source.command:
        raise click.UsageError("the stages of a chain have commands of their own: none after --")
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    stages = prepare_chain(source, resources, wiring.template_cache())
    if options.dry_run:
        _dry_run(stages, as_json=options.as_json)
        return 0
    if options.test_only:
        jobs = [stage.job for stage in stages]
        placed = list(zip(jobs, places_of(stages, wiring.caller()), strict=True))
        try_jobs(placed, checks=options.checks, as_json=options.as_json)
        return 0
    submissions = _submit(stages, checks=options.checks)
    if options.quiet and not options.as_json:
        for submission in submissions:
            output.result(submission.job_id)
    elif not options.as_json:
        _say_submitted(stages, submissions)
    return _finish(stages, submissions, options)


def _submit(stages: Sequence[PreparedStage], *, checks: bool) -> Sequence[Submission]:
    from hpckit import wiring
    from hpckit.app.chain import submit_chain
    from hpckit.cli.waiting import ASKING

    interrupt_on_signals()
    line = output.Progress()
    line.show(ASKING)
    try:
        tools = wiring.submit_tools(stages[0].job.site.submitter, checks=checks)
        return submit_chain(stages, [wiring.caller() for _ in stages], tools)
    finally:
        line.clear()


def _finish(
    stages: Sequence[PreparedStage], submissions: Sequence[Submission], options: SubmitOptions
) -> int:
    """Wait where that is asked for, and print how it ended."""
    from hpckit.cli.waiting import say_open

    ended = _wait(submissions) if options.wait else []
    if options.as_json:
        statuses: Sequence[JobStatus | None] = [status for _, status in ended]
        statuses = statuses or [None] * len(stages)
        documents = [
            submission_document(stage.job, submission, status)
            for stage, submission, status in zip(stages, submissions, statuses, strict=True)
        ]
        output.document({"schema": CHAIN_SCHEMA, "stages": documents})
    elif ended and not options.quiet:
        rows = [(str(entry.stage), output.outcome(status)) for entry, status in ended]
        output.labelled([*rows, *_stopped(ended)])
    return say_open(ended, None)


def _wait(submissions: Sequence[Submission]) -> Sequence[StageStatus]:
    from hpckit import wiring
    from hpckit.cli.waiting import wait_at_terminal
    from hpckit.decide.chain import explained

    entries = [submission.entry for submission in submissions]
    statuses = wait_at_terminal(entries, wiring.track_tools())
    return list(zip(entries, explained(list(zip(entries, statuses, strict=True))), strict=True))


def _stopped(ended: Sequence[StageStatus]) -> Iterator[tuple[str, str]]:
    from hpckit.cli.tasks import id_of, log_task
    from hpckit.decide.chain import stopped_by

    stopper = stopped_by(ended)
    if stopper is not None:
        entry, status = stopper
        yield "stopped", f"at {entry.stage} ({status.job_id}): {status.state}"
        log = id_of(status.job_id, log_task(status))
        yield "next", f"hpckit status {status.job_id} · hpckit logs {log}"


def _dry_run(stages: Sequence[PreparedStage], *, as_json: bool) -> None:
    if as_json:
        documents = [
            {**submission_document(stage.job, None, None), "script": stage.job.script.text}
            for stage in stages
        ]
        output.document({"schema": CHAIN_SCHEMA, "stages": documents})
        return
    for stage in stages:
        click.echo(stage.job.script.text, nl=False)
        output.say_notes(stage.job.notes)
        output.talk(
            f" dry run of stage {stage.name}: nothing was started · "
            f"sha256 {stage.job.script.sha256[:12]}"
        )


def _say_submitted(stages: Sequence[PreparedStage], submissions: Sequence[Submission]) -> None:
    last = submissions[-1]
    rows = [
        ("chain", f"{len(stages)} stages, each begins when the one before has completed"),
        *(
            (stage.name, f"{submission.job_id}   {size_of(stage.job)}")
            for stage, submission in zip(stages, submissions, strict=True)
        ),
    ]
    if last.environment.held_back:
        names = " ".join(last.environment.held_back)
        rows.append(("env", f"held back: {names}\n(--pass NAME lets one through)"))
    notes = dict.fromkeys(note for submission in submissions for note in submission.notes)
    rows += [("note", output.note(note)) for note in notes]
    words = dict.fromkeys(word for submission in submissions for word in submission.words)
    if words:
        rows.append(("slurm", "\n".join(words)))
    ids = " ".join(submission.job_id for submission in submissions)
    rows.append(("next", f"hpckit status {last.job_id} · hpckit wait {ids}"))
    output.labelled(rows)


def chain_row(chain: Chain) -> Iterator[tuple[str, str]]:
    """The row of `hpckit status` about a chain; none for a job by itself."""
    if chain.stages[0][0].chain is not None:
        yield "chain", " → ".join(_words(line) for line in chain.lines)


def _words(line: StageLine) -> str:
    if line.job_id is None:
        return f"{line.name} ({line.reason})"
    code = f" {line.exit_code}" if line.exit_code else ""
    never = " (not started)" if line.never_began else ""
    return f"{line.name} {line.job_id} {output.state_word(line.state)}{code}{never}"


def chain_document(chain: Chain) -> list[dict[str, object]] | None:
    """The stages of a chain, for `hpckit.status/1`; None for a job by itself."""
    if chain.stages[0][0].chain is None:
        return None
    return [
        {
            "stage": line.name,
            "job_id": line.job_id,
            "state": str(line.state),
            "exit_code": line.exit_code,
            "reason": line.reason,
        }
        for line in chain.lines
    ]
