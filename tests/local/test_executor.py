"""Python functions through submitit's executor `hpckit`, on this machine: nothing imitated."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import submitit
from submitit.core.utils import DelayedSubmission, FailedJobError, UncompletedJobError

from hpckit.core.trust import Untrusted
from hpckit.executor import HpckitExecutor, part_of
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState
from tests.fakes.packed import warm_cache


def added(first: int, second: int) -> tuple[int, int, int]:
    """The sum, and which rank of how many says so."""
    here = submitit.JobEnvironment()
    print("summed by", here.global_rank)
    return first + second, here.global_rank, here.num_tasks


def failing() -> None:
    """A function with a bug, on each of its ranks."""
    raise ValueError("there is a bug")


def dying() -> None:
    """The second of three ranks has no result, and no more words."""
    import os
    import time

    if submitit.JobEnvironment().global_rank == 1:
        print("the last words")
        os._exit(7)
    time.sleep(2)


def unpicklable() -> object:
    """A result that cannot be kept."""
    return (number for number in range(3))


def sleeping() -> None:
    """Longer than a test waits."""
    import time

    time.sleep(300)


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> submitit.AutoExecutor:
    """One at the site `local`, as a program asks for it."""
    warm_cache()
    monkeypatch.chdir(tmp_path)
    found = submitit.AutoExecutor(folder=tmp_path / "log_%j", cluster="hpckit")
    found.update_parameters(hpckit_site="local", timeout_min=3)
    return found


def test_each_rank_returns_its_result(executor: submitit.AutoExecutor) -> None:
    """The job is submitit's own, and a copy of it out of a pickle finds the same."""
    executor.update_parameters(tasks_per_node=2)
    job = executor.submit(added, 2, second=3)
    assert job.results() == [(5, 0, 2), (5, 1, 2)]
    copy = pickle.loads(pickle.dumps(job))  # noqa: S301  made here
    assert (copy.results(), copy.done()) == (job.results(), True)
    assert "summed by 1\n" in copy.task(1).stdout()
    assert copy.submission().args == (2,)


def test_a_function_that_fails_tells_where(executor: submitit.AutoExecutor) -> None:
    """By the rank that began it: the others are ended, and have left nothing."""
    executor.update_parameters(tasks_per_node=2)
    job = executor.submit(failing)
    error = job.exception()
    assert isinstance(error, FailedJobError)
    assert 'raise ValueError("there is a bug")' in str(error)
    with pytest.raises(FailedJobError, match="there is a bug"):
        job.results()


def test_a_rank_that_dies_without_a_word_is_named(executor: submitit.AutoExecutor) -> None:
    """With its code and the end of its log."""
    executor.update_parameters(tasks_per_node=3)
    error = executor.submit(dying).exception()
    assert isinstance(error, FailedJobError)
    assert "rank 1 failed first, with exit code 7" in str(error)
    assert "the last words" in str(error)


def test_a_result_that_cannot_be_kept_is_a_failure(executor: submitit.AutoExecutor) -> None:
    """And an attempt that was ended while it wrote does not keep the next from writing."""
    error = executor.submit(unpicklable).exception()
    assert "cannot pickle 'generator' object" in str(error)


