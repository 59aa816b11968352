from __future__ import annotations

import hashlib
import re

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster, eventually
from tests.cluster.hpckit_on import HELD, document, hpckit, log_of, new_path, status, submit

ALLREDUCE = CHECKOUT / "examples" / "allreduce" / "allreduce.py"
FOUR_BY_TWO = ("--nodes", "4", "--ntasks-per-node", "2")
RANKS = range(8)


@pytest.fixture
def allreduce(cluster: Cluster) -> str:
    """The path of the example's program, in a folder that every host sees."""
    path = f"{new_path()}.py"
    cluster.copy_in(ALLREDUCE, path)
    return path


def logs_by_rank(cluster: Cluster, job_id: str) -> list[str]:
    """What each of the eight ranks has in its own log."""
    return [log_of(cluster, job_id, rank) for rank in RANKS]


def accounted(cluster: Cluster, job_id: str) -> str:
    """The account that slurmctld charges for the job."""
    return cluster.check(["squeue", "--noheader", "--format=%a", f"--jobs={job_id}"]).strip()


def test_every_rank_has_a_log_of_its_own(cluster: Cluster) -> None:
    """Of eight plain ranks on four nodes each has its own output, two neighbours on each node."""
    say = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $NODE_RANK: $(hostname)"
    job = submit(cluster, *FOUR_BY_TWO, "--wait", "--", "sh", "-c", say)
    assert job["state"] == "COMPLETED"
    assert logs_by_rank(cluster, job["job_id"]) == [
        f"{rank} of 8, {rank % 2} of 2 on {rank // 2}: c{rank // 2 + 1}\n" for rank in RANKS
    ]


def test_a_sum_over_sockets(cluster: Cluster, allreduce: str) -> None:
    """Eight plain ranks on four nodes find one another, and each proves its sum right."""
    command = ("python3", allreduce, "--backend", "ring")
    job = submit(cluster, *FOUR_BY_TWO, "--wait", "--", *command)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    for rank, log in enumerate(logs_by_rank(cluster, job["job_id"])):
        assert log.startswith(f"rank {rank} of 8 on c{rank // 2 + 1}: sum ok (ring over sockets"), (
            log
        )


def test_the_code_of_the_rank_that_failed(cluster: Cluster, allreduce: str) -> None:
    """A rank's 9 is the job's exit code while seven others wait for it, and hpckit exits 1."""
    command = ("python3", allreduce, "--timeout-s", "600", "--fail-rank", "3", "--fail-code", "9")
    done = hpckit(cluster, "submit", "--wait", "--json", *FOUR_BY_TWO, "--", *command)
    job = document(done)
    assert (job["state"], job["exit_code"], done.returncode) == ("FAILED", 9, 1)


def test_status_names_the_step_that_failed(cluster: Cluster) -> None:
    """A moment after the end the accounts tell which srun failed, with which code and where."""
    done = hpckit(cluster, "submit", "--wait", "--json", "--nodes", "2", "--", "sh", "-c", "exit 7")
    job_id = document(done)["job_id"]
    assert eventually(lambda: status(cluster, job_id)["detail"] is not None)
    nodes = status(cluster, job_id)["nodelist"]
    shown = hpckit(cluster, "status", job_id).stdout
    # The sampler's step may come first: which number the ranks' step has is not always the same.
    assert re.search(rf"batch FAILED 7 · [01] FAILED 7 on {re.escape(nodes)}$", shown, re.MULTILINE)


@pytest.mark.slow
def test_a_rank_may_end_long_after_another(cluster: Cluster) -> None:
    """A rank that ends 70 s after the first one is not killed."""
    linger = "test $RANK = 0 || sleep 70; echo rank $RANK is done"
    job = submit(cluster, "--nodes", "2", "--wait", "--", "sh", "-c", linger)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    assert log_of(cluster, job["job_id"], 1) == "rank 1 is done\n"


