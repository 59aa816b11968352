"""A submission is whole or leaves nothing, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import (
    AdapterError,
    ConfigError,
    SchedulerRefused,
    SchedulerUnreachable,
    StorageFailed,
    SubmissionUnconfirmed,
)
from hpckit.jobs.draft import PackedJobFolders
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.submit import Submission, expand_job_root, submit
from hpckit.slurm.values import JobId, JobState, StartedJob, SubmitRequest
from tests.fakes.clock import FakeClock
from tests.fakes.packed import PACKED
from tests.fakes.prepared import prepared
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import World, caller_in, entry_of, everything_in

UUID = "0123abcd" + "0" * 24
JOBS = Path(".local/state/hpckit/jobs")


def a_job(options: Mapping[str, object] | None = None) -> PreparedJob:
    """A job for this machine, with dotted keys over it."""
    return prepared(None, site="local", options=options, command=("true",))


def a_slurm_job(options: Mapping[str, object] | None = None) -> PreparedJob:
    """The same for a site with Slurm."""
    job = prepared(None, site="docker", options=options, command=("true",))
    return replace(job, site=replace(job.site, job_root="$XDG_STATE_HOME/hpckit/jobs"))


def submitted(world: World, home: Path, job: PreparedJob | None = None) -> Submission:
    """The submission of a job by somebody whose home this is."""
    return submit(job or a_job(), caller_in(home), world.tools())


class _Slurm(FakeSubmitter):
    """A scheduler that gives each job the id 4242 of the cluster west, and has a word to say."""

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Queue the job."""
        super().submit(request)
        return StartedJob(
            job_id=JobId("4242"), cluster="west", state=JobState.PENDING, words=("mind the gap",)
        )


class _FullAfterStart(PackedJobFolders):
    """A disk that is full once the job was started."""

    def write(self, folder: Path, name: str, content: str | bytes) -> None:
        """Write all but the record of the start."""
        if name == "submitted.json":
            raise StorageFailed("submitted.json cannot be written: No space left on device")
        super().write(folder, name, content)


class _InterruptedPacking(PackedJobFolders):
    """Somebody presses Ctrl-C while the folder is being written."""

    def pack_agent(self, folder: Path) -> None:
        """Be interrupted."""
        raise KeyboardInterrupt


class _InterruptedBlock:
    """`interrupts_held` for which Ctrl-C came during one of the blocks."""

    def __init__(self, number: int) -> None:
        self._left = number

    @contextmanager
    def __call__(self) -> Iterator[Callable[[], bool]]:
        """Raise at the end of the block, as the adapter does."""
        yield lambda: False
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


def test_packing_does_not_hold_a_submission_up(tmp_path: Path) -> None:
    """The time by which Slurm must have the job counts from after the archive was packed."""
    clock = FakeClock()

    class Slow(PackedJobFolders):
        def keep_agent(self) -> None:
            clock.sleep(60)

    submission = submitted(World(folders=Slow(PACKED), clock=clock), tmp_path)
    assert submission.entry.created_s == clock.now_s()


def test_the_folder_holds_what_was_submitted(tmp_path: Path) -> None:
    """A submission leaves its documents, the script that was rendered, and a line of the index."""
    world = World()
    job = a_job()
    submission = submitted(world, tmp_path, job)
    assert submission.folder == tmp_path / JOBS / "2023-11-14-true-0123abcd"
    assert everything_in(submission.folder) == [
        "effective.json",
        "hpckit-injob.pyz",
        "intent.json",
        "job.sbatch",
        "logs",
        "plan.json",
        "site.json",
        "submitted.json",
    ]
    assert (submission.folder / "job.sbatch").read_text() == job.script.text
    record = json.loads((submission.folder / "submitted.json").read_text())
    assert record["script_sha256"] == job.script.sha256 == submission.script_sha256
    (entry,) = world.index.latest(None)
    assert (entry.job_id, entry.state) == ("L0123abcd", JobState.RUNNING)


def test_the_job_file_is_kept_as_it_was_written(tmp_path: Path) -> None:
    """The job file's text lies in the folder, comments included."""
    job = prepared('name = "a b/c"  # mine\ncommand = ["true"]\n', site="local")
    submission = submitted(World(), tmp_path, job)
    assert submission.folder.name == "2023-11-14-a-b-c-0123abcd"
    assert "# mine" in (submission.folder / "job.toml").read_text()


def test_the_job_gets_the_time_limit_and_its_own_variables(tmp_path: Path) -> None:
    """The request says the limit in seconds and where the job and its rank entry are."""
    world = World()
    options = {"resources.time_limit": "0:02:00", "environment.pass": ["NCCL_DEBUG"]}
    environment = {"A": "1", "NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring"}
    caller = caller_in(tmp_path, environment=environment)
    submission = submit(a_job(options), caller, world.tools())
    (request,) = world.submitter.requests
    assert request.time_limit_s == 120
    assert submission.environment.held_back == ("NCCL_ALGO",)
    assert dict(request.environment) == {
        "A": "1",
        "NCCL_DEBUG": "INFO",
        "HPCKIT_JOB_ID": "L0123abcd",
        "HPCKIT_JOB_FOLDER": str(submission.folder),
        "HPCKIT_INJOB": str(submission.folder / "hpckit-injob.pyz"),
        "HPCKIT_PYTHON": "/usr/bin/python3",
    }


