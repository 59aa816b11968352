"""What stopped a chain, and which of its stages never began because of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpckit.model.slurm import JobEntry, JobState, JobStatus

StageStatus = tuple[JobEntry, JobStatus]
_NEVER_BEGUN = (JobState.CANCELLED, JobState.NOT_SUBMITTED)


def stopped_by(stages: Sequence[StageStatus]) -> StageStatus | None:
    """The first stage that ended otherwise than COMPLETED; None where there is none."""
    for entry, status in stages:
        if status.state.is_final and status.state is not JobState.COMPLETED:
            return entry, status
    return None


def never_began(stages: Sequence[StageStatus], at: int) -> bool:
    """Whether a stage was cancelled before its begin because an earlier one had failed."""
    status = stages[at][1]
    ended = status.state in _NEVER_BEGUN and status.started_s is None
    return ended and stopped_by(stages[:at]) is not None


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
