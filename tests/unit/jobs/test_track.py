"""Submitted jobs are found, asked about, listed and cancelled, and how they ended is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import HpckitError
from hpckit.jobs.parts import Submitter
from hpckit.jobs.track import (
    cancel_targets,
    find_job,
    find_task,
    job_detail,
    job_status,
    job_statuses,
    list_jobs,
    recalled_end,
    record_end,
)
from hpckit.slurm.values import (
    JobDetail,
    JobEntry,
    JobId,
    JobRecord,
    JobState,
    JobStatus,
    StepRecord,
)
from hpckit.spec.store import FileJobFolders
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.tracked import RUNS, ToldSubmitter, intended, running
from tests.fakes.world import entry_of, tracking


def index_with(*ids: str) -> TemporaryJobIndex:
    """An index of jobs of which no folder exists, each a second younger than the one before."""
    index = TemporaryJobIndex()
    for at, job_id in enumerate(ids):
        index.add(entry_of(job_id, Path("/gone") / job_id, created_s=float(at)))
    return index


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("Lab12", "Lab12"), ("ab12", "Lab12"), ("Lab", "Lab12"), ("ab", "Lab12"), (None, "Lcd34")],
)
def test_a_job_is_found_by_any_beginning_of_its_id(wanted: str | None, found: str) -> None:
    """The whole id, a beginning of it, and either without the L; without an id the newest job."""
    assert find_job(index_with("Lab12", "Lcd34"), wanted).job_id == found


@pytest.mark.parametrize(
    ("ids", "wanted", "said"),
    [
        ((), None, "no job has been submitted yet"),
        (("Lab12",), "", "invalid job ID"),
        (("Lab12",), "\t", "invalid job ID"),
        (("Lab12",), "Lxx", "no job 'Lxx' was submitted from here with hpckit"),
        (("1234", "L1234"), "12", "no job '12'"),
    ],
)
def test_what_names_no_job_is_refused(ids: tuple[str, ...], wanted: str | None, said: str) -> None:
    """An unset variable, an id of none, and the beginning of a number, which is another's id."""
    with pytest.raises(HpckitError, match=said):
        find_job(index_with(*ids), wanted)


def test_an_ambiguous_id_names_the_candidates() -> None:
    """A beginning of two ids is refused and both are named; a whole id is never ambiguous."""
    index = index_with("Lab12", "Lab13", "Lab1")
    with pytest.raises(HpckitError, match="more than one job: Lab13, Lab12"):
        find_job(index_with("Lab12", "Lab13"), "Lab")
    assert find_job(index, "Lab1").job_id == "Lab1"


def test_many_candidates_are_counted() -> None:
    """Five are named, the newest first, the others counted, and what to do is said."""
    index = index_with(*(f"La{number}" for number in range(7)))
    with pytest.raises(HpckitError) as caught:
        find_job(index, "La")
    assert caught.value.message.endswith("job: La6, La5, La4, La3, La2 and 2 more")
    assert caught.value.hint == "give more of the job ID; hpckit jobs lists them"


def test_an_id_that_its_cluster_used_again_is_the_newest() -> None:
    """Of several jobs of one id and one cluster the newest is meant."""
    index = TemporaryJobIndex()
    index.add(entry_of("4242", Path("/old"), created_s=1.0, submission="a" * 32))
    index.add(entry_of("4242", Path("/new"), created_s=2.0, submission="b" * 32))
    assert find_job(index, "4242").folder == "/new"


def test_one_id_on_two_clusters_must_be_told_apart() -> None:
    """An id of two clusters is refused, and ID;CLUSTER names one of them."""
    index = TemporaryJobIndex()
    for name in ("north", "south"):
        line = entry_of("4242", Path("/jobs") / name, submission=name[0] * 32)
        index.add(replace(line, cluster=name))
    with pytest.raises(HpckitError, match="more than one job: 4242;south, 4242;north"):
        find_job(index, "4242")
    assert find_job(index, "4242;south").cluster == "south"


def test_a_submission_keeps_the_name_that_it_had() -> None:
    """A job that Slurm has confirmed since is still found as U and its uuid's beginning."""
    index = TemporaryJobIndex()
    index.add(entry_of("4242", Path("/a"), submission="0123abcd" + "0" * 24))
    assert find_job(index, "U0123abcd").job_id == "4242"


@pytest.mark.parametrize(
    ("wanted", "task"), [("4242_7", 7), ("4242_0", 0), ("4242", None), (None, None)]
)
def test_a_task_is_named_as_slurm_does(wanted: str | None, task: int | None) -> None:
    """What follows the id after an underscore is the task of an array."""
    entry, found = find_task(index_with("4242"), wanted)
    assert (entry.job_id, found) == ("4242", task)


