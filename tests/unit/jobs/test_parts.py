"""An array in parts is submitted whole, or leaves nothing, or says what it has left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpckit.core.errors import (
    AdapterError,
    PlanError,
    SchedulerRefused,
    SchedulerUnreachable,
    SubmissionUnconfirmed,
)
from hpckit.jobs.submit import Submission, submit
from hpckit.jobs.track import find_job, find_task, rebuild
from hpckit.slurm.values import (
    ClusterView,
    JobEntry,
    JobId,
    JobPart,
    JobState,
    JobStatus,
    SlurmConfig,
    StartedJob,
    SubmitRequest,
)
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.tracked import UNSEEN, ToldSubmitter
from tests.fakes.world import World, caller_in, entry_of, tracking
from tests.unit.jobs.test_submit import a_slurm_job


class Slurm(FakeSubmitter):
    """A scheduler whose arrays have ten tasks at most; ids go up from 4242."""

    def __init__(
        self, refusal: Exception | None = None, *, at: int = 0, cancelling: Exception | None = None
    ) -> None:
        super().__init__(refusal, refused_offsets=[at])
        self._cancelling = cancelling
        self.cancelled: list[tuple[JobId, ...]] = []

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Queue the job."""
        super().submit(request)
        job_id = JobId(str(4241 + len(self.requests)))
        return StartedJob(job_id=job_id, state=JobState.PENDING, words=("mind the gap",))

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Every job waits."""
        return {
            job.submission: JobStatus(job_id=job.job_id, state=JobState.PENDING) for job in jobs
        }

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """Note what was cancelled, or refuse."""
        self.cancelled.append(job.job_ids)
        if self._cancelling is not None:
            raise self._cancelling
        return self.statuses([job])[job.submission]


class Began(Slurm):
    """A scheduler in which every job has begun."""

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Every job runs."""
        return {
            job.submission: JobStatus(job_id=job.job_id, state=JobState.RUNNING, started_s=1.0)
            for job in jobs
        }


def ten_a_job(submitter: FakeSubmitter) -> World:
    """A cluster whose arrays have ten tasks at most."""
    config = SlurmConfig(max_array_size=10)
    view = ClusterView(config=config, partitions=(), seen_s=0.0)
    return World(submitter=submitter, probe=FakeClusterProbe(view))


def submitted(world: World, home: Path, array: str = "0-24", **more: object) -> Submission:
    """An array of 25 tasks, which is three parts."""
    options: Mapping[str, object] = {"slurm.array": array, **more}
    return submit(a_slurm_job(options), caller_in(home), world.tools())


def recorded(submission: Submission, name: str) -> Any:
    """A document of the job folder."""
    return json.loads((submission.folder / name).read_text())


def test_each_part_is_submitted_with_its_offset(tmp_path: Path) -> None:
    """Every part is handed over under one uuid, with its own array and its offset in the job."""
    slurm = Slurm()
    entry = submitted(ten_a_job(slurm), tmp_path).entry
    asked = [(one.array_part, one.array_offset, one.dependency) for one in slurm.requests]
    assert asked == [("0-9", 0, None), ("0-9", 10, None), ("0-4", 20, None)]
    assert [one.environment["HPCKIT_ARRAY_OFFSET"] for one in slurm.requests] == ["0", "10", "20"]
    assert len({one.submission for one in slurm.requests}) == 1
    assert (entry.job_id, entry.job_ids) == ("4242", ("4242", "4243", "4244"))


def test_parts_are_on_record(tmp_path: Path) -> None:
    """The index and submitted.json have every part, the intent what each was to be."""
    world = ten_a_job(Slurm())
    submission = submitted(world, tmp_path)
    assert world.index.latest(None) == [submission.entry]
    assert submission.words == ("mind the gap",)
    assert recorded(submission, "intent.json")["parts"][2] == {"offset": 20, "array": "0-4"}
    assert recorded(submission, "submitted.json")["parts"] == [
        {"offset": 0, "job_id": "4242"},
        {"offset": 10, "job_id": "4243"},
        {"offset": 20, "job_id": "4244"},
    ]


