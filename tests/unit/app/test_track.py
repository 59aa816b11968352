"""Submitted jobs are found, asked about, waited for, listed and rebuilt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpckit.adapters.job_folder import FileJobFolders
from hpckit.app.track import UNKNOWN_LIMIT_S, find_job, job_status, list_jobs, rebuild, wait_for
from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from hpckit.ports import SubmitRequest
from tests.fakes.clock import FakeClock
from tests.fakes.job_index import MemoryJobIndex
from tests.fakes.submitter import FakeSubmitter
from tests.unit.app.world import entry_of


class _Asked(FakeSubmitter):
    """Remembers about which jobs it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[JobId] = []

    def statuses(self, folders: Mapping[JobId, Path]) -> Mapping[JobId, JobStatus]:
        """Note the question and answer it."""
        self.asked += folders
        return super().statuses(folders)


class _DamagedIndex(MemoryJobIndex):
    """An index that cannot be listed."""

    def latest(self, limit: int | None) -> list[JobEntry]:
        """Refuse."""
        raise StorageFailed("the index is damaged")


def index_with(*ids: str) -> MemoryJobIndex:
    """An index of jobs of which no folder exists, each a second younger than the one before."""
    index = MemoryJobIndex()
    for at, job_id in enumerate(ids):
        index.add(entry_of(job_id, Path("/gone") / job_id, created_s=float(at)))
    return index


def running(submitter: FakeSubmitter, folder: Path, job_id: str = "Laa") -> JobEntry:
    """A job that runs until the test ends it."""
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text("sleep 1\n")
    (folder / "intent.json").write_text(
        json.dumps({"job_id": job_id, "name": "train", "site": "local", "created_s": 5.0})
    )
    submitter.submit(
        SubmitRequest(
            job_id=JobId(job_id),
            folder=folder,
            workdir=folder,
            environment={},
            time_limit_s=None,
            kill_wait_s=1.0,
        )
    )
    return entry_of(job_id, folder)


def no_progress(_status: JobStatus, _waited_s: float) -> None:
    """Nobody looks."""


@pytest.mark.parametrize("wanted", ["Lab12", "ab12", "Lab", "ab"])
def test_a_job_is_found_by_any_beginning_of_its_id(wanted: str) -> None:
    """The whole id, a beginning of it, and either without the L name the job."""
    assert find_job(index_with("Lab12", "Lcd34"), wanted).job_id == "Lab12"


def test_no_id_is_the_newest_job() -> None:
    """Without an id the newest job is meant."""
    assert find_job(index_with("Lab12", "Lcd34"), None).job_id == "Lcd34"


def test_no_job_at_all_is_said() -> None:
    """Without any job the answer is no, and how to submit one."""
    with pytest.raises(HpckitError, match="no job has been submitted yet"):
        find_job(MemoryJobIndex(), None)


@pytest.mark.parametrize("wanted", ["", " ", "\t"])
def test_an_empty_id_is_no_job(wanted: str) -> None:
    """An empty id, as of an unset shell variable, never means a job, also when there is one."""
    with pytest.raises(HpckitError, match="the job id is empty"):
        find_job(index_with("Lab12"), wanted)


def test_an_unknown_id_is_refused() -> None:
    """An id that begins no job's is refused with its own words."""
    with pytest.raises(HpckitError, match="there is no job 'Lxx'"):
        find_job(index_with("Lab12"), "Lxx")


def test_an_ambiguous_id_names_the_candidates() -> None:
    """A beginning of two ids is refused and both are named; a whole id is never ambiguous."""
    index = index_with("Lab12", "Lab13", "Lab1")
    with pytest.raises(HpckitError, match="begins more than one job id: Lab13, Lab12"):
        find_job(index_with("Lab12", "Lab13"), "Lab")
    assert find_job(index, "Lab1").job_id == "Lab1"


def test_a_changed_state_is_remembered(tmp_path: Path) -> None:
    """Asking for a status writes a new state to the index, and none when nobody knows."""
    index, submitter = MemoryJobIndex(), FakeSubmitter()
    entry = running(submitter, tmp_path / "a")
    index.add(entry)
    index.add(entry_of("Lbb", tmp_path / "gone", JobState.RUNNING))
    assert job_status(entry, submitter, index).state is JobState.RUNNING
    assert job_status(index.find("Lbb")[0], submitter, index).state is JobState.UNKNOWN
    assert {one.job_id: one.state for one in index.latest(None)} == {
        "Laa": JobState.RUNNING,
        "Lbb": JobState.RUNNING,
    }


def test_waiting_ends_with_the_job(tmp_path: Path) -> None:
    """Each poll says how long was waited, and the final status is given and remembered."""
    index, submitter, clock = MemoryJobIndex(), FakeSubmitter(), FakeClock()
    entry = running(submitter, tmp_path / "a")
    index.add(entry)
    waited: list[float] = []

    def progress(status: JobStatus, waited_s: float) -> None:
        assert status.state is JobState.RUNNING
        waited.append(waited_s)
        if waited_s >= 200:
            submitter.end(tmp_path / "a", 3)

    status = wait_for(entry, submitter, index, clock, poll_interval_s=100.0, progress=progress)
    assert (status.state, status.exit_code) == (JobState.FAILED, 3)
    assert waited == [0.0, 100.0, 200.0]
    assert index.find("Laa")[0].exit_code == 3