def test_a_thread_submits_too(executor: submitit.AutoExecutor) -> None:
    """Signals are the main thread's."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: executor.submit(added, 1, 2).result()).result() == (3, 0, 1)


def test_a_rank_alone_comes_out_of_a_pickle(executor: submitit.AutoExecutor) -> None:
    """And whoever holds it is told of every other job as before."""
    executor.update_parameters(tasks_per_node=2)
    rank = pickle.loads(pickle.dumps(executor.submit(added, 1, 1).task(1)))  # noqa: S301  ours
    assert rank.result() == (2, 1, 2)
    assert executor.submit(added, 2, 2).results() == [(4, 0, 2), (4, 1, 2)]


def test_nobody_elses_function_is_loaded(executor: submitit.AutoExecutor) -> None:
    """Neither the result nor what was submitted, once others could change the folder."""
    job = executor.submit(added, 1, 1)
    assert job.result() == (2, 0, 1)
    job.paths.folder.chmod(0o777)
    for read in (job.result, job.submission):
        with pytest.raises(Untrusted):
            read()


def test_a_launcher_starts_functions(executor: submitit.AutoExecutor) -> None:
    """Where it hands no signal on, none is asked for."""
    found = cast(HpckitExecutor, executor._executor)
    for kind, signal in (("plain", "USR2@90"), ("torchrun", None), ("deepspeed", "USR2@90")):
        executor.update_parameters(hpckit_launch=kind)
        spec = found._prepared(DelayedSubmission(added, 1, 1), 1).effective.spec
        assert (spec.launch.kind, spec.slurm.signal) == (kind, signal)
        assert spec.launch.args == (("--no_local_rank",) if kind == "deepspeed" else ())


def test_many_at_once_where_there_are_no_arrays(executor: submitit.AutoExecutor) -> None:
    """Each is a job; what waits for the batch is no job yet."""
    with executor.batch():
        jobs = [executor.submit(added, number, 1) for number in range(2)]
        with pytest.raises(AttributeError):
            jobs[0].job_id  # noqa: B018  asking is what fails
    assert [job.result()[0] for job in jobs] == [1, 2]
    assert len({job.job_id for job in jobs}) == 2


def test_a_job_is_cancelled(executor: submitit.AutoExecutor) -> None:
    """And has no result; what has ended cannot be cancelled again, which may be no error."""
    job = executor.submit(sleeping)
    job.cancel()
    job._results_timeout_s = 1
    assert isinstance(job.exception(), UncompletedJobError)
    assert job.state == "CANCELLED"
    job.cancel(check=False)


def test_a_job_without_its_folder_holds_no_other_up(executor: submitit.AutoExecutor) -> None:
    """Nobody knows of it any more, and the others are waited for as before."""
    gone, other = executor.submit(added, 1, 1), executor.submit(added, 2, 2)
    gone.wait()
    # Moved, not deleted: the result is there before the runner has written its last line.
    gone.paths.folder.rename(gone.paths.folder.with_name("elsewhere"))
    assert other.result() == (4, 0, 1)
    assert gone.done(force_check=True)


def test_what_cannot_be_is_said_before_anything_is_submitted(
    executor: submitit.AutoExecutor, tmp_path: Path
) -> None:
    """A parameter that nobody knows, arguments that are too large, a folder for this user alone."""
    with pytest.raises(NameError, match="Unknown argument 'partitoin'"):
        executor.update_parameters(hpckit_partitoin="main")
    with pytest.raises(ValueError, match="no such parameter: gpus; valid"):
        HpckitExecutor(tmp_path).update_parameters(gpus=1)
    small = HpckitExecutor(tmp_path / "jobs", max_pickle_size_gb=1e-6)
    small.update_parameters(site="local")
    with pytest.raises(RuntimeError, match="pass file names instead"):
        small.submit(len, b"x" * 10_000)
    assert not (tmp_path / "jobs").exists()


def test_a_task_has_the_id_of_its_part() -> None:
    """An array that is larger than the cluster takes is several jobs to Slurm."""
    parts = (JobPart(offset=0, job_id=JobId("5")), JobPart(offset=1000, job_id=JobId("6")))
    entry = JobEntry(
        submission="0" * 32, job_id=JobId("5"), name="x", site="docker", folder="/x",
        created_s=0.0, state=JobState.PENDING, parts=parts,
    )  # fmt: skip
    assert [part_of(entry, index).job_id for index in (0, 999, 1000, 1999)] == ["5", "5", "6", "6"]


def test_it_is_used_where_it_is_named(executor: submitit.AutoExecutor) -> None:
    """Not by itself: a program that says nothing of a cluster runs as it did before."""
    assert HpckitExecutor.affinity() == 0
    assert isinstance(executor._executor, HpckitExecutor)
