"""Jobs as a scheduler sees them: ids, states, and what is known of one job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

JobId = NewType("JobId", str)
"""The scheduler's id of a job, or `L` and eight hex digits for a local one."""


class JobState(StrEnum):
    """The states of squeue(1) and sacct(1) that hpckit meets, and two of its own.

    UNKNOWN keeps a word that is not understood in `JobStatus.raw`; NOT_SUBMITTED is an intent
    that never became a job.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    NOT_SUBMITTED = "NOT_SUBMITTED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """True when the job will not change any more."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What is known of a job now.

    `exit_code` is the script's own (128+N after signal N, as a shell counts), None while it
    runs or when nobody recorded it; `exit_signal` is the signal that ended the script itself.
    Times are seconds since the epoch. `reason` is one sentence.
    """

    job_id: JobId
    state: JobState
    exit_code: int | None = None
    exit_signal: int | None = None
    started_s: float | None = None
    ended_s: float | None = None
    reason: str | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """One line of the job index: which folder belongs to which job.

    `created_s` is seconds since the epoch; `state` is the last one seen, for listings.
    """

    job_id: JobId
    name: str
    site: str
    folder: str
    created_s: float
    state: JobState
    exit_code: int | None = None
