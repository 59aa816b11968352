"""What every Submitter does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.errors import AdapterError, HpckitError, StorageFailed
from hpckit.model.slurm import JobId, JobState
from hpckit.ports import Submitter
from tests.fakes.local_job import (
    cancel,
    entry_of_request,
    final_status,
    job_request,
    processes_of,
    status_of,
    until,
)
from tests.fakes.submitter import FakeSubmitter


@pytest.mark.parametrize(("code", "state"), [(0, JobState.COMPLETED), (7, JobState.FAILED)])
def test_the_exit_code_decides_the_state(
    submitter: Submitter, job_folder: Path, code: int, state: JobState
) -> None:
    """A script that exits 0 gives COMPLETED, one that exits 7 gives FAILED with 7."""
    request = job_request(job_folder, f"exit {code}\n")
    submitter.submit(request)
    status = final_status(submitter, request)
    assert (status.state, status.exit_code, status.exit_signal) == (state, code, None)
    assert status.started_s is not None
    assert status.ended_s is not None
    assert status.ended_s >= status.started_s


def test_a_submitted_job_runs(submitter: Submitter, job_folder: Path) -> None:
    """When submit returns, a job that does not end by itself is RUNNING, without a code."""
    request = job_request(job_folder, "exec sleep 60\n")
    submitter.submit(request)
    status = status_of(submitter, request)
    assert (status.state, status.exit_code) == (JobState.RUNNING, None)


@pytest.mark.parametrize(("name", "number"), [(None, 15), ("KILL", 9)])
def test_a_cancelled_job_ends(
    submitter: Submitter, job_folder: Path, name: str | None, number: int
) -> None:
    """Cancelling gives CANCELLED with the signal that ended the script, and no process is left."""
    request = job_request(job_folder, "exec sleep 60\n")
    submitter.submit(request)
    cancel(submitter, request, name)
    status = final_status(submitter, request)
    assert status.state is JobState.CANCELLED
    assert (status.exit_code, status.exit_signal) == (128 + number, number)
    assert status.reason
    assert not processes_of(job_folder)


def test_a_job_that_has_ended_cannot_be_cancelled(submitter: Submitter, job_folder: Path) -> None:
    """Cancelling a job after its end raises HpckitError with its state."""
    request = job_request(job_folder, "exit 0\n")
    submitter.submit(request)
    final_status(submitter, request)
    with pytest.raises(HpckitError, match="L0000cafe has already ended: COMPLETED"):
        cancel(submitter, request)


def test_a_job_is_started_once(submitter: Submitter, job_folder: Path) -> None:
    """A second submission of the same folder raises AdapterError."""
    request = job_request(job_folder, "exit 0\n")
    submitter.submit(request)
    final_status(submitter, request)
    with pytest.raises(AdapterError, match="started already"):
        submitter.submit(request)


def test_a_job_without_a_script_is_not_started(submitter: Submitter, job_folder: Path) -> None:
    """A folder without job.sbatch raises StorageFailed, and the job stays unsubmitted."""
    request = job_request(job_folder, "")
    (job_folder / "job.sbatch").unlink()
    with pytest.raises(StorageFailed, match=r"job\.sbatch"):
        submitter.submit(request)
    assert status_of(submitter, request).state is JobState.PENDING


def test_every_job_asked_about_is_answered(submitter: Submitter, job_folder: Path) -> None:
    """A folder that is not there is UNKNOWN for good with a reason, and hides no other."""
    request = job_request(job_folder, "exit 0\n")
    gone = replace(
        entry_of_request(request),
        submission="f" * 32,
        job_id=JobId("Lffffffff"),
        folder=str(job_folder / "gone"),
    )
    answers = submitter.statuses([entry_of_request(request), gone])
    assert answers[gone.submission].state is JobState.UNKNOWN
    assert answers[gone.submission].is_lost
    assert answers[gone.submission].reason
    assert answers[request.submission].state is JobState.PENDING


def test_a_signal_does_not_end_the_job(submitter: Submitter, job_folder: Path) -> None:
    """A job that is sent a signal goes on when its script handles it."""
    request = job_request(job_folder, "trap '' USR1\ntouch ready\nexec sleep 60\n")
    submitter.submit(request)
    until(lambda: isinstance(submitter, FakeSubmitter) or (job_folder / "ready").exists())
    cancel(submitter, request, "USR1")
    assert status_of(submitter, request).state is JobState.RUNNING