def test_a_taken_submission_leaves_the_other_job_alone(tmp_path: Path) -> None:
    """A job whose submission is taken is refused, and the other's line stays as it was."""
    world = World()
    other = entry_of("L1", tmp_path / "other", JobState.COMPLETED, exit_code=0, submission=UUID)
    world.index.add(other)
    with pytest.raises(StorageFailed, match="already in the job index"):
        submitted(world, tmp_path)
    assert world.index.latest(None) == [other]
    assert everything_in(tmp_path / JOBS) == []
    assert world.submitter.requests == []


def test_a_taken_folder_is_left_alone(tmp_path: Path) -> None:
    """A folder of that name that was there before is neither used nor removed."""
    there = tmp_path / JOBS / "2023-11-14-true-0123abcd"
    there.mkdir(parents=True)
    world = World()
    with pytest.raises(StorageFailed, match="File exists"):
        submitted(world, tmp_path)
    assert there.is_dir()
    assert world.index.latest(None) == []


@pytest.mark.parametrize("error", [AdapterError, SchedulerRefused, SchedulerUnreachable])
def test_a_refused_submission_leaves_nothing(tmp_path: Path, error: type[AdapterError]) -> None:
    """When the scheduler refuses or is not there, neither folder nor line of the index is left."""
    world = World(submitter=FakeSubmitter(error("invalid account")))
    with pytest.raises(error, match="invalid account"):
        submitted(world, tmp_path, a_slurm_job())
    assert everything_in(tmp_path / JOBS) == []
    assert world.index.latest(None) == []


def test_an_unconfirmed_submission_stays_on_record(tmp_path: Path) -> None:
    """A job that Slurm may have taken keeps its folder, and its line under hpckit's own id."""
    world = World(submitter=FakeSubmitter(SubmissionUnconfirmed("the answer did not come back")))
    with pytest.raises(SubmissionUnconfirmed):
        submitted(world, tmp_path, a_slurm_job())
    (entry,) = world.index.latest(None)
    assert (entry.job_id, entry.submission) == ("U0123abcd", UUID)
    assert (entry.state, entry.is_confirmed) == (JobState.UNKNOWN, False)
    assert json.loads((Path(entry.folder) / "intent.json").read_text())["uuid"] == UUID
    assert not (Path(entry.folder) / "submitted.json").exists()


