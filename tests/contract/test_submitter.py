"""What every Submitter does."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import AdapterError, HpckitError
from hpckit.jobs.parts import Submitter
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState, JobStatus, SubmitRequest
from tests.contract.conftest import SCHEDULERS
from tests.fakes.local_job import entry_of_request, job_request, processes_of, until
from tests.fakes.submitter import FakeSubmitter

START_S = 60.0


def a_request(folder: Path, script: str) -> SubmitRequest:
    """A prepared job of a submission that was never seen before."""
    return job_request(folder, script, submission=uuid.uuid4().hex)


def started(submitter: Submitter, request: SubmitRequest) -> JobEntry:
    """The line of the index for a job that was started."""
    return entry_of_request(request, submitter.submit(request))


def status_of(submitter: Submitter, job: JobEntry) -> JobStatus:
    """The status of one job."""
    return submitter.statuses([job])[job.submission]


def reached(submitter: Submitter, job: JobEntry, *states: JobState) -> JobStatus:
    """The status of a job that comes to one of these states."""
    until(lambda: status_of(submitter, job).state in states, START_S)
    return status_of(submitter, job)


def final(submitter: Submitter, job: JobEntry) -> JobStatus:
    """The status of a job when it has ended."""
    until(lambda: status_of(submitter, job).state.is_final, START_S)
    return status_of(submitter, job)


@pytest.mark.parametrize(("code", "state"), [(0, JobState.COMPLETED), (7, JobState.FAILED)])
def test_the_exit_code_decides_the_state(
    submitter: Submitter, job_folder: Path, code: int, state: JobState
) -> None:
    """A script that exits 0 gives COMPLETED, one that exits 7 gives FAILED with 7."""
    job = started(submitter, a_request(job_folder, f"exit {code}\n"))
    status = final(submitter, job)
    assert (status.state, status.exit_code, status.exit_signal) == (state, code, None)
    assert status.started_s is not None
    assert status.ended_s is not None
    assert status.ended_s >= status.started_s


def test_a_submitted_job_runs(submitter: Submitter, job_folder: Path) -> None:
    """A job that does not end by itself comes to be RUNNING, without a code."""
    job = started(submitter, a_request(job_folder, "exec sleep 60\n"))
    status = reached(submitter, job, JobState.RUNNING)
    assert (status.job_id, status.exit_code) == (job.job_id, None)
    # The detail is of jobs that have ended; it raises nothing of others.
    assert submitter.detail(job) is None


@pytest.mark.parametrize(("name", "number"), [(None, 15), ("KILL", 9)])
def test_a_cancelled_job_ends(
    submitter: Submitter, job_folder: Path, name: str | None, number: int
) -> None:
    """Cancelling gives CANCELLED and no other signal than was sent, and no process is left."""
    job = started(submitter, a_request(job_folder, "exec sleep 60\n"))
    reached(submitter, job, JobState.RUNNING)
    submitter.cancel(job, name)
    status = final(submitter, job)
    assert status.state is JobState.CANCELLED
    # Slurm records no code for most jobs that it cancelled.
    assert (status.exit_code, status.exit_signal) in ((128 + number, number), (None, None))
    assert status.reason
    assert not processes_of(job_folder)


def test_a_job_that_has_ended_cannot_be_cancelled(submitter: Submitter, job_folder: Path) -> None:
    """Cancelling a job after its end raises HpckitError with its state."""
    job = started(submitter, a_request(job_folder, "exit 0\n"))
    final(submitter, job)
    with pytest.raises(HpckitError, match=f"{job.job_id} has already ended: COMPLETED"):
        submitter.cancel(job, None)


def test_a_job_is_started_once(submitter: Submitter, job_folder: Path) -> None:
    """A second submission of the same folder raises AdapterError."""
    request = a_request(job_folder, "exit 0\n")
    final(submitter, started(submitter, request))
    with pytest.raises(AdapterError, match="already"):
        submitter.submit(request)


@pytest.mark.parametrize("submitter", SCHEDULERS, indirect=True)
def test_parts_of_an_array_are_one_job(submitter: Submitter, job_folder: Path) -> None:
    """Two parts of one submission have an id each, and are asked about as the one job they are."""
    whole = replace(a_request(job_folder, "exit 0\n"), is_array=True)
    requests = [
        replace(whole, array_part="0-1", array_offset=offset, begun_s=whole.begun_s)
        for offset in (0, 101)
    ]
    ids = [submitter.submit(request).job_id for request in requests]
    assert len(set(ids)) == 2
    parts = tuple(
        JobPart(offset=offset, job_id=job_id) for offset, job_id in zip((0, 101), ids, strict=True)
    )
    status = final(submitter, replace(entry_of_request(whole), job_id=ids[0], parts=parts))
    assert (status.job_id, status.state) == (ids[0], JobState.COMPLETED)


def test_no_other_text_runs(submitter: Submitter, job_folder: Path) -> None:
    """What runs is the text in memory, or nothing (126), whatever job.sbatch was made into."""
    request = a_request(job_folder, "exit 7\n")
    (job_folder / "job.sbatch").write_text("#!/bin/bash\nexit 0\n")
    assert final(submitter, started(submitter, request)).exit_code in (7, 126)


def test_every_job_asked_about_is_answered(submitter: Submitter, job_folder: Path) -> None:
    """Jobs that nobody can know of are UNKNOWN with a reason, and hide no other."""
    job = started(submitter, a_request(job_folder, "exec sleep 60\n"))
    reached(submitter, job, JobState.RUNNING)
    other = entry_of_request(a_request(job_folder.with_name("gone"), ""))
    gone = replace(
        other,
        job_id=JobId(f"U{other.submission[:8]}"),
        folder=str(job_folder / "gone"),
        state=JobState.UNKNOWN,
    )
    answers = submitter.statuses([job, gone])
    assert answers[gone.submission].state is JobState.UNKNOWN
    assert answers[gone.submission].reason
    assert answers[job.submission].state is JobState.RUNNING


def test_a_signal_does_not_end_the_job(submitter: Submitter, job_folder: Path) -> None:
    """A job that is sent a signal goes on when its script handles it."""
    ready = job_folder / "ready"
    script = f"trap '' USR1\ntouch {shlex.quote(str(ready))}\nexec sleep 60\n"
    job = started(submitter, a_request(job_folder, script))
    until(lambda: isinstance(submitter, FakeSubmitter) or ready.exists(), START_S)
    submitter.cancel(job, "USR1")
    assert status_of(submitter, job).state is JobState.RUNNING