def test_a_changed_state_is_remembered(tmp_path: Path) -> None:
    """Asking for a status writes a new state to the index, and none when nobody knows."""
    index, submitter = TemporaryJobIndex(), FakeSubmitter()
    tools = tracking(submitter, index)
    entry = running(submitter, tmp_path / "a")
    index.add(entry)
    index.add(entry_of("Lbb", tmp_path / "gone", JobState.RUNNING))
    assert job_status(entry, tools).state is JobState.RUNNING
    assert job_status(index.find("Lbb")[0], tools).state is JobState.UNKNOWN
    assert {one.job_id: one.state for one in index.latest(None)} == {
        "Laa": JobState.RUNNING,
        "Lbb": JobState.RUNNING,
    }


def test_a_confirmed_id_is_remembered(tmp_path: Path) -> None:
    """An answer that says under which id Slurm has the job is kept in index and submitted.json."""
    entry = entry_of("U0000cafe", tmp_path / "a", JobState.UNKNOWN)
    intended(entry)
    index = TemporaryJobIndex()
    index.add(entry)
    status = job_status(entry, tracking(ToldSubmitter(replace(RUNS, cluster="west")), index))
    assert status.job_id == "4242"
    assert index.latest(None) == [
        replace(entry, job_id=JobId("4242"), cluster="west", state=JobState.RUNNING)
    ]
    record = json.loads((tmp_path / "a" / "submitted.json").read_text())
    assert (record["job_id"], record["cluster"]) == ("4242", "west")


def test_jobs_of_one_submitter_are_one_question(tmp_path: Path) -> None:
    """Each submitter is asked once about all its jobs, and the answers keep the jobs' order."""
    here, there = FakeSubmitter(), FakeSubmitter()
    entries = [
        running(here, tmp_path / "a", "La"),
        running(there, tmp_path / "b", "Lb"),
        running(here, tmp_path / "c", "Lc"),
    ]

    def submitter_of(entry: JobEntry) -> Submitter:
        return there if entry.job_id == "Lb" else here

    tools = replace(tracking(here), submitter_of=submitter_of)
    assert [status.job_id for status in job_statuses(entries, tools)] == ["La", "Lb", "Lc"]
    assert (here.asked, there.asked) == ([["La", "Lc"]], [["Lb"]])


def test_a_list_asks_about_living_jobs_alone(tmp_path: Path) -> None:
    """A job whose end is in the index is listed from there; the others are asked about."""
    index, submitter = TemporaryJobIndex(), FakeSubmitter()
    index.add(entry_of("Ldone", tmp_path / "gone", JobState.FAILED, exit_code=9))
    index.add(running(submitter, tmp_path / "a"))
    rows = list_jobs(tracking(submitter, index), None)
    assert submitter.asked == [["Laa"]]
    assert [(entry.job_id, status.state, status.exit_code) for entry, status in rows] == [
        ("Laa", JobState.RUNNING, None),
        ("Ldone", JobState.FAILED, 9),
    ]
    assert len(list_jobs(tracking(submitter, index), 1)) == 1


DETAIL = JobDetail(
    record=JobRecord(job_id=JobId("4242"), task_index=None, state=JobState.FAILED, raw="FAILED")
)


def test_the_samplers_step_is_none_of_the_jobs(tmp_path: Path) -> None:
    """What Slurm ends with the job is not listed among its failed steps."""
    steps = tuple(
        StepRecord(step_id=str(at), name=name, state=JobState.CANCELLED, raw="CANCELLED")
        for at, name in enumerate(("hpckit-sampler", "python"))
    )
    submitter = FakeSubmitter()
    submitter.detailed = replace(DETAIL, steps=steps)
    entry = running(submitter, tmp_path / "a")
    ended = JobStatus(job_id=JobId("4242"), state=JobState.FAILED, started_s=1.0)
    detail = job_detail(entry, ended, tracking(submitter, TemporaryJobIndex()))
    assert detail is not None
    assert [step.name for step in detail.steps] == ["python"]


ENDED, RUNNING, WAITING = JobState.FAILED, JobState.RUNNING, JobState.PENDING


def a_job(*tasks: JobState, state: JobState = RUNNING) -> JobStatus:
    """Job 42, with tasks in these states if any."""
    records = tuple(
        JobRecord(job_id=JobId("42"), task_index=at, state=one, raw=str(one))
        for at, one in enumerate(tasks)
    )
    return JobStatus(job_id=JobId("42"), state=state, tasks=records)


@pytest.mark.parametrize(
    ("status", "task", "signal", "targets"),
    [
        (a_job(), None, None, ("42",)),
        (a_job(state=WAITING), None, "KILL", ("42",)),
        (a_job(), None, "USR1", ("42",)),
        (a_job(ENDED, RUNNING, WAITING, RUNNING), None, None, ("42",)),
        (a_job(ENDED, RUNNING, WAITING, RUNNING), None, "USR1", ["42_1", "42_3"]),
        (a_job(ENDED, RUNNING, WAITING), 2, None, ("42_2",)),
        (a_job(ENDED, RUNNING, WAITING), 1, "USR1", ("42_1",)),
    ],
)
def test_a_signal_goes_to_what_runs_and_an_end_to_all(
    status: JobStatus, task: int | None, signal: str | None, targets: object
) -> None:
    """The end and KILL are for the whole job; another signal for its running tasks alone."""
    assert cancel_targets(status, task, signal) == targets