def test_an_array_that_fits_is_no_part(tmp_path: Path) -> None:
    """Nothing is said on the command line for an array that the cluster takes as it is."""
    slurm = Slurm()
    entry = submitted(ten_a_job(slurm), tmp_path, "0-9:3%2").entry
    (request,) = slurm.requests
    assert (request.array_part, request.is_array, entry.parts) == (None, True, ())
    assert "HPCKIT_ARRAY_OFFSET" not in request.environment


def test_an_outer_offset_does_not_come_in(tmp_path: Path) -> None:
    """A job submitted from a part of another array does not take its offset, even if passed."""
    slurm = Slurm()
    caller = caller_in(tmp_path, environment={"HPCKIT_ARRAY_OFFSET": "20"})
    job = a_slurm_job({"slurm.array": "0-3", "environment.pass": ["HPCKIT_*"]})
    submit(job, caller, ten_a_job(slurm).tools())
    assert "HPCKIT_ARRAY_OFFSET" not in slurm.requests[0].environment


def test_throttled_parts_wait_for_one_another(tmp_path: Path) -> None:
    """A throttle holds for the whole: each part waits for the one before, and for the job's own."""
    slurm = Slurm()
    submitted(ten_a_job(slurm), tmp_path, "0-24%4", **{"slurm.dependency": "afterok:7"})
    assert [one.dependency for one in slurm.requests] == [
        None,
        "afterok:7,afterany:4242",
        "afterok:7,afterany:4243",
    ]


def test_a_dependency_of_alternatives_cannot_be_joined(tmp_path: Path) -> None:
    """Parts that must wait for one another beside `a?b` raise PlanError, and nothing is written."""
    world = ten_a_job(Slurm())
    with pytest.raises(PlanError, match="cannot mix , and \\?"):
        submitted(world, tmp_path, "0-24%4", **{"slurm.dependency": "afterok:7?afterok:8"})
    assert not (tmp_path / ".local/state/hpckit").exists()


def test_a_refused_part_takes_back_the_others(tmp_path: Path) -> None:
    """When the third part is refused, the two before are cancelled and every trace is gone."""
    slurm = Slurm(SchedulerRefused("Slurm refused the job: too many"), at=20)
    world = ten_a_job(slurm)
    with pytest.raises(SchedulerRefused, match=r"part 3 of 3 \(array 0-4\); the earlier parts"):
        submitted(world, tmp_path)
    assert slurm.cancelled == [("4242", "4243")]
    assert world.index.latest(None) == []
    assert list((tmp_path / ".local/state/hpckit/jobs").iterdir()) == []


def test_parts_that_cannot_be_cancelled_stay_on_record(tmp_path: Path) -> None:
    """When Slurm cannot be told to cancel the parts before, the error says how to, and of what."""
    slurm = Slurm(SchedulerRefused("no"), at=10, cancelling=AdapterError("no answer"))
    world = ten_a_job(slurm)
    with pytest.raises(SchedulerRefused, match="could not be cancelled") as caught:
        submitted(world, tmp_path)
    assert caught.value.hint == "hpckit cancel 4242"
    (entry,) = world.index.latest(None)
    assert [part.job_id for part in entry.parts] == ["4242", "U0123abcd", "U0123abcd"]


def test_an_unconfirmed_part_leaves_the_others_on_record(tmp_path: Path) -> None:
    """When the answer to the second part is lost, the first stays and the third is not sent."""
    slurm = Slurm(SubmissionUnconfirmed("the answer was lost"), at=10)
    world = ten_a_job(slurm)
    with pytest.raises(SubmissionUnconfirmed):
        submitted(world, tmp_path)
    (entry,) = world.index.latest(None)
    assert (entry.job_id, entry.is_confirmed, entry.is_whole) == ("4242", True, False)
    assert len(slurm.requests) == 1
    assert slurm.cancelled == []