def test_a_sum_over_mpi(cluster: Cluster) -> None:
    """Eight ranks of mpi4py on four nodes, joined by PMIx, agree on their sum."""
    if cluster.run(["python3", "-c", "import mpi4py"]).returncode != 0:
        pytest.skip("this image has no mpi4py: docker/cluster up --target mpi")
    program = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.rank, w.allreduce(w.rank))"
    launch = ("--set", "launch.kind=mpi", "--set", "launch.mpi=pmix")
    job = submit(cluster, *FOUR_BY_TWO, *launch, "--wait", "--", "python3", "-c", program)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    assert logs_by_rank(cluster, job["job_id"]) == [f"{rank} 28\n" for rank in RANKS]


def test_slurm_has_the_bytes_that_render_prints(cluster: Cluster) -> None:
    """What slurmctld keeps, and `show --script`, are byte for byte what `render` prints."""
    words = (*FOUR_BY_TWO, *HELD, "--gpus-per-node", "2", "--", "echo", "it's $HOME", "ü\n")
    rendered = hpckit(cluster, "render", *words).stdout
    assert rendered.startswith("#!/bin/bash\n")
    digest = hashlib.sha256(rendered.encode()).hexdigest()
    job_id = submit(cluster, *words)["job_id"]
    for printing in ("scontrol write batch_script $1 -", "hpckit show --script $1"):
        pipe = ["sh", "-c", f"{printing} | sha256sum", "sh", job_id]
        assert cluster.check(pipe).split()[0] == digest, printing


def test_ranks_see_the_gpus_that_slurm_gave(cluster: Cluster) -> None:
    """Slurm's CUDA_VISIBLE_DEVICES reaches the ranks, and the caller's stale one does not."""
    words = ("--nodes", "2", "--gpus-per-node", "2", "--wait", "--")
    stale = {"CUDA_VISIBLE_DEVICES": "7"}
    job = submit(cluster, *words, "printenv", "CUDA_VISIBLE_DEVICES", env=stale)
    assert [log_of(cluster, job["job_id"], rank) for rank in (0, 1)] == ["0,1\n", "0,1\n"]
    assert job["held_back"] == ["CUDA_VISIBLE_DEVICES"]


def test_stale_variables_are_held_back(cluster: Cluster) -> None:
    """What a shell has left of Slurm and NCCL does not reach the job, and is named."""
    stale = {
        "NCCL_IB_HCA": "stale",
        "SBATCH_EXPORT": "stale",
        "SLURM_CPU_BIND": "stale",
        "SLURM_NTASKS": "stale",
    }
    job = submit(cluster, "--wait", "--", "env", env={**stale, "MINE": "kept"})
    seen = log_of(cluster, job["job_id"], 0).splitlines()
    assert job["held_back"] == sorted(stale)
    assert "MINE=kept" in seen
    assert [line for line in seen if line.endswith("=stale")] == []


def test_held_back_variables_are_named_to_people(cluster: Cluster) -> None:
    """Without --json a submission lists the variables that it held back."""
    said = hpckit(cluster, "submit", *HELD, "--", "true", env={"NCCL_IB_HCA": "stale"}).stdout
    assert "blocked: NCCL_IB_HCA" in said


def test_sbatch_account_of_the_caller(cluster: Cluster) -> None:
    """SBATCH_ACCOUNT decides who pays where the script leaves that open."""
    job = submit(cluster, *HELD, "--", "true", env={"SBATCH_ACCOUNT": "proj2"})
    assert accounted(cluster, job["job_id"]) == "proj2"
    assert job["sbatch_defaults"] == ["SBATCH_ACCOUNT"]


def test_the_scripts_account_stands_over_the_callers(cluster: Cluster) -> None:
    """SBATCH_ACCOUNT does not touch a job that says itself who pays."""
    account = ("--set", "slurm.account=proj1")
    job = submit(cluster, *HELD, *account, "--", "true", env={"SBATCH_ACCOUNT": "proj2"})
    assert accounted(cluster, job["job_id"]) == "proj1"
    assert job["held_back"] == ["SBATCH_ACCOUNT"]
