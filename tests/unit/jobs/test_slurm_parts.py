"""How an array in parts is, when Slurm's commands list all of it, some of it, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.jobs.status import CONFIRM_S, FAR_CONFIRM_S
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState, submission_file
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import ScriptedRunner, row, said
from tests.unit.jobs.test_slurm_status import an_entry, asked, uuid_of

TIMES = ("2026-11-21T06:00:00", "2026-11-21T06:00:05")
UNKNOWN_ID = JobId(f"U{uuid_of(1)[:8]}")


def an_array(tmp_path: Path, *ids: str, age_s: float = 1000.0) -> JobEntry:
    """Tasks 0-24 in parts of ten; those without an id are not confirmed."""
    entry = an_entry(tmp_path, age_s=age_s)
    effective = {"job": {"slurm": {"array": "0-24"}}}
    (Path(entry.folder) / "effective.json").write_text(json.dumps(effective))
    known = [*map(JobId, ids), *[UNKNOWN_ID] * (3 - len(ids))]
    parts = tuple(JobPart(offset=at * 10, job_id=one) for at, one in enumerate(known))
    return replace(entry, job_id=known[0], parts=parts)


def queued(job: str, offset: int, state: str = "RUNNING") -> str:
    """What squeue lists of a part."""
    path = f"/jobs/{submission_file(uuid_of(1), offset)}"
    return row(job, state, "None", *TIMES, "c1", path)


def accounted(job: str, offset: int, state: str = "COMPLETED", code: str = "0:0") -> str:
    """What sacct lists of a part."""
    path = f"sbatch --array=0-9 /jobs/{submission_file(uuid_of(1), offset)}"
    return row(job, state, code, *TIMES, "c1", "None", path)


def ended(job: str, offset: int, count: int) -> str:
    """What sacct lists of a part of which every task is complete."""
    return "".join(accounted(f"{job}_{task}", offset) for task in range(count))


def test_parts_are_one_question_and_one_more(tmp_path: Path) -> None:
    """All parts are asked about at once, and their tasks are numbered in the whole."""
    listed = ended("4242", 0, 10) + accounted("4243_5", 10, "FAILED", "3:0") + ended("4244", 20, 5)
    runner = ScriptedRunner(squeue=[said("")], sacct=[said(listed)])
    (status,) = asked(runner, [an_array(tmp_path, "4242", "4243", "4244")])
    assert (status.job_id, status.state, status.exit_code) == ("4242", JobState.FAILED, 3)
    assert [task.task_index for task in status.tasks] == [*range(10), 15, *range(20, 25)]
    assert "not listed: 10-14,16-19 (never started)" in str(status.reason)
    assert runner.programs == ["squeue", "sacct"]
    assert "--jobs=4242,4243,4244" in runner.asked[1]


def test_waiting_parts_are_each_counted(tmp_path: Path) -> None:
    """Tasks that Slurm lists together are taken apart by the offset of their part."""
    listed = queued("4242_3", 0) + queued("4243_[0-9]", 10, "PENDING")
    runner = ScriptedRunner(squeue=[said(listed)])
    (status,) = asked(runner, [an_array(tmp_path, "4242", "4243", "4244")])
    assert status.state is JobState.RUNNING
    assert [task.slurm_id for task in status.tasks][:3] == ["4242_3", "4243_0", "4243_1"]
    assert [task.task_index for task in status.tasks] == [3, *range(10, 20)]


def test_a_part_that_was_not_recorded_is_found(tmp_path: Path) -> None:
    """Of a part that Slurm took before hpckit was killed, the lowest id with its offset is it."""
    listed = queued("4242_0", 0) + queued("4250_0", 10) + queued("4249_0", 10)
    (status,) = asked(ScriptedRunner(squeue=[said(listed)]), [an_array(tmp_path, "4242")])
    assert [part.job_id for part in status.parts] == ["4242", "4249", UNKNOWN_ID]


def test_a_recorded_part_is_known_by_its_id(tmp_path: Path) -> None:
    """A part that somebody submitted again by hand is not taken for the job's own."""
    listed = ended("4242", 0, 10) + ended("4250", 10, 10) + ended("4244", 20, 5)
    runner = ScriptedRunner(squeue=[said("")], sacct=[said(listed)])
    (status,) = asked(runner, [an_array(tmp_path, "4242", "4243", "4244")])
    assert "not listed: 10-19" in str(status.reason)


@pytest.mark.parametrize(
    ("age_s", "recorded_ago_s", "state"),
    [
        (CONFIRM_S, None, JobState.UNKNOWN),
        (FAR_CONFIRM_S + 1, CONFIRM_S, JobState.UNKNOWN),
        (FAR_CONFIRM_S + 1, FAR_CONFIRM_S + 1, JobState.CANCELLED),
    ],
)
def test_parts_may_come_until_it_is_certain(
    tmp_path: Path, age_s: float, recorded_ago_s: float | None, state: JobState
) -> None:
    """While a part may still come, what has ended is no end; then the rest was never submitted."""
    entry = an_array(tmp_path, "4242", age_s=age_s)
    if recorded_ago_s is not None:
        document = {"submitted_s": FakeClock().now_s() - recorded_ago_s}
        (Path(entry.folder) / "submitted.json").write_text(json.dumps(document))
    runner = ScriptedRunner(squeue=[said("")], sacct=[said(ended("4242", 0, 10))])
    (status,) = asked(runner, [entry])
    assert status.state is state
    expected = "never submitted" if state.is_final else "more tasks may follow"
    assert "not listed: 10-24" in str(status.reason)
    assert expected in str(status.reason)


def test_without_accounts_every_part_is_shown(tmp_path: Path) -> None:
    """Where no accounts are kept, scontrol is asked for the codes of each part."""
    listed = "".join(queued(f"424{2 + at}_0", at * 10, "FAILED") for at in range(3))
    disabled = said(code=1, stderr="Slurm accounting storage is disabled\n")
    runner = ScriptedRunner(squeue=[said(listed)], sacct=[disabled], scontrol=[said("")])
    asked(runner, [an_array(tmp_path, "4242", "4243", "4244")])
    assert [argv[-1] for argv in runner.asked if argv[0] == "scontrol"] == ["4242", "4243", "4244"]
