"""How a local job is, read from its folder and from the processes of this machine."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from hpckit.adapters.intent import Intent, read_intent
from hpckit.adapters.local_record import (
    LocalResult,
    LocalRun,
    read_record,
)
from hpckit.adapters.process_tree import find_process
from hpckit.errors import StorageFailed
from hpckit.model.job_folder import INTENT_FILE, RESULT_FILE, RUN_FILE, SUBMITTED_FILE
from hpckit.model.slurm import JobId, JobState, JobStatus

LOST_REASON = "the supervisor ended without recording a result (killed, or the machine restarted)"
_SUBMISSION_S = 60.0


def local_status(job_id: JobId, folder: Path) -> JobStatus:
    """The status of the job in a folder; what cannot be read is UNKNOWN with the reason."""
    try:
        result = read_record(folder, RESULT_FILE, LocalResult)
        run = read_record(folder, RUN_FILE, LocalRun)
        alive = run is not None and is_here(run) and find_process(run.supervisor) is not None
        if result is None and not alive:
            # It may have ended between the questions; it is not asked about again.
            result = read_record(folder, RESULT_FILE, LocalResult)
        if result is not None:
            return _ended(job_id, result)
        if run is not None:
            return _started(job_id, run, alive=alive)
        return _intended(job_id, folder)
    except StorageFailed as error:
        return JobStatus(job_id=job_id, state=JobState.UNKNOWN, is_lost=True, reason=error.message)


def is_here(run: LocalRun) -> bool:
    """Whether the job runs on this machine."""
    return run.host == socket.gethostname()


def _ended(job_id: JobId, result: LocalResult) -> JobStatus:
    return JobStatus(
        job_id=job_id,
        state=result.state,
        exit_code=result.exit_code,
        exit_signal=result.exit_signal,
        started_s=result.started_s,
        ended_s=result.ended_s,
        reason=result.reason,
    )


def _started(job_id: JobId, run: LocalRun, *, alive: bool) -> JobStatus:
    if not is_here(run):
        state, reason = JobState.UNKNOWN, f"it runs on {run.host}; ask there"
    elif alive:
        return JobStatus(job_id=job_id, state=JobState.RUNNING, started_s=run.started_s)
    else:
        state, reason = JobState.FAILED, LOST_REASON
        if run.script is not None and find_process(run.script) is not None:
            reason += "; its script still runs, and cancel ends it"
    return JobStatus(job_id=job_id, state=state, started_s=run.started_s, reason=reason)


def _intended(job_id: JobId, folder: Path) -> JobStatus:
    intent = read_intent(folder)
    if intent is None:
        reason = f"{folder} holds no {INTENT_FILE}" if folder.is_dir() else f"{folder} is not there"
        return JobStatus(job_id=job_id, state=JobState.UNKNOWN, is_lost=True, reason=reason)
    if (folder / SUBMITTED_FILE).exists():
        reason = "it was started, and its run.json is gone"
        return JobStatus(job_id=job_id, state=JobState.UNKNOWN, is_lost=True, reason=reason)
    if _submission_is_over(intent, folder):
        return JobStatus(
            job_id=job_id,
            state=JobState.NOT_SUBMITTED,
            reason="the submission ended before the job was started",
        )
    return JobStatus(job_id=job_id, state=JobState.PENDING, reason="it is being submitted")


def _submission_is_over(intent: Intent, folder: Path) -> bool:
    try:
        age_s = time.time() - (folder / INTENT_FILE).stat().st_mtime
    except OSError:
        return True
    if age_s > _SUBMISSION_S:
        return True
    return intent.submitter_lives is False
