"""The packed archive, started as the batch script starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.packed import packed

Start = Callable[..., "subprocess.Popen[bytes]"]
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
MEASURED = {name: value for name, value in os.environ.items() if name == "COVERAGE_PROCESS_CONFIG"}


@pytest.fixture(scope="session")
def archive() -> Path:
    """The in-job archive."""
    return packed()


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    """A job folder with its logs folder."""
    (tmp_path / "job" / "logs").mkdir(parents=True)
    return tmp_path / "job"


@pytest.fixture
def start(archive: Path) -> Start:
    """Start the archive, after the words of `via`, in a bare environment, its outputs apart."""

    def start_archive(
        *words: str, env: Mapping[str, str] = {}, via: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            [*via, sys.executable, "-I", str(archive), *words],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **MEASURED, **env},
            **options,
        )

    return start_archive


@pytest.fixture
def run(start: Start) -> Run:
    """Run the archive to its end."""

    def run_archive(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        with start(*words, **options) as process:
            out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return run_archive


@pytest.fixture
def rank_env(job_folder: Path) -> dict[str, str]:
    """Rank 3 of 4 as srun leaves it, with a job folder."""
    return {
        "HPCKIT_JOB_FOLDER": str(job_folder),
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "4",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_TASKS_PER_NODE": "2(x2)",
    }
