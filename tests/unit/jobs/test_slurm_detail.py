"""What the accounts hold of one job, through sacct --json."""

from __future__ import annotations

import json

import pytest

from hpckit.core.errors import ToolTimeout
from hpckit.jobs.slurm_submit import SlurmSubmitter
from hpckit.slurm.values import JobDetail, JobEntry, JobId, JobState, submission_file
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Answer, ScriptedRunner, said

UUID = "0123456789abcdef" * 2
ENTRY = JobEntry(
    submission=UUID,
    job_id=JobId("46"),
    name="train",
    site="here",
    folder="/jobs/46",
    created_s=0.0,
    state=JobState.FAILED,
    cluster="north",
)


def run(submission: str | None = UUID, state: str = "FAILED", **more: object) -> dict[str, object]:
    """One run of a job in the accounts; None is a release that does not say whose it is."""
    line = {} if submission is None else {"submit_line": f"sbatch {submission_file(submission)}"}
    return {"job_id": 46, "state": {"current": [state]}, "nodes": "n1", **line, **more}


def detail_of(runner: ScriptedRunner, task: int | None = None) -> JobDetail | None:
    """The detail of the job."""
    return SlurmSubmitter(runner, FakeClock()).detail(ENTRY, task)


def answers(*runs: dict[str, object]) -> ScriptedRunner:
    """A sacct that knows of these runs."""
    return ScriptedRunner(sacct=[said(json.dumps({"jobs": runs}))])


def test_one_question_for_the_last_run() -> None:
    """The last run of several is told, and sacct asked once, on the job's cluster."""
    runner = answers(run(state="NODE_FAIL", partition="a"), run(partition="b"))
    detail = detail_of(runner)
    assert detail is not None
    assert (detail.record.state, detail.partition) == (JobState.FAILED, "b")
    assert runner.asked == [
        ("sacct", "--json", "--duplicates", "--clusters=north", "--jobs=46"),
    ]


def test_one_task_of_an_array() -> None:
    """A task is asked for by its own name, and another's answer is not taken."""
    array = {"job_id": 46, "task_id": {"set": True, "number": 3}}
    runner = answers(run(array=array))
    detail = detail_of(runner, 3)
    assert detail is not None
    assert detail.record.task_index == 3
    assert runner.asked[0][-1] == "--jobs=46_3"
    assert detail_of(answers(run(array=array)), 4) is None


def test_a_release_that_names_no_submission() -> None:
    """Where the accounts do not say whose job it is, the id has to do."""
    assert detail_of(answers(run(None))) is not None


@pytest.mark.parametrize("runs", [[run("f" * 32)], [run(state="RUNNING")], []])
def test_another_or_a_living_job_is_not_told(runs: list[dict[str, object]]) -> None:
    """A job of the same id that is somebody else's, one that runs again and none are no answer."""
    assert detail_of(answers(*runs)) is None


@pytest.mark.parametrize(
    "answer",
    [
        said("no JSON"),
        said(code=1, stderr="sacct: error: Problem talking to the database: Connection refused\n"),
        said(code=1, stderr="sacct: unrecognized option '--json'\n"),
        ToolTimeout(("sacct",), 5.0),
    ],
)
def test_no_answer_is_not_told(answer: Answer) -> None:
    """It is only an addition: what cannot be had is left out, and not asked for again."""
    runner = ScriptedRunner(sacct=[answer])
    assert detail_of(runner) is None
    assert runner.programs == ["sacct"]
