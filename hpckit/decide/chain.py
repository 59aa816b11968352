"""What stopped a chain, and which of its stages never began because of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus

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