def test_a_rebuild_knows_every_part(tmp_path: Path) -> None:
    """The parts come back from the job folder, those that Slurm never confirmed as unconfirmed."""
    world = ten_a_job(Slurm(SubmissionUnconfirmed("the answer was lost"), at=20))
    with pytest.raises(SubmissionUnconfirmed):
        submitted(world, tmp_path)
    (known,) = world.index.latest(None)
    index = TemporaryJobIndex()
    rebuild(tracking(ToldSubmitter(UNSEEN), index), [Path(known.folder).parent])
    (entry,) = index.latest(None)
    assert entry.parts == (
        JobPart(offset=0, job_id=JobId("4242")),
        JobPart(offset=10, job_id=JobId("4243")),
        JobPart(offset=20, job_id=JobId("U0123abcd")),
    )


def test_an_id_that_was_a_parts_is_the_newest_jobs(tmp_path: Path) -> None:
    """When a cluster gives the id of an old array's part again, it means the newer job."""
    world = ten_a_job(Slurm())
    old = submitted(world, tmp_path).entry
    new = entry_of("4243", tmp_path / "new", created_s=old.created_s + 1)
    new = replace(new, site=old.site)
    world.index.add(new)
    assert find_job(world.index, "4243") == new
    assert find_job(world.index, "4244") == old


@pytest.mark.parametrize(
    ("wanted", "task"), [("4242", None), ("4242_17", 17), ("4243_7", 17), ("4244", None)]
)
def test_a_task_is_found_by_any_part(tmp_path: Path, wanted: str, task: int | None) -> None:
    """After the first id a task counts in the whole array, after another one in that part."""
    world = ten_a_job(Slurm())
    entry = submitted(world, tmp_path).entry
    assert find_task(world.index, wanted) == (entry, task)


def test_tasks_that_ran_keep_their_record(tmp_path: Path) -> None:
    """When a part is refused after tasks of the first have begun, what they left stays."""
    world = ten_a_job(Began(SchedulerRefused("no"), at=10))
    with pytest.raises(SchedulerRefused) as caught:
        submitted(world, tmp_path)
    (entry,) = world.index.latest(None)
    assert Path(entry.folder).is_dir()
    assert caught.value.hint == "some tasks had already started or ended: hpckit status 4242"
    assert entry.job_ids == ("4242",)  # no part is awaited that was never sent


@contextmanager
def held(interrupted: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """A signal that came while it was held back."""
    yield interrupted


def test_an_interrupt_between_parts_takes_back_those_sent(tmp_path: Path) -> None:
    """After Ctrl-C no further part is sent, those before are cancelled, and no trace is left."""
    slurm = Slurm()
    world = ten_a_job(slurm)
    tools = world.tools(lambda: held(lambda: len(slurm.requests) == 2))
    job = a_slurm_job({"slurm.array": "0-24"})
    with pytest.raises(KeyboardInterrupt, match=r"part 3 of 3 .* were cancelled"):
        submit(job, caller_in(tmp_path), tools)
    assert len(slurm.requests) == 2
    assert slurm.cancelled == [("4242", "4243")]
    assert world.index.latest(None) == []


def test_a_silent_scheduler_is_not_asked_to_take_back(tmp_path: Path) -> None:
    """When Slurm stops answering at the second part, nobody waits for it to cancel the first."""
    slurm = Slurm(SchedulerUnreachable("no answer"), at=10)
    with pytest.raises(SchedulerUnreachable, match="could not be cancelled") as caught:
        submitted(ten_a_job(slurm), tmp_path)
    assert slurm.cancelled == []
    assert caught.value.hint == "hpckit cancel 4242"


@pytest.mark.parametrize(
    ("key", "value"),
    [("slurm.dependency", "aftercorr:7"), ("slurm.extra.input", "in-%a")],
)
def test_what_counts_within_a_part_is_refused(tmp_path: Path, key: str, value: str) -> None:
    """Slurm would pair or open by numbers of a part: that is refused, and nothing is written."""
    slurm = Slurm()
    with pytest.raises(PlanError, match=key):
        submitted(ten_a_job(slurm), tmp_path, **{key: value})
    assert slurm.requests == []
    submitted(ten_a_job(slurm), tmp_path, "0-9", **{key: value})