def parts(*tasks: tuple[str, int, int, JobState]) -> JobStatus:
    """Job 42, an array in parts: id, offset, index in the whole and state of each task."""
    records = tuple(
        JobRecord(job_id=JobId(job_id), task_index=index, state=state, raw="", array_offset=offset)
        for job_id, offset, index, state in tasks
    )
    return JobStatus(job_id=JobId("42"), state=RUNNING, tasks=records)


SPLIT = parts(
    ("42", 0, 7, ENDED),
    ("43", 100, 100, RUNNING),
    ("43", 100, 105, RUNNING),
    ("44", 200, 250, WAITING),
)


@pytest.mark.parametrize(
    ("task", "signal", "targets"),
    [
        (None, None, ["43", "44"]),
        (None, "USR1", ["43_0", "43_5"]),
        (105, None, ["43_5"]),
        (250, "KILL", ["44_50"]),
    ],
)
def test_parts_are_cancelled_as_slurm_knows_them(
    task: int | None, signal: str | None, targets: list[str]
) -> None:
    """A task goes by its part's id and its index there; a part that has ended is left out."""
    assert list(cancel_targets(SPLIT, task, signal)) == targets


@pytest.mark.parametrize(
    ("status", "task", "signal", "words"),
    [
        (a_job(state=WAITING), None, "USR1", "job 42 has not started: PENDING"),
        (a_job(ENDED, WAITING), None, "USR1", "no task of job 42 is running"),
        (a_job(ENDED, WAITING), 1, "USR1", "task 1 of job 42 has not started: PENDING"),
        (a_job(ENDED, WAITING), 0, None, "task 0 of job 42 has already ended: FAILED"),
        (a_job(ENDED, WAITING), 9, None, "job 42 has no task 9 in Slurm"),
        (a_job(), 9, None, "job 42 is not a job array: it has no task 9"),
    ],
)
def test_what_cannot_be_reached_is_refused(
    status: JobStatus, task: int | None, signal: str | None, words: str
) -> None:
    """A signal that nothing could receive is refused before scancel is called."""
    with pytest.raises(HpckitError, match=words):
        cancel_targets(status, task, signal)


FOLDERS = FileJobFolders()
TASK = JobRecord(job_id=JobId("7"), task_index=3, state=JobState.FAILED, raw="FAILED", exit_code=2)
END = JobStatus(
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
    record_end(an_entry(tmp_path), END, FOLDERS)
    assert recalled_end(an_entry(tmp_path), FOLDERS) == END
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["schema"] == "hpckit.result/1"
    assert written["tasks"][0]["task_index"] == 3  # a table by name, which older files have too


def test_a_job_that_the_index_knows_living_is_asked_about(tmp_path: Path) -> None:
    """A job that was requeued since, or whose id is another, is not told from its folder."""
    record_end(an_entry(tmp_path), END, FOLDERS)
    assert recalled_end(an_entry(tmp_path, JobState.PENDING), FOLDERS) is None
    assert recalled_end(replace(an_entry(tmp_path), job_id=JobId("8")), FOLDERS) is None


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.NOT_SUBMITTED, JobState.UNKNOWN])
def test_what_can_change_is_not_kept(tmp_path: Path, state: JobState) -> None:
    """Only the end of a job is kept; a submission without a job can still be found."""
    record_end(an_entry(tmp_path), replace(END, state=state), FOLDERS)
    assert not (tmp_path / "result.json").exists()


def test_what_ran_the_job_knows_best(tmp_path: Path) -> None:
    """The record that a local job's supervisor wrote stays, and is read by its own reader."""
    (tmp_path / "result.json").write_text('{"schema": "hpckit.local-result/1"}')
    record_end(an_entry(tmp_path), END, FOLDERS)
    assert recalled_end(an_entry(tmp_path), FOLDERS) is None
    assert "local-result" in (tmp_path / "result.json").read_text()


@pytest.mark.parametrize("text", ["", "{", '{"schema": "hpckit.result/1", "state": 3}', "[1]"])
def test_a_damaged_record_is_no_answer(tmp_path: Path, text: str) -> None:
    """A record that cannot be read is as none, and is written anew."""
    (tmp_path / "result.json").write_text(text)
    assert recalled_end(an_entry(tmp_path), FOLDERS) is None


def test_a_local_job_is_told_by_its_folder_alone(tmp_path: Path) -> None:
    """Its script may live on without a supervisor, and then ends by `cancel`."""
    record_end(replace(an_entry(tmp_path), job_id=JobId("L0123abcd")), END, FOLDERS)
    assert not (tmp_path / "result.json").exists()


def test_a_folder_that_is_gone_hides_nothing(tmp_path: Path) -> None:
    """Where nothing can be written, nothing is, and that is no error."""
    record_end(an_entry(tmp_path / "gone"), END, FOLDERS)
    assert recalled_end(an_entry(tmp_path / "gone"), FOLDERS) is None
