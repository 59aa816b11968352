"""Jobs of a Slurm whose commands are scripts that print what a test says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit import wiring
from hpckit.jobs.draft import PackedJobFolders
from hpckit.jobs.submit import SubmitTools, submit
from hpckit.slurm.values import JobEntry, JobId, JobState
from tests.fakes.packed import PACKED
from tests.fakes.prepared import prepared
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import nothing_held

RUNS = ("RUNNING", "None", "2026-11-21T06:00:00", "N/A", "c1")
WAITS = ("PENDING", "Priority", "2030-01-01T00:00:00", "N/A", "")
HOPELESS = ("PENDING", "PartitionTimeLimit", "2030-01-01T00:00:00", "N/A", "")
FAILED = ("FAILED", "NonZeroExitCode", "2026-11-21T06:00:00", "2026-11-21T06:00:02", "c1")
COMPLETED = ("COMPLETED", "None", "2026-11-21T06:00:00", "2026-11-21T06:00:02", "c1")
CANCELLED = ("CANCELLED", "None", "2026-11-21T06:00:00", "2026-11-21T06:00:00", "")

SlurmJob = Callable[..., JobEntry]


@pytest.fixture
def slurm_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmJob:
    """Gives job 46 of which squeue lists these rows: its name there → state and what follows."""
    commands(tmp_path, monkeypatch)

    def make(rows: dict[str, tuple[str, ...]] | None = None, array: str | None = None) -> JobEntry:
        entry = _entry(tmp_path / "jobs", array)
        script = f"/jobs/submission-{entry.submission}.sbatch"
        listing = "".join(
            "\x1f".join((name, *words, script)) + "\n" for name, words in (rows or {}).items()
        )
        (tmp_path / "listing").write_text(listing)
        return entry

    return make


def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str = "echo 46") -> None:
    """Slurm's commands, first on PATH; squeue prints the file `listing`."""
    folder = tmp_path / "slurm"
    folder.mkdir(exist_ok=True)
    (tmp_path / "listing").touch()
    for name, text in (
        ("squeue", f"cat {tmp_path}/listing"),
        ("sacct", "exit 0"),
        ("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"),
        ("sbatch", sbatch),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def _entry(root: Path, array: str | None) -> JobEntry:
    tools = SubmitTools(
        submitter=FakeSubmitter(),
        folders=PackedJobFolders(PACKED),
        index=wiring.job_index(),
        clock=wiring.clock(),
        interrupts_held=nothing_held,
    )
    options = {} if array is None else {"slurm.array": array}
    job = prepared(command=("train",), options=options)
    job = replace(job, site=replace(job.site, job_root=str(root)))
    made = submit(job, wiring.caller(), tools).entry
    # Older than the time in which Slurm may not list a job yet.
    entry = replace(made, job_id=JobId("46"), state=JobState.RUNNING, created_s=time.time() - 1000)
    wiring.job_index().update([entry])
    return entry
