"""What hpckit does with a plain job, on the other releases of Slurm; the rest runs on 24.11."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import document, hpckit, log_of, reached, status, submit
from tests.cluster.traps import alike

VERSIONS = {"bookworm": "22.05.8", "forky": "26.05."}
"""forky still gets releases: the last number moves."""
TASKS = range(3)
FAILING = 2


@pytest.fixture(scope="module", params=VERSIONS)
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian release that the hosts run."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of that release."""
    return cluster_of(suite)


def test_version(cluster: Cluster, suite: str) -> None:
    """The cluster runs the Slurm that this Debian release has."""
    said = cluster.check(["sinfo", "--version"])
    assert said.startswith(f"slurm-wlm {VERSIONS[suite]}")


def test_ranks(cluster: Cluster) -> None:
    """`submit --wait` of two nodes with two ranks each completes, and each rank has its log."""
    say = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE: $(hostname)"
    words = ("--nodes", "2", "--ntasks-per-node", "2", "--wait", "--", "sh", "-c", say)
    job = submit(cluster, *words)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    assert [log_of(cluster, job["job_id"], rank) for rank in range(4)] == [
        f"{rank} of 4, {rank % 2} of 2: c{rank // 2 + 1}\n" for rank in range(4)
    ]


@pytest.mark.parametrize("suite", alike(*VERSIONS), indirect=True)
def test_gpus(cluster: Cluster) -> None:
    """A rank sees the GPUs that it asked for."""
    words = ("--gpus-per-node", "2", "--wait", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    job = submit(cluster, *words)
    assert log_of(cluster, job["job_id"], 0) == "0,1\n"


def test_a_job_that_fails(cluster: Cluster) -> None:
    """A rank's 9 is the exit code that `hpckit status` gives, and `submit --wait` exits 1."""
    command = ("sh", "-c", 'echo "rank $RANK"; test $RANK = 0 || { sleep 2; exit 9; }')
    done = hpckit(cluster, "submit", "--json", "--nodes", "2", "--wait", "--", *command)
    job_id = document(done)["job_id"]
    seen = status(cluster, job_id)
    assert (seen["state"], seen["exit_code"], done.returncode) == ("FAILED", 9, 1)
    assert {"rank 0", "rank 1"} <= set(log_of(cluster, job_id).splitlines())


@pytest.mark.parametrize("suite", alike(*VERSIONS), indirect=True)
def test_cancel(cluster: Cluster) -> None:
    """`hpckit cancel` ends a running job, and no step of it is left."""
    job_id = submit(cluster, "--nodes", "2", "--", "sleep", "600")["job_id"]
    reached(cluster, job_id, "RUNNING")
    done = hpckit(cluster, "cancel", "--json", job_id)
    assert (done.returncode, document(done)["state"]) == (0, "CANCELLED")
    ask = ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job_id}"]
    assert eventually(lambda: not cluster.run(ask).stdout.split())


def test_an_array(cluster: Cluster) -> None:
    """Each task of an array has its state, its exit code and its log."""
    task = f"echo task $SLURM_ARRAY_TASK_ID; test $SLURM_ARRAY_TASK_ID != {FAILING} || exit 3"
    words = ("submit", "--json", "--array", f"{TASKS[0]}-{TASKS[-1]}", "--wait")
    done = hpckit(cluster, *words, "--", "sh", "-c", task)
    job_id = document(done)["job_id"]
    # 22.05's sacct may not have every task yet: then squeue alone says how it ended.
    tasks = status(cluster, job_id)["tasks"]
    assert [(task["task"], task["state"], task["exit_code"]) for task in tasks] == [
        (task, "FAILED", 3) if task == FAILING else (task, "COMPLETED", 0) for task in TASKS
    ]
    assert [log_of(cluster, f"{job_id}_{task}", 0) for task in TASKS] == [
        f"task {task}\n" for task in TASKS
    ]
