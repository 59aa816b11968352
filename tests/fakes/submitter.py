"""A submitter that starts no process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpckit.core.errors import AdapterError, HpckitError
from hpckit.slurm.values import (
    JobDetail,
    JobEntry,
    JobId,
    JobState,
    JobStatus,
    StartedJob,
    SubmitRequest,
)


class FakeSubmitter:
    """Jobs that end at once when the last line of `job.sbatch` is `exit N`, and else run on.

    `refusal` is raised by every submission, by those alone whose offset in a job array is in
    `refused_offsets` where that is given. Tests read `requests`, `signals` and which jobs each
    question was about in `asked`, and end a job with `end`. `detailed` is what the
    accounts hold of every job.
    """

    def __init__(
        self,
        refusal: Exception | None = None,
        *,
        refused_offsets: Sequence[int] | None = None,
    ) -> None:
        self._refusal = refusal
        self._refused_offsets = refused_offsets
        self._jobs: dict[Path, JobStatus] = {}
        self._started: set[tuple[Path, int]] = set()
        self.requests: list[SubmitRequest] = []
        self.signals: list[tuple[JobId, str | None]] = []
        self.asked: list[list[JobId]] = []
        self.detailed: JobDetail | None = None

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Start the job. Raises AdapterError."""
        refused = self._refused_offsets is None or request.array_offset in self._refused_offsets
        if self._refusal is not None and refused:
            raise self._refusal
        if (request.folder, request.array_offset) in self._started:
            raise AdapterError(f"the job in {request.folder} was already started")
        self._started.add((request.folder, request.array_offset))
        part = f"+{request.array_offset}" if request.array_offset else ""
        self.requests.append(request)
        self._jobs[request.folder] = JobStatus(
            job_id=request.job_id, state=JobState.RUNNING, started_s=0.0
        )
        if last := re.search(r"^exit (\d+)\n\Z", request.script, re.MULTILINE):
            self.end(request.folder, int(last[1]))
        return StartedJob(job_id=JobId(request.job_id + part), state=JobState.RUNNING)

    def test(self, request: SubmitRequest) -> Sequence[str]:
        """Note the request. Raises the refusal."""
        if self._refusal is not None:
            raise self._refusal
        self.requests.append(request)
        return ("it would start",)

    def end(self, folder: Path, exit_code: int) -> None:
        """The job in `folder` ends with this code."""
        self._jobs[folder] = replace(
            self._jobs[folder],
            state=JobState.FAILED if exit_code else JobState.COMPLETED,
            exit_code=exit_code,
            ended_s=1.0,
            reason=f"the script ended with exit code {exit_code}" if exit_code else None,
        )

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """The status of each job."""
        self.asked.append([job.job_id for job in jobs])
        return {job.submission: self._status(job.job_id, Path(job.folder)) for job in jobs}

    def detail(self, job: JobEntry, task: int | None = None) -> JobDetail | None:
        """What a test put there."""
        self.asked.append([job.job_id])
        return self.detailed

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """End the job, or remember the signal; gives the status before. Raises HpckitError."""
        job_id, folder = job.job_id, Path(job.folder)
        status = self._status(job_id, folder)
        if status.state.is_final:
            raise HpckitError(f"job {job_id} has already ended: {status.state}")
        if folder not in self._jobs:
            raise AdapterError(f"cannot cancel job {job_id}: {status.reason}")
        self.signals.append((job_id, signal_name))
        if signal_name in (None, "KILL"):
            number = 9 if signal_name == "KILL" else 15
            self._jobs[folder] = replace(
                status,
                state=JobState.CANCELLED,
                exit_code=128 + number,
                exit_signal=number,
                ended_s=1.0,
                reason="cancelled by a test",
            )
        return status

    def _status(self, job_id: JobId, folder: Path) -> JobStatus:
        if folder in self._jobs:
            return self._jobs[folder]
        if (folder / "intent.json").exists():
            return JobStatus(job_id=job_id, state=JobState.PENDING, reason="submission in progress")
        return JobStatus(
            job_id=job_id,
            state=JobState.UNKNOWN,
            is_lost=True,
            reason=f"{folder} does not exist",
        )
