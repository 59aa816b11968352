"""What stopped a chain, and which of its stages never began because of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.account.advice.outcome import OPTION
from hpckit.core.errors import (
    ConfigError,
    HpckitError,
    PlanError,
    SchedulerUnreachable,
    StorageFailed,
)
from hpckit.jobs.draft import Caller
from hpckit.jobs.parts import TakenBack, take_back
from hpckit.jobs.prepare import JobSource, PreparedJob, prepare
from hpckit.jobs.sites import load_site
from hpckit.jobs.submit import Progress, Submission, SubmitTools, draft_of, interrupt_of, submit
from hpckit.jobs.track import TrackTools, after_status, job_statuses
from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus
from hpckit.spec.files import stage_names
from hpckit.spec.job_folder import INTENT_FILE
from hpckit.spec.options import StagePlace
from hpckit.spec.site import SubmitterKind

if TYPE_CHECKING:
    from jinja2 import BytecodeCache

    from hpckit.core.files import FileResources


StageStatus = tuple[JobEntry, JobStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLine:
    """How a stage of a chain is. `job_id` is None where there is no record of a job."""

    name: str
    job_id: JobId | None = None
    state: JobState
    exit_code: int | None = None
    reason: str | None
    never_began: bool = False


_NEVER_BEGUN = (JobState.CANCELLED, JobState.NOT_SUBMITTED)


def stopped_by(stages: Sequence[StageStatus]) -> StageStatus | None:
    """The first stage that ended otherwise than COMPLETED; None where there is none."""
    for entry, status in stages:
        if status.state.is_final and status.state is not JobState.COMPLETED:
            return entry, status
    return None


def never_began(stages: Sequence[StageStatus], at: int) -> bool:
    """Whether a stage was cancelled before its begin because an earlier one had failed."""
    return did_not_begin(stages[at][1]) and stopped_by(stages[:at]) is not None


def did_not_begin(status: JobStatus) -> bool:
    """Whether a job has ended before its begin."""
    return status.state in _NEVER_BEGUN and status.started_s is None


def stage_lines(stages: Sequence[StageStatus], names: Sequence[str]) -> Sequence[StageLine]:
    """Each stage of `names`, or of those that became a job where the names are not known.

    One without a record was submitted if a stage after it was.
    """
    known = {
        str(entry.stage): StageLine(
            name=str(entry.stage),
            job_id=status.job_id,
            state=status.state,
            exit_code=status.exit_code,
            reason=status.reason,
            never_began=never_began(stages, at),
        )
        for at, (entry, status) in enumerate(stages)
    }
    last = max((at for at, name in enumerate(names) if name in known), default=-1)
    return [known.get(name) or _without(name, at < last) for at, name in enumerate(names or known)]


def _without(name: str, was_submitted: bool) -> StageLine:
    if was_submitted:
        return StageLine(name=name, state=JobState.UNKNOWN, reason="no longer on record")
    return StageLine(name=name, state=JobState.NOT_SUBMITTED, reason="not submitted")


def explained(stages: Sequence[StageStatus]) -> Sequence[JobStatus]:
    """The status of each stage of a chain, in order; one that never began says why."""
    told = []
    for at, (_, status) in enumerate(stages):
        stopper = stopped_by(stages[:at])
        if stopper is not None and never_began(stages, at):
            entry, how = stopper
            reason = f"not started: {entry.stage} ({how.job_id}) {how.state}"
            told.append(replace(status, reason=reason))
        else:
            told.append(status)
    return told


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
            f"the report of {source.advised.report_id} is of one job, and this file has stages",
            key=OPTION,
            hint=f"--stage is one of: {', '.join(names)}",
        )
    site = load_site(resources, source.site_name)
    if site.submitter is SubmitterKind.LOCAL:
        raise PlanError(
            f"site {site.name} has no scheduler for chains",
            have="one job at a time",
            need=f"{len(names)} stages, one after the other",
            hint=f"--stage {names[0]} for one of them, or a site with Slurm",
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
                    raise _interrupt(f"stage {stage.source.stage} was not sent", done, tools)
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
            words = f"stage {stage.source.stage}: {interrupt} · no stage after it was submitted"
            raise KeyboardInterrupt(words) from None
        raise _interrupt(f"stage {stage.source.stage}: {interrupt}", done, tools) from None
    except HpckitError as error:
        error.message = f"stage {stage.source.stage}: {error.message}"
        if progress.is_kept:
            error.message += "; no stage after it was submitted"
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
            error.hint = f"hpckit cancel {submission.job_id}: stages before it go on"
            return
        if taken_back is TakenBack.HAD_BEGUN:
            begun.append(str(submission.entry.stage))
        else:
            with suppress(StorageFailed):
                tools.index.remove(submission.entry.submission)
            with suppress(StorageFailed):
                tools.folders.remove(submission.folder)
    if begun:
        error.message += " (of the stages before it, what had not ended was cancelled)"
        names = " and ".join(reversed(begun))
        error.hint = f"{names} had begun or ended: hpckit status {done[len(begun) - 1].job_id}"
    elif done:
        error.message += " (the stages before it were cancelled)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain as it is now: its jobs with their statuses, and the names of all its stages."""

    stages: tuple[tuple[JobEntry, JobStatus], ...]
    names: tuple[str, ...] = ()

    @property
    def lines(self) -> Sequence[StageLine]:
        """How each of its stages is."""
        return stage_lines(self.stages, self.names)

    def status_of(self, entry: JobEntry) -> JobStatus:
        """The status of one of its jobs."""
        return next(how for one, how in self.stages if one.submission == entry.submission)


def chain_status(entry: JobEntry, tools: TrackTools) -> Chain:
    """How the chain of a job is, or the job alone that has none; one question for all of it."""
    known = () if entry.chain is None else tools.index.of_chain(entry.chain)
    entries = known or (entry,)
    statuses = job_statuses(entries, tools)
    told = explained(list(zip(entries, statuses, strict=True)))
    return Chain(
        stages=tuple(
            (after_status(one, status), status) for one, status in zip(entries, told, strict=True)
        ),
        names=tuple(_intended(entry, tools)),
    )


def with_reasons(
    entries: Sequence[JobEntry], statuses: Sequence[JobStatus], tools: TrackTools
) -> Sequence[JobStatus]:
    """The statuses; of a stage that was cancelled before its begin, with what stopped its chain."""
    return [
        chain_status(entry, tools).status_of(entry)
        if entry.chain and did_not_begin(status)
        else status
        for entry, status in zip(entries, statuses, strict=True)
    ]


def _intended(entry: JobEntry, tools: TrackTools) -> Sequence[str]:
    if entry.chain is None:
        return ()
    try:
        names = tools.folders.read_json(Path(entry.folder), INTENT_FILE).get("stages")
    except StorageFailed:
        return ()
    return [str(name) for name in names] if isinstance(names, list) else ()