def test_waiting_ends_at_its_own_limit(tmp_path: Path) -> None:
    """When the time is over, the last status is given though the job runs on."""
    index, submitter, clock = MemoryJobIndex(), FakeSubmitter(), FakeClock()
    entry = running(submitter, tmp_path / "a")
    status = wait_for(
        entry,
        submitter,
        index,
        clock,
        poll_interval_s=1.0,
        timeout_s=2.5,
        progress=no_progress,
    )
    assert status.state is JobState.RUNNING
    assert clock.slept_s == [1.0, 1.0, 1.0]


def test_waiting_gives_up_on_a_job_that_nobody_knows(tmp_path: Path) -> None:
    """After a minute in which the state is unknown, waiting ends with the reason."""
    clock = FakeClock()
    entry = entry_of("Laa", tmp_path / "gone")
    with pytest.raises(HpckitError, match=r"what became of Laa is not known: .*is not there"):
        wait_for(
            entry,
            FakeSubmitter(),
            MemoryJobIndex(),
            clock,
            poll_interval_s=7.0,
            progress=no_progress,
        )
    assert UNKNOWN_LIMIT_S <= sum(clock.slept_s) < UNKNOWN_LIMIT_S + 7


def test_waiting_ends_when_the_folder_is_removed_meanwhile(tmp_path: Path) -> None:
    """A pending job whose folder goes away is waited for one more minute, counted from then."""
    clock = FakeClock()
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "intent.json").write_text("{}")
    begun_s = clock.now_s()

    def progress(_status: JobStatus, waited_s: float) -> None:
        if waited_s >= 600 and folder.exists():
            (folder / "intent.json").unlink()
            folder.rmdir()

    with pytest.raises(HpckitError, match="what became of Laa is not known"):
        wait_for(
            entry_of("Laa", folder),
            FakeSubmitter(),
            MemoryJobIndex(),
            clock,
            poll_interval_s=10.0,
            progress=progress,
        )
    assert clock.now_s() - begun_s == 600 + UNKNOWN_LIMIT_S


def test_a_list_asks_about_living_jobs_alone(tmp_path: Path) -> None:
    """A job whose end is in the index is listed from there; the others are asked about."""
    index, submitter = MemoryJobIndex(), _Asked()
    index.add(entry_of("Ldone", tmp_path / "gone", JobState.FAILED, exit_code=9))
    index.add(running(submitter, tmp_path / "a"))
    rows = list_jobs(index, submitter, None)
    assert submitter.asked == ["Laa"]
    assert [(entry.job_id, status.state, status.exit_code) for entry, status in rows] == [
        ("Laa", JobState.RUNNING, None),
        ("Ldone", JobState.FAILED, 9),
    ]
    assert len(list_jobs(index, submitter, 1)) == 1


def test_a_rebuilt_index_keeps_finds_and_forgets(tmp_path: Path) -> None:
    """Rebuilding finds folders, forgets jobs without one, and keeps jobs under other roots."""
    index, submitter = MemoryJobIndex(), FakeSubmitter()
    running(submitter, tmp_path / "root" / "a")
    submitter.end(tmp_path / "root" / "a", 4)
    elsewhere = running(submitter, tmp_path / "other" / "b", "Lbb")
    index.add(elsewhere)
    index.add(entry_of("Lgone", tmp_path / "root" / "gone"))
    count, wrong = rebuild(index, FileJobFolders(), submitter, [tmp_path / "root"])
    assert (count, wrong) == (1, ())
    jobs = {entry.job_id: entry for entry in index.latest(None)}
    assert set(jobs) == {"Laa", "Lbb"}
    found = jobs[JobId("Laa")]
    assert (found.state, found.exit_code, found.created_s) == (JobState.FAILED, 4, 5.0)


@pytest.mark.parametrize(
    "intent",
    [
        "{",
        "[]",
        "{}",
        '{"job_id": "L1", "name": "n", "site": "s", "created_s": "soon"}',
        '{"job_id": "L1", "name": "n", "site": "s", "created_s": 1e300}',
        '{"job_id": "../x", "name": "n", "site": "s", "created_s": 1}',
    ],
)
def test_a_folder_that_cannot_be_read_is_left_out_and_named(tmp_path: Path, intent: str) -> None:
    """A damaged intent.json costs its own job alone, and the folder is named with the cause."""
    submitter = FakeSubmitter()
    running(submitter, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "intent.json").write_text(intent)
    count, wrong = rebuild(MemoryJobIndex(), FileJobFolders(), submitter, [tmp_path])
    assert count == 1
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{tmp_path / 'b'}: ")


def test_an_unknown_state_is_not_taken_for_news(tmp_path: Path) -> None:
    """A job of which nobody knows more than its folder is rebuilt as pending."""

    class Knowing(FakeSubmitter):
        """Knows no job."""

        def statuses(self, folders: Mapping[JobId, Path]) -> Mapping[JobId, JobStatus]:
            """UNKNOWN for each."""
            return {one: JobStatus(job_id=one, state=JobState.UNKNOWN) for one in folders}

    running(FakeSubmitter(), tmp_path / "a")
    index = MemoryJobIndex()
    rebuild(index, FileJobFolders(), Knowing(), [tmp_path])
    assert index.latest(None)[0].state is JobState.PENDING


def test_an_index_that_cannot_be_listed_is_rebuilt(tmp_path: Path) -> None:
    """With a damaged index nothing is known to be gone, and the folders are found all the same."""
    submitter, index = FakeSubmitter(), _DamagedIndex()
    running(submitter, tmp_path / "a")
    assert rebuild(index, FileJobFolders(), submitter, [tmp_path])[0] == 1
