"""How a job ended is kept in its folder, and asked for once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.jobs.track import recalled_end, record_end
from hpckit.slurm.values import JobEntry, JobId, JobRecord, JobState, JobStatus
from hpckit.spec.store import FileJobFolders
from tests.fakes.world import entry_of

FOLDERS = FileJobFolders()
TASK = JobRecord(job_id=JobId("7"), task_index=3, state=JobState.FAILED, raw="FAILED", exit_code=2)
ENDED = JobStatus(
    job_id=JobId("7"),
    state=JobState.FAILED,
    exit_code=2,
    started_s=1.5,
    ended_s=3.0,
    nodelist="c1",
    raw="FAILED",
    tasks=(TASK,),
)


def an_entry(folder: Path, state: JobState = JobState.FAILED) -> JobEntry:
    """The line of a job that ended."""
    return entry_of("7", folder, state, exit_code=2)


def test_an_end_comes_back_as_it_was(tmp_path: Path) -> None:
    """Every field of a final status is in the folder, tasks too."""
    record_end(an_entry(tmp_path), ENDED, FOLDERS)
    assert recalled_end(an_entry(tmp_path), FOLDERS) == ENDED
    assert json.loads((tmp_path / "result.json").read_text())["schema"] == "hpckit.result/1"


def test_a_job_that_the_index_knows_living_is_asked_about(tmp_path: Path) -> None:
    """A job that was requeued since, or whose id is another, is not told from its folder."""
    record_end(an_entry(tmp_path), ENDED, FOLDERS)
    assert recalled_end(an_entry(tmp_path, JobState.PENDING), FOLDERS) is None
    assert recalled_end(replace(an_entry(tmp_path), job_id=JobId("8")), FOLDERS) is None


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.NOT_SUBMITTED, JobState.UNKNOWN])
def test_what_can_change_is_not_kept(tmp_path: Path, state: JobState) -> None:
    """Only the end of a job is kept; a submission without a job can still be found."""
    record_end(an_entry(tmp_path), replace(ENDED, state=state), FOLDERS)
    assert not (tmp_path / "result.json").exists()


def test_what_ran_the_job_knows_best(tmp_path: Path) -> None:
    """The record that a local job's supervisor wrote stays, and is read by its own reader."""
    (tmp_path / "result.json").write_text('{"schema": "hpckit.local-result/1"}')
    record_end(an_entry(tmp_path), ENDED, FOLDERS)
    assert recalled_end(an_entry(tmp_path), FOLDERS) is None
    assert "local-result" in (tmp_path / "result.json").read_text()


@pytest.mark.parametrize("text", ["", "{", '{"schema": "hpckit.result/1", "state": 3}', "[1]"])
def test_a_damaged_record_is_no_answer(tmp_path: Path, text: str) -> None:
    """A record that cannot be read is as none, and is written anew."""
    (tmp_path / "result.json").write_text(text)
    assert recalled_end(an_entry(tmp_path), FOLDERS) is None


def test_a_folder_that_is_gone_hides_nothing(tmp_path: Path) -> None:
    """Where nothing can be written, nothing is, and that is no error."""
    record_end(an_entry(tmp_path / "gone"), ENDED, FOLDERS)
    assert recalled_end(an_entry(tmp_path / "gone"), FOLDERS) is None