def test_a_bug_in_the_submitter_keeps_the_record(tmp_path: Path) -> None:
    """After an error that is not hpckit's own nobody knows what was started: nothing is undone."""
    world = World(submitter=FakeSubmitter(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        submitted(world, tmp_path, a_slurm_job())
    (entry,) = world.index.latest(None)
    assert (Path(entry.folder) / "job.sbatch").exists()


def test_the_schedulers_id_is_recorded(tmp_path: Path) -> None:
    """Id and cluster that the scheduler gives are in the index, submitted.json and the result."""
    world = World(submitter=_Slurm())
    submission = submitted(world, tmp_path, a_slurm_job())
    (entry,) = world.index.latest(None)
    assert (entry.job_id, entry.cluster, entry.state) == ("4242", "west", JobState.PENDING)
    assert submission.entry == entry
    assert submission.words == ("mind the gap",)
    record = json.loads((submission.folder / "submitted.json").read_text())
    assert (record["job_id"], record["cluster"]) == ("4242", "west")
    assert json.loads((submission.folder / "intent.json").read_text())["job_id"] == "U0123abcd"


def test_a_slurm_job_is_not_told_an_id_before_it_has_one(tmp_path: Path) -> None:
    """The request carries the submission and its beginning, and no id as a variable of the job."""
    world = World(submitter=_Slurm())
    submitted(world, tmp_path, a_slurm_job())
    (request,) = world.submitter.requests
    assert (request.submission, request.job_id) == (UUID, "U0123abcd")
    assert request.begun_s == 1_700_000_000.0
    assert "HPCKIT_JOB_ID" not in request.environment
    assert not request.is_array


def test_sbatch_reads_what_the_script_leaves_open(tmp_path: Path) -> None:
    """A site's default for sbatch is kept, but not for the partition that the script states."""
    environment = {"SBATCH_ACCOUNT": "physics", "SBATCH_PARTITION": "gpu"}
    world = World(submitter=_Slurm())
    caller = caller_in(tmp_path, environment=environment)
    submission = submit(a_slurm_job(), caller, world.tools())
    assert submission.environment.sbatch_defaults == ("SBATCH_ACCOUNT",)
    assert submission.environment.held_back == ("SBATCH_PARTITION",)
    assert world.submitter.requests[0].environment["SBATCH_ACCOUNT"] == "physics"


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C before the job was started removes its folder and stays a plain interrupt."""
    world = World(folders=_InterruptedPacking())
    with pytest.raises(KeyboardInterrupt) as raised:
        submitted(world, tmp_path)
    assert raised.value.args == ()
    assert everything_in(tmp_path / JOBS) == []
    assert world.index.latest(None) == []


def test_an_interrupt_while_the_folder_is_made_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C held back during the first step removes the folder at its end."""
    world = World()
    with pytest.raises(KeyboardInterrupt):
        submit(a_job(), caller_in(tmp_path), world.tools(_InterruptedBlock(1)))
    assert everything_in(tmp_path / JOBS) == []
    assert world.index.latest(None) == []


def test_an_interrupt_after_the_start_leaves_the_job_whole(tmp_path: Path) -> None:
    """Ctrl-C held back while the job was started names the job, which is recorded and runs on."""
    world = World()
    with pytest.raises(KeyboardInterrupt, match="the job goes on: hpckit wait L0123abcd"):
        submit(a_job(), caller_in(tmp_path), world.tools(_InterruptedBlock(2)))
    (entry,) = world.index.latest(None)
    assert entry.state is JobState.RUNNING
    assert (Path(entry.folder) / "submitted.json").exists()


def test_an_interrupt_that_ends_the_start_is_told_as_one(tmp_path: Path) -> None:
    """Ctrl-C that also ends what is being started leaves nothing, and is no fault of the job's."""
    world = World(submitter=FakeSubmitter(AdapterError("the supervisor did not start")))

    @contextmanager
    def held() -> Iterator[Callable[[], bool]]:
        yield lambda: True

    with pytest.raises(KeyboardInterrupt, match="the supervisor did not start"):
        submit(a_job(), caller_in(tmp_path), world.tools(held))
    assert everything_in(tmp_path / JOBS) == []
    assert world.index.latest(None) == []


def test_a_full_disk_after_the_start_names_the_job(tmp_path: Path) -> None:
    """A start that cannot be recorded names job, folder and cause, and the job stays known."""
    world = World(folders=_FullAfterStart(PACKED))
    with pytest.raises(StorageFailed, match=r"L0123abcd was started from /.*but .*No space left"):
        submitted(world, tmp_path)
    (entry,) = world.index.latest(None)
    assert entry.job_id == JobId("L0123abcd")
    assert (Path(entry.folder) / "job.sbatch").exists()


def test_a_folder_to_run_in_must_exist(tmp_path: Path) -> None:
    """A chdir that is not there is a ConfigError at its key, before anything is written."""
    world = World()
    with pytest.raises(ConfigError, match="expected an existing folder") as raised:
        submitted(world, tmp_path, a_job({"chdir": str(tmp_path / "gone")}))
    assert raised.value.key == "chdir"
    assert not (tmp_path / ".local").exists()


def test_a_folder_to_run_in_is_made_plain(tmp_path: Path) -> None:
    """A chdir that exists is where the job runs, without the dots in it."""
    (tmp_path / "runs").mkdir()
    world = World()
    submitted(world, tmp_path, a_job({"chdir": str(tmp_path / "gone" / ".." / "runs")}))
    assert world.submitter.requests[0].workdir == tmp_path / "runs"


def test_a_folder_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    """A working folder with bytes that are not UTF-8 cannot be recorded, and is refused."""
    caller = caller_in(tmp_path, workdir=Path("/data/\udcff"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        submit(a_job(), caller, World().tools())


@pytest.mark.parametrize(
    ("job_root", "expected"),
    [
        ("$XDG_STATE_HOME/jobs", "/home/u/.local/state/jobs"),
        ("~", "/home/u"),
        ("~/jobs", "/home/u/jobs"),
        ("$HOME/jobs", "/home/u/jobs"),
        ("${SCRATCH}/jobs", "/scratch/u/jobs"),
        ("jobs", "/home/u/work/jobs"),
        ("/a/$$b", "/a/$b"),
    ],
)
def test_a_job_root_is_expanded(job_root: str, expected: str) -> None:
    """`~` and variables of the caller are expanded; a relative root is below the current folder."""
    caller = caller_in(
        Path("/home/u"), environment={"SCRATCH": "/scratch/u"}, workdir=Path("/home/u/work")
    )
    assert expand_job_root(job_root, caller) == Path(expected)


@pytest.mark.parametrize("job_root", ["$SCRATCH/jobs", "$/jobs", "${}/jobs"])
def test_an_unset_variable_in_a_job_root_is_refused(job_root: str) -> None:
    """A job root that names what is not set is a ConfigError, never a folder called `$SCRATCH`."""
    with pytest.raises(ConfigError, match="job_root"):
        expand_job_root(job_root, caller_in(Path("/home/u")))


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "/b/ana"), ({"USER": ""}, "/b/ana"), ({"USER": "x"}, "/b/x")]
)
def test_a_job_root_has_its_user_without_a_variable(
    environment: dict[str, str], expected: str
) -> None:
    """`$USER` is the name in the password database where the environment has none."""
    caller = replace(caller_in(Path("/home/u"), environment=environment), user="ana")
    assert expand_job_root("/b/$USER", caller) == Path(expected)
