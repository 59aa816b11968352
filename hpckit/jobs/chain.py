"""What stopped a chain, and which of its stages never began because of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpckit.core.errors import StorageFailed
from hpckit.core.values import dataclass
from hpckit.jobs.track import TrackTools, after_status, job_statuses
from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus
from hpckit.spec.job_folder import INTENT_FILE

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


def stopped_by(stages: Sequence[StageStatus]) -> StageStatus | None:
    """The first stage that ended otherwise than COMPLETED; None where there is none."""
    ended = (stage for stage in stages if stage[1].state.is_final)
    return next((stage for stage in ended if stage[1].state is not JobState.COMPLETED), None)


def never_began(stages: Sequence[StageStatus], at: int) -> bool:
    """Whether a stage was cancelled before its begin because an earlier one had failed."""
    return did_not_begin(stages[at][1]) and stopped_by(stages[:at]) is not None


def did_not_begin(status: JobStatus) -> bool:
    """Whether a job has ended before its begin."""
    return status.started_s is None and status.state in (JobState.CANCELLED, JobState.NOT_SUBMITTED)


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
        reason = status.reason
        if stopper is not None and did_not_begin(status):
            entry, how = stopper
            reason = f"not started: {entry.stage} ({how.job_id}) {how.state}"
        told.append(replace(status, reason=reason))
    return told


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
