from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pytest

from tests.cluster.cluster import Cluster, eventually, stopped
from tests.cluster.hpckit_on import (
    AT_GATE,
    HELD,
    document,
    ended,
    failed_job,
    gated,
    hpckit,
    log_of,
    new_path,
    open_gate,
    programs,
    start,
    status,
    status_and_commands,
    submit,
    traces,
)

POLL_S = 1.0
MANY = 100


# --- how often Slurm is asked --------------------------------------------------------------------


def most_questions(waited_s: float) -> int:
    """The questions of a wait of `waited_s` that asks after 1 s, then after a fifth of the time
    waited so far, at most a minute, and once more when the time is up.
    """
    at_s, count = 0.0, 1
    while at_s < waited_s:
        at_s += min(max(POLL_S, 0.2 * at_s), 60.0)
        count += 1
    return count


def submitted_by_loop(cluster: Cluster, count: int) -> list[str]:
    """The ids of `count` jobs that a shell submitted one after the other; none of them starts."""
    loop = f'for i in $(seq {count}); do hpckit submit --quiet "$@" -- true || exit 1; done'
    done = cluster.untraced.run(
        ["sh", "-c", loop, "sh", *HELD], env={"HPCKIT_SITE": "docker"}, timeout_s=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def questions_of_a_wait(cluster: Cluster, ids: list[str], timeout_s: int) -> list[str]:
    """The programs that `hpckit wait --timeout` of the jobs ran; none of the jobs ends."""
    log = new_path("/tmp")
    words = ("wait", "--timeout", str(timeout_s), *ids)
    env = {"HPCKIT_COMMAND_LOG": log}
    done = hpckit(cluster, *words, env=env, timeout_s=timeout_s + 60)
    assert done.returncode == 1
    assert f"{ids[-1]} did not end within {timeout_s} s" in done.stderr
    return programs(cluster, log)


def test_what_a_submission_costs(cluster: Cluster) -> None:
    """What changes within the hour is asked of slurmctld, the rest once, slurmdbd's too.

    Of srun its plugins for MPI are asked, as this cluster has no default.
    """
    log = new_path("/tmp")
    env = {"HPCKIT_COMMAND_LOG": log, "XDG_CACHE_HOME": new_path("/tmp")}
    submit(cluster, *HELD, "--", "true", env=env)
    now = ["scontrol", "sinfo", "scontrol", "scontrol", "sbatch"]
    first = ["scontrol", "srun", "sinfo", "sacctmgr", "sacctmgr", *now]
    assert programs(cluster, log) == first
    submit(cluster, *HELD, "--", "true", env=env)
    assert programs(cluster, log)[len(first) :] == now


def test_what_a_status_costs(cluster: Cluster) -> None:
    """The status of a job that waits is one squeue, and sacct is not asked."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    log = new_path("/tmp")
    assert status(cluster, job_id, env={"HPCKIT_COMMAND_LOG": log})["state"] == "PENDING"
    assert programs(cluster, log) == ["squeue"]


def test_a_wait_asks_less_and_less_often(cluster: Cluster) -> None:
    """A wait of 30 s for three jobs asks squeue alone, once for all three, as the back-off says."""
    asked = questions_of_a_wait(cluster, submitted_by_loop(cluster, 3), 30)
    assert set(asked) == {"squeue"}
    assert 10 <= len(asked) <= most_questions(30)


@pytest.mark.slow
def test_a_wait_for_a_hundred_jobs(cluster: Cluster) -> None:
    """A wait of 150 s for a hundred jobs costs at most 25 commands, as for one job; by the
    same back-off, which the test repeats, ten minutes would be 34 of the 60 that are allowed.
    """
    asked = questions_of_a_wait(cluster, submitted_by_loop(cluster, MANY), 150)
    assert set(asked) == {"squeue"}
    assert len(asked) <= most_questions(150) == 25
    assert most_questions(600) == 34


# --- without slurmctld ---------------------------------------------------------------------------


def in_turn(asked: list[list[str]]) -> list[str]:
    """The programs of these commands, in order; one that was asked again at once counts once."""
    return [program for program, _ in groupby(argv[0] for argv in asked)]


@dataclass(frozen=True, slots=True)
class Before:
    """Jobs from before a daemon went, one that failed with 7 and one that waits; all the traces."""

    failed: str
    waiting: str
    traces: tuple[list[str], list[str]]


def jobs_before(cluster: Cluster) -> Before:
    """Submit both, and see the first to its end in the accounts."""
    failed = failed_job(cluster)
    waiting = submit(cluster, *HELD, "--", "true")
    return Before(failed, waiting["job_id"], traces(cluster))


@pytest.fixture(scope="class")
def before_ctl_stopped(cluster: Cluster) -> Iterator[Before]:
    """Jobs from before slurmctld was stopped; it is back when the class's tests have ended."""
    before = jobs_before(cluster)
    with stopped(cluster, "ctl"):
        yield before


@pytest.fixture(scope="class")
def unsent(
    cluster: Cluster, before_ctl_stopped: Before
) -> tuple[subprocess.CompletedProcess[str], float]:
    """What a submission without slurmctld said, and the seconds that it took."""
    begun_s = time.monotonic()
    done = hpckit(cluster, "submit", "--", "true")
    return done, time.monotonic() - begun_s


class TestWithoutSlurmctld:
    """slurmctld does not run."""

    def test_a_submission(self, unsent: tuple[subprocess.CompletedProcess[str], float]) -> None:
        """A submission fails with code 7 within 90 s, and says that Slurm was not reached."""
        done, took_s = unsent
        assert (done.returncode, done.stdout) == (7, "")
        assert "error  scontrol cannot reach Slurm" in done.stderr
        assert "nothing was submitted" in done.stderr
        assert took_s < 90

    @pytest.mark.usefixtures("unsent")
    def test_a_submission_leaves_nothing(
        self, cluster: Cluster, before_ctl_stopped: Before
    ) -> None:
        """A submission that did not reach Slurm has no folder and no line in `hpckit jobs`."""
        assert traces(cluster) == before_ctl_stopped.traces

    def test_a_submission_that_looks_first(
        self, cluster: Cluster, before_ctl_stopped: Before
    ) -> None:
        """Without a remembered cluster it fails so too, within 90 s: no sbatch, nothing left."""
        log = new_path("/tmp")
        env = {"HPCKIT_COMMAND_LOG": log, "XDG_CACHE_HOME": new_path("/tmp")}
        begun_s = time.monotonic()
        done = hpckit(cluster, "submit", "--", "true", env=env)
        assert time.monotonic() - begun_s < 90
        assert (done.returncode, programs(cluster, log)) == (7, ["scontrol"])
        assert "error  scontrol cannot reach Slurm" in done.stderr
        assert "nothing was submitted" in done.stderr
        assert traces(cluster) == before_ctl_stopped.traces

    def test_the_status_of_an_ended_job(self, cluster: Cluster, before_ctl_stopped: Before) -> None:
        """How a job ended is known from the accounts, which are asked when squeue has failed."""
        told, asked = status_and_commands(cluster, before_ctl_stopped.failed)
        assert (told["state"], told["exit_code"]) == ("FAILED", 7)
        assert in_turn(asked) == ["squeue", "sacct"]

    def test_the_status_of_a_living_job(self, cluster: Cluster, before_ctl_stopped: Before) -> None:
        """A job that waits is what the accounts last knew of it."""
        assert status(cluster, before_ctl_stopped.waiting)["state"] == "PENDING"

    def test_logs(self, cluster: Cluster, before_ctl_stopped: Before) -> None:
        """The logs of a job are read without asking Slurm."""
        assert log_of(cluster, before_ctl_stopped.failed, 0) == "words\n"

    @pytest.mark.slow
    def test_a_cancellation(self, cluster: Cluster, before_ctl_stopped: Before) -> None:
        """To cancel fails with code 7, and says that Slurm was not reached."""
        done = hpckit(cluster, "cancel", before_ctl_stopped.waiting)
        assert done.returncode == 7
        assert "cannot reach Slurm" in done.stderr


def test_a_job_outlives_a_restart_of_slurmctld(cluster: Cluster) -> None:
    """A wait that began before slurmctld stopped ends well with the job when it is back."""
    gate = new_path()
    job_id = submit(cluster, *gated(f"echo here; {AT_GATE}", gate))["job_id"]
    assert eventually(lambda: "here" in log_of(cluster, job_id, 0))
    waiting = start(cluster, "wait", "--json", job_id)
    cluster.stop("ctl")
    open_gate(cluster, gate)
    cluster.start_host("ctl")
    cluster.wait_idle()
    code, _, words = ended(waiting)
    assert code == 0, words


def test_after_slurmctld_is_back(cluster: Cluster) -> None:
    """A job that waited while slurmctld was stopped waits still, and a new one runs."""
    waiting = submit(cluster, *HELD, "--", "true")["job_id"]
    with stopped(cluster, "ctl"):
        pass
    assert status(cluster, waiting)["state"] == "PENDING"
    assert submit(cluster, "--wait", "--", "true")["state"] == "COMPLETED"


# --- without slurmdbd ----------------------------------------------------------------------------


@pytest.fixture(scope="class")
def before_dbd_stopped(cluster: Cluster) -> Iterator[Before]:
    """Jobs from before slurmdbd was stopped; it is back when the class's tests have ended."""
    before = jobs_before(cluster)
    with stopped(cluster, "dbd"):
        yield before


class TestWithoutSlurmdbd:
    """slurmdbd does not run."""

    # The first: slurmctld forgets an ended job after MinJobAge.
    def test_the_status_of_an_ended_job(self, cluster: Cluster, before_dbd_stopped: Before) -> None:
        """The exit code of a job that ended lately is known from slurmctld, by scontrol."""
        told, asked = status_and_commands(cluster, before_dbd_stopped.failed)
        assert (told["state"], told["exit_code"]) == ("FAILED", 7)
        assert in_turn(asked)[:3] == ["squeue", "sacct", "scontrol"]

    def test_a_job_from_its_beginning_to_its_end(
        self, cluster: Cluster, before_dbd_stopped: Before
    ) -> None:
        """A job is submitted, runs, and ends with its own exit code."""
        done = hpckit(cluster, "submit", "--wait", "--json", "--", "sh", "-c", "exit 7")
        told = document(done)
        assert (told["state"], told["exit_code"], done.returncode) == ("FAILED", 7, 1)

    def test_the_status_of_a_living_job(self, cluster: Cluster, before_dbd_stopped: Before) -> None:
        """A job that waits is known from squeue."""
        told = status(cluster, submit(cluster, *HELD, "--", "true")["job_id"])
        assert (told["state"], told["slurm_reason"]) == ("PENDING", "BeginTime")
