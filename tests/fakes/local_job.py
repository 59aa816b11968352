"""Job folders with a script of a few lines, and waiting for what a script does."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from hpckit.jobs.parts import Submitter
from hpckit.jobs.process_tree import kill_tree
from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus, StartedJob, SubmitRequest


def job_request(
    folder: Path,
    script: str,
    *,
    environment: Mapping[str, str] | None = None,
    time_limit_s: int | None = None,
    kill_wait_s: float = 0.5,
    workdir: Path | None = None,
    submission: str = "0000cafe" + "0" * 24,
) -> SubmitRequest:
    """A prepared job in a new folder; its environment is the test's and `environment`."""
    (folder / "logs").mkdir(parents=True, mode=0o700)
    text = f"#!/bin/bash\n{script}"
    (folder / "job.sbatch").write_text(text)
    (folder / "intent.json").write_text(json.dumps({"schema": "hpckit.intent/1"}))
    return SubmitRequest(
        submission=submission,
        job_id=JobId(f"L{submission[:8]}"),
        begun_s=time.time(),
        folder=folder,
        script=text,
        workdir=workdir or folder,
        environment={
            **os.environ,
            "HPCKIT_JOB_FOLDER": str(folder),
            **(environment or {}),
        },
        time_limit_s=time_limit_s,
        kill_wait_s=kill_wait_s,
    )


def until(fact: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Return when `fact` holds. Raises AssertionError after `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def entry_of_request(request: SubmitRequest, started: StartedJob | None = None) -> JobEntry:
    """The line of the index for a request and what became of it."""
    return JobEntry(
        submission=request.submission,
        job_id=request.job_id if started is None else started.job_id,
        name="train",
        site="local",
        folder=str(request.folder),
        created_s=request.begun_s,
        state=JobState.PENDING,
    )


def status_of(submitter: Submitter, request: SubmitRequest) -> JobStatus:
    """The status of one job."""
    return submitter.statuses([entry_of_request(request)])[request.submission]


def cancel(submitter: Submitter, request: SubmitRequest, signal_name: str | None = None) -> None:
    """Cancel the job of a request."""
    submitter.cancel(entry_of_request(request), signal_name)


def final_status(submitter: Submitter, request: SubmitRequest) -> JobStatus:
    """The status of one job when it has ended."""
    until(lambda: status_of(submitter, request).state.is_final)
    return status_of(submitter, request)


def processes_of(folder: Path) -> list[psutil.Process]:
    """The living processes that carry this job's folder in their environment."""
    return [process for process in psutil.process_iter() if _belongs(process, folder)]


def kill_job(folder: Path) -> None:
    """Kill what a test left running: the supervisor with all below it, and what has left that."""
    with contextlib.suppress(
        OSError, ValueError, KeyError, TypeError, RecursionError, psutil.Error
    ):
        pid = json.loads((folder / "run.json").read_text())["pid"]
        # The records of some tests name other processes.
        if "submitit.core._submit" in psutil.Process(pid).cmdline():
            kill_tree(pid)
    for process in processes_of(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()


def log_of(folder: Path) -> bytes:
    """The job's merged output so far."""
    log = folder / "logs" / "job.log"
    return log.read_bytes() if log.exists() else b""


def run_of(folder: Path) -> dict[str, object]:
    """The content of run.json."""
    return dict(json.loads((folder / "run.json").read_text()))


def says(folder: Path, word: bytes) -> None:
    """Return when the job has printed a word."""
    until(lambda: word in log_of(folder))


def supervisor_of(folder: Path) -> psutil.Process:
    """The process that watches the job."""
    return psutil.Process(int(str(run_of(folder)["pid"])))


def _belongs(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get("HPCKIT_JOB_FOLDER") == str(folder)
    return False
