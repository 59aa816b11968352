"""The implementations of each port that its contract is run on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpckit.core.files import Clock, SystemClock
from hpckit.core.process import (
    CommandListener,
    CommandResult,
    CommandRunner,
    ListeningRunner,
    ProcessRunner,
)
from hpckit.jobs.local import LocalSubmitter
from hpckit.jobs.parts import Submitter
from hpckit.jobs.slurm_submit import SlurmSubmitter
from tests.fakes.clock import FakeClock
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.local_job import kill_job
from tests.fakes.submitter import FakeSubmitter

SHARED = os.environ.get("HPCKIT_CONTRACT_SHARED")
"""A folder that login and compute nodes share: given by tests/cluster, which runs these suites on
the login host with Slurm itself behind the submitter."""
SCHEDULERS = ["slurm"] if SHARED else ["fake"]
"""The submitters that know job arrays."""
SPEAKING = ("sh", "-c", "echo out; echo err >&2; exit 3")
SLEEPING = ("sleep", "60")
SPEAKING_THEN_SLEEPING = ("bash", "-c", "echo first; echo second; exec sleep 60")


@pytest.fixture(params=SCHEDULERS if SHARED else ["local", *SCHEDULERS])
def submitter(request: pytest.FixtureRequest, job_folder: Path) -> Iterator[Submitter]:
    """Each Submitter; nothing of the job outlives the test."""
    if request.param == "slurm":
        yield SlurmSubmitter(ProcessRunner(), SystemClock())
        subprocess.run(["scancel", "--me"], check=True)
        return
    yield LocalSubmitter(sys.executable) if request.param == "local" else FakeSubmitter()
    kill_job(job_folder)


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    """Where the job folder will be: a path that a shell would split."""
    root = Path(tempfile.mkdtemp(dir=SHARED)) if SHARED else tmp_path
    return root / "jobs of 'me' $HOME 100%" / "one"


@pytest.fixture(params=["real", "fake"])
def command_runner(request: pytest.FixtureRequest) -> CommandRunner:
    """Each CommandRunner."""
    return ProcessRunner() if request.param == "real" else _fake_runner()


@pytest.fixture(params=["real", "fake"])
def command_listener(request: pytest.FixtureRequest) -> CommandListener:
    """Each CommandListener."""
    return ListeningRunner() if request.param == "real" else _fake_runner()


def _fake_runner() -> FakeCommandRunner:
    return FakeCommandRunner(
        {
            SPEAKING: CommandResult(returncode=3, stdout="out\n", stderr="err\n"),
            SLEEPING: CommandResult(returncode=0, stdout="", stderr=""),
            SPEAKING_THEN_SLEEPING: CommandResult(
                returncode=0, stdout="first\nsecond\n", stderr=""
            ),
        },
        duration_s={"sleep": 60.0, "bash": 60.0},
    )


@pytest.fixture(params=["real", "fake"])
def clock(request: pytest.FixtureRequest) -> Clock:
    """Each Clock."""
    return SystemClock() if request.param == "real" else FakeClock()
