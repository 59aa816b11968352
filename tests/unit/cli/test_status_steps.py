"""Which steps of a job failed, as `status` shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.cli_jobs import call, document, words
from tests.fakes.slurm_jobs import CANCELLED, COMPLETED, FAILED, RUNS, SlurmJob, slurm_job
from tests.fakes.slurm_records import RECORDS

__all__ = ["slurm_job"]

CAPTURE = RECORDS / "sacct-json-24.11.5" / "two-nodes" / "output.txt"


def answering(tmp_path: Path, steps: int | None = None) -> None:
    """Have sacct tell a captured job as job 46, with one step again and again."""
    answer = json.loads(CAPTURE.read_text())
    (job,) = answer["jobs"]
    job["job_id"] = 46
    if steps is not None:
        job["steps"] = [job["steps"][3]] * steps
    (tmp_path / "detail").write_text(json.dumps(answer))
    sacct = f'case "$*" in *--json*) echo >>{tmp_path}/asked; cat {tmp_path}/detail;; esac'
    (tmp_path / "slurm" / "sacct").write_text(f"#!/bin/sh\n{sacct}\n")


def shown() -> str:
    """What `status` prints, on one line."""
    return words(call("status", "46").stdout)


def test_the_steps_that_failed_are_shown(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """Each step that ended badly, its code and, of an srun, its nodes; no other step."""
    slurm_job({"46": FAILED})
    answering(tmp_path)
    steps = "steps batch FAILED 7 · 1 FAILED 7 on c[3-4] · 2 CANCELLED 137 on c3 nodes"
    assert steps in shown()


def test_many_steps_are_counted(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """The first six are shown, the rest is a number."""
    slurm_job({"46": FAILED})
    answering(tmp_path, steps=9)
    assert shown().count("1 FAILED 7 on") == 6
    assert "· 3 more nodes" in shown()


def test_the_document_has_the_detail(slurm_job: SlurmJob, tmp_path: Path) -> None:
    """`status --json` has what the job was given, and every step."""
    slurm_job({"46": FAILED})
    answering(tmp_path)
    detail = document("status", "--json", "46")["detail"]
    assert (detail["partition"], detail["qos"], detail["restarts"]) == ("main", "normal", 0)
    assert detail["tres_allocated"]["gres/gpu"] == 4
    assert [step["step"] for step in detail["steps"]] == ["batch", "extern", "0", "1", "2"]
    assert (detail["steps"][3]["state"], detail["steps"][3]["exit_code"]) == ("FAILED", 7)


def test_without_an_answer_the_rest_is_told(slurm_job: SlurmJob) -> None:
    """Where sacct says nothing of it, the screen is as it was, and the key is null."""
    slurm_job({"46": FAILED})
    assert "FAILED" in shown()
    assert "steps" not in shown()
    assert document("status", "--json", "46")["detail"] is None


@pytest.mark.parametrize("row", [RUNS, COMPLETED, CANCELLED])
def test_other_jobs_cost_no_question(
    slurm_job: SlurmJob, tmp_path: Path, row: tuple[str, ...]
) -> None:
    """The steps of a job that lives, completed or was cancelled are not asked for."""
    slurm_job({"46": row})
    answering(tmp_path)
    assert document("status", "--json", "46")["detail"] is None
    assert not (tmp_path / "asked").exists()
