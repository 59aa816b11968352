from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hpckit.core.errors import AdapterError, HpckitError
from hpckit.jobs.local import LocalSubmitter
from hpckit.slurm.values import JobState
from tests.fakes.local_job import (
    cancel,
    job_request,
    kill_job,
    status_of,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the job folder will be; nothing of the job outlives the test."""
    yield tmp_path / "job"
    kill_job(tmp_path / "job")


@pytest.fixture
def submitter() -> LocalSubmitter:
    """A submitter with this Python."""
    return LocalSubmitter()


def test_a_reused_process_id_is_not_taken_for_the_job(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A living process with the recorded id but another start is neither the job nor signalled."""
    request = job_request(folder, "exit 0\n")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            own = psutil.Process(stranger.pid).create_time()
            write_run(folder, pid=stranger.pid, pid_started_s=own - 100, script_pid=stranger.pid)
            assert status_of(submitter, request).state is JobState.FAILED
            with pytest.raises(HpckitError, match="already ended"):
                cancel(submitter, request)
            assert stranger.poll() is None
            write_run(folder, pid=stranger.pid, pid_started_s=own)
            assert status_of(submitter, request).state is JobState.RUNNING
        finally:
            stranger.kill()


def test_a_clock_that_was_set_does_not_lose_the_job(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """A process is known by its start since boot, which a step of the wall clock leaves alone."""
    request = job_request(folder, "exit 0\n")
    own = psutil.Process().create_time()
    write_run(folder, pid=os.getpid(), pid_started_s=own + 3600, booted_s=psutil.boot_time() + 3600)
    assert status_of(submitter, request).state is JobState.RUNNING


def write_run(folder: Path, **fields: object) -> None:
    """A run.json of this host, with these fields changed."""
    run = {
        "schema": "hpckit.local-run/1",
        "host": socket.gethostname(),
        "pid": 1,
        "pid_started_s": 0.0,
        "booted_s": psutil.boot_time(),
        "script_sha256": "0" * 64,
        "started_s": time.time(),
        "kill_wait_s": 0.1,
        "script_pid": None,
        "script_pid_started_s": fields.get("pid_started_s") if "script_pid" in fields else None,
    }
    (folder / "run.json").write_text(json.dumps({**run, **fields}))


def test_a_job_of_another_host_is_unknown_here(submitter: LocalSubmitter, folder: Path) -> None:
    """run.json of another host gives UNKNOWN naming it, and cancel raises AdapterError."""
    request = job_request(folder, "exit 0\n")
    write_run(folder, host="node7")
    status = status_of(submitter, request)
    assert status.state is JobState.UNKNOWN
    assert status.reason == "it runs on node7; ask there"
    with pytest.raises(AdapterError, match="node7"):
        cancel(submitter, request)


DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("name", ["run.json", "result.json", "intent.json"])
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"schema": 3}', "\xff", '{"pid": "x"}', pytest.param(DEEP, id="deep")],
)
def test_a_damaged_record_is_unknown(
    submitter: LocalSubmitter, folder: Path, name: str, text: str
) -> None:
    """A record that is cut off or of another form gives UNKNOWN or PENDING, never an exception."""
    request = job_request(folder, "exit 0\n")
    (folder / name).write_bytes(text.encode("latin-1"))
    status = status_of(submitter, request)
    assert status.state in (JobState.UNKNOWN, JobState.PENDING)
    assert status.reason
    if name != "intent.json":
        assert name in status.reason


def test_an_intent_of_a_dead_submitter_was_never_submitted(
    submitter: LocalSubmitter, folder: Path
) -> None:
    """With intent.json alone: PENDING while the submitter lives, at most 60 s; then unsubmitted."""
    request = job_request(folder, "exit 0\n")
    intent = folder / "intent.json"
    alive = {
        "submitter_host": socket.gethostname(),
        "submitter_pid": os.getpid(),
        "submitter_started_s": psutil.Process().create_time(),
    }
    intent.write_text(json.dumps(alive))
    assert status_of(submitter, request).state is JobState.PENDING
    intent.write_text(json.dumps({**alive, "submitter_started_s": 1.0}))
    assert status_of(submitter, request).state is JobState.NOT_SUBMITTED
    intent.write_text(json.dumps({**alive, "submitter_started_s": 1.0, "submitter_host": "n7"}))
    assert status_of(submitter, request).state is JobState.PENDING
    intent.write_text(json.dumps(alive))
    os.utime(intent, (time.time() - 61, time.time() - 61))
    assert status_of(submitter, request).state is JobState.NOT_SUBMITTED
