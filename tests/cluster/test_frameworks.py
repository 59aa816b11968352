"""Each framework's own library finds its ranks: the examples, on two nodes of a real Slurm."""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import CHECKOUT, FRAMEWORKS, Cluster, eventually
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import (
    document,
    hpckit,
    log_of,
    new_path,
    nothing_lives,
    reached,
    status,
    submit,
)
from tests.sizes import size

EXAMPLES = ("accelerate", "deepspeed", "jax", "ray", "tensorflow")
BUSY = pytest.param("ray", marks=pytest.mark.slow)
"""Ray gives a node 30 s to start, which two cores that run other tests beside may not keep."""
ABORTING = pytest.param("accelerate", marks=pytest.mark.slow)
"""Gloo's threads have aborted its processes as they exited, after their result."""
SLOW = pytest.param("deepspeed", marks=pytest.mark.slow)
"""Four processes that load DeepSpeed take a minute of two busy cores."""
KINDS = (ABORTING, "jax", "tensorflow", SLOW, BUSY)
MPI_SUM = (
    "from mpi4py import MPI; world = MPI.COMM_WORLD;"
    "print('sum', world.allreduce(world.rank + 1), 'of', world.size)"
)
STARTS = size(quick=1, whole=20)
SOON_S = 60


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf) -> Cluster:
    """Debian 12 with all of them, as pip installs them."""
    return cluster_of("bookworm", target="torch", pip=FRAMEWORKS)


@pytest.fixture(scope="module")
def programs(cluster: Cluster) -> dict[str, str]:
    """The path of each example in a folder that every host sees."""
    paths = {}
    for kind in EXAMPLES:
        paths[kind] = f"{new_path()}.py"
        cluster.copy_in(CHECKOUT / "examples" / kind / "train.py", paths[kind])
    paths["allreduce"] = f"{new_path()}.py"
    cluster.copy_in(CHECKOUT / "examples/allreduce/allreduce.py", paths["allreduce"])
    return paths


def words(kind: str, program: str, *args: str, nodes: int = 2) -> tuple[str, ...]:
    """The options and the command of two ranks a node, of Ray one."""
    each = () if kind == "ray" else ("--ntasks-per-node", "2")
    return ("--nodes", str(nodes), *each, "--cpus-per-task", "2", "--launch", kind,
            "--", "python3", program, *args)  # fmt: skip


def leftovers(cluster: Cluster) -> str:
    """The processes of alice's jobs on all nodes that have a framework's program."""
    found = ""
    for node in ("c1", "c2"):
        found += cluster.check(["sh", "-c", "pgrep -u alice -a 'raylet|gcs_server|python3' || :"],
                               user="root", host=node)  # fmt: skip
    return found


@pytest.mark.parametrize("start", range(STARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_the_same_on_all_ranks(
    cluster: Cluster, programs: dict[str, str], kind: str, start: int
) -> None:
    """The library counts as many ranks as were planned, and all end with the same weights."""
    del start
    job = document(hpckit(cluster, "submit", "--json", "--wait", *words(kind, programs[kind])))
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0), log_of(cluster, job["job_id"])
    if kind == "ray":
        assert "2 nodes (c1 c2): sum 3, expected 3" in log_of(cluster, job["job_id"], 0)
        return
    for rank in range(4):
        said = f"rank {rank} of 4: weights -0.250, equal on all: True"
        assert said in log_of(cluster, job["job_id"], rank)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(STARTS))
@pytest.mark.parametrize("kind", ["mpi", "plain", "torchrun"])
def test_four_ranks_agree_on_a_sum(
    cluster: Cluster, programs: dict[str, str], kind: str, start: int
) -> None:
    """By MPI itself, or by torch over gloo at the address and port that each rank was given."""
    del start
    four = ["--nodes", "2", "--ntasks-per-node", "2", "--launch", kind]
    command, said = ["python3", programs["allreduce"]], "sum ok (gloo through torch, "
    if kind == "mpi":
        four += ["--set", "launch.mpi=pmix"]
        command, said = ["/usr/bin/python3", "-c", MPI_SUM], "sum 10 of 4"
    job = document(hpckit(cluster, "submit", "--json", "--wait", *four, "--", *command))
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0), log_of(cluster, job["job_id"])
    for rank in range(4):
        assert said in log_of(cluster, job["job_id"], rank)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_dies_ends_the_job(
    cluster: Cluster, programs: dict[str, str], kind: str
) -> None:
    """Soon, with its code and its last words, and no process is left on any node."""
    fails = ("--fail",) if kind == "ray" else ("--fail-rank", "1")
    begun_s = time.monotonic()
    job = document(
        hpckit(cluster, "submit", "--json", "--wait", *words(kind, programs[kind], *fails))
    )
    took_s = time.monotonic() - begun_s
    assert (job["state"], job["exit_code"]) == ("FAILED", 1)
    assert took_s < 2 * SOON_S
    said = log_of(cluster, job["job_id"], 0 if kind == "ray" else 1)
    assert "gives up, as asked" in said
    assert eventually(lambda: leftovers(cluster) == "", timeout_s=SOON_S), leftovers(cluster)


@pytest.mark.slow
def test_a_cancelled_ray_leaves_nothing(cluster: Cluster, programs: dict[str, str]) -> None:
    """Its daemons end on both nodes, which Slurm would count as the step's."""
    job = submit(cluster, *words("ray", programs["ray"])[:-2], "sh", "-c", "echo up; sleep 600")
    assert eventually(lambda: "up" in log_of(cluster, job["job_id"], 0))
    hpckit(cluster, "cancel", job["job_id"])
    reached(cluster, job["job_id"], "CANCELLED")
    assert eventually(lambda: leftovers(cluster) == "", timeout_s=SOON_S), leftovers(cluster)


@pytest.mark.parametrize("kind", ["tensorflow", BUSY])
def test_three_jobs_of_a_node_do_not_meet(
    cluster: Cluster, programs: dict[str, str], kind: str
) -> None:
    """Those that choose more ports than one: each job counts its own ranks alone."""
    node = ("--set", "slurm.nodelist=c1")
    jobs = [submit(cluster, *node, *words(kind, programs[kind], nodes=1)) for _ in range(3)]
    for job in jobs:
        ended = reached(cluster, job["job_id"], "COMPLETED", "FAILED")
        assert ended["state"] == "COMPLETED", log_of(cluster, job["job_id"])
    assert nothing_lives(cluster)


def test_a_launcher_that_is_not_there(cluster: Cluster) -> None:
    """The cause and a shell's code, not those of the launchers that the first one took along."""
    setup = ("--set", 'environment.setup=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]')
    job = document(
        hpckit(cluster, "submit", "--json", "--wait", "--nodes", "2", "--ntasks-per-node", "2",
               "--launch", "torchrun", *setup, "--", "python3", "train.py")
    )  # fmt: skip
    assert (job["state"], job["exit_code"]) == ("FAILED", 127)
    assert status(cluster, job["job_id"])["exit_code"] == 127
    assert "torchrun: not found" in log_of(cluster, job["job_id"])
