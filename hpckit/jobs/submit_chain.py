"""All stages of a chain submitted, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hpckit.core.errors import (
    ConfigError,
    HpckitError,
    PlanError,
    SchedulerUnreachable,
    StorageFailed,
)
from hpckit.jobs.draft import Caller
from hpckit.jobs.parts import TakenBack, take_back
from hpckit.jobs.prepare import PreparedJob, prepare
from hpckit.jobs.sites import load_site
from hpckit.jobs.source import JobSource
from hpckit.jobs.submit import Progress, Submission, SubmitTools, draft_of, interrupt_of, submit
from hpckit.spec.merge import FROM_REPORT, stage_names
from hpckit.spec.options import StagePlace
from hpckit.spec.pace import SubmitterKind

if TYPE_CHECKING:
    from jinja2 import BytecodeCache

    from hpckit.core.files import FileResources


def stages_of(source: JobSource) -> tuple[str, ...]:
    """The stages that are asked for; none where it is one job. Raises ConfigError."""
    if source.file_text is None or source.stage is not None:
        return ()
    return stage_names(source.file_text, source.file_name)


def prepare_chain(
    source: JobSource, resources: FileResources, cache: BytecodeCache | None = None
) -> tuple[PreparedJob, ...]:
    """Every stage, prepared. Raises ConfigError, PlanError, RenderError."""
    names = stages_of(source)
    if source.advised is not None:
        raise ConfigError(
            f"the report of {source.advised.report_id} is for a single job, but this file has "
            "stages",
            key=FROM_REPORT,
            hint=f"choose one with --stage: {', '.join(names)}",
        )
    site = load_site(resources, source.site_name)
    if site.submitter is SubmitterKind.LOCAL:
        raise PlanError(
            f"site {site.name} has no scheduler for chains",
            have="one job at a time",
            need=f"{len(names)} stages, one after another",
            hint=f"run one with --stage {names[0]}, or use a site with Slurm",
        )
    return tuple(prepare(replace(source, stage=name), resources, cache) for name in names)


def submit_chain(
    stages: Sequence[PreparedJob], callers: Sequence[Caller], tools: SubmitTools
) -> tuple[Submission, ...]:
    """Submit all stages or none, each to begin once the one before has completed.

    `callers` are the same caller with a uuid for each stage; the first one's is the chain's. All
    that can be known of a stage is checked before the first is sent. Raises what `submit` raises,
    and KeyboardInterrupt: then the stages before are cancelled and undone, unless Slurm may have
    the stage.
    """
    places = places_of(stages, callers[0])
    for stage, caller, place in zip(stages, callers, places, strict=True):
        draft_of(stage, caller, tools, place)
    done: list[Submission] = []
    try:
        with tools.interrupts_held() as interrupted:
            held = replace(tools, interrupts_held=lambda: nullcontext(interrupted))
            for stage, caller, place in zip(stages, callers, places, strict=True):
                if done and interrupted():
                    raise _interrupt(f"stage {stage.source.stage} was not submitted", done, tools)
                after = done[-1].entry.job_ids if done else ()
                done.append(_submit_stage(stage, caller, held, done, replace(place, after=after)))
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            raise
        ids = " ".join(submission.job_id for submission in done)
        raise KeyboardInterrupt(f"the chain goes on: hpckit wait {ids}") from None
    return tuple(done)


def places_of(stages: Sequence[PreparedJob], caller: Caller) -> Sequence[StagePlace]:
    """The place of each stage; the jobs to wait for are not known yet."""
    names = tuple(str(stage.source.stage) for stage in stages)
    return [StagePlace(chain=caller.uuid_hex, stage=name, stages=names) for name in names]


def _interrupt(message: str, done: Sequence[Submission], tools: SubmitTools) -> KeyboardInterrupt:
    error = HpckitError(message)
    _give_up(done, error, tools)
    return interrupt_of(error)


def _submit_stage(
    stage: PreparedJob,
    caller: Caller,
    tools: SubmitTools,
    done: Sequence[Submission],
    place: StagePlace,
) -> Submission:
    progress = Progress()
    try:
        return submit(stage, caller, tools, place, progress)
    except KeyboardInterrupt as interrupt:
        if progress.is_kept:
            words = f"stage {stage.source.stage}: {interrupt} · later stages were not submitted"
            raise KeyboardInterrupt(words) from None
        raise _interrupt(f"stage {stage.source.stage}: {interrupt}", done, tools) from None
    except HpckitError as error:
        error.message = f"stage {stage.source.stage}: {error.message}"
        if progress.is_kept:
            error.message += "; later stages were not submitted"
        else:
            _give_up(done, error, tools)
        raise


def _give_up(done: Sequence[Submission], error: HpckitError, tools: SubmitTools) -> None:
    """Take back the stages before one that was refused, last first, and say so in the error.

    None is asked for after the first that could not be taken back: those go on. One that has begun
    keeps its folder and its record.
    """
    begun: list[str] = []
    for submission in reversed(done):
        silent = isinstance(error, SchedulerUnreachable)
        taken_back = TakenBack.NOT if silent else take_back(submission.entry, tools.submitter)
        if taken_back is TakenBack.NOT:
            error.hint = f"hpckit cancel {submission.job_id}: the earlier stages continue"
            return
        if taken_back is TakenBack.HAD_BEGUN:
            begun.append(str(submission.entry.stage))
        else:
            with suppress(StorageFailed):
                tools.index.remove(submission.entry.submission)
            with suppress(StorageFailed):
                tools.folders.remove(submission.folder)
    if begun:
        error.message += " (unfinished earlier stages were cancelled)"
        names = " and ".join(reversed(begun))
        error.hint = (
            f"{names} had already started or ended: hpckit status {done[len(begun) - 1].job_id}"
        )
    elif done:
        error.message += " (the earlier stages were cancelled)"
