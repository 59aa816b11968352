"""Options that one release of Slurm takes and another does not: what a naive call meets, and ours.

docs/reference/version-traps.md has these tests as a table.
"""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import HELD, document, hpckit, log_of, status, submit
from tests.cluster.traps import (
    MIDDLE,
    NEW,
    OLD,
    alike,
    completes,
    gres_site,
    key,
    naive_job,
    on,
    refused,
    says,
)

TEST = ("sbatch", "--test-only", "--wrap=true")
SLEEP_S = 6
STEP_CPUS = 'scontrol show step "$SLURM_JOB_ID.$SLURM_STEP_ID" | grep -o "CPUs=[0-9]*"'
JOB_MEMORY = 'scontrol show job "$SLURM_JOB_ID" | grep "^ *[Aloc]*TRES=" | grep -o "mem=[^,]*"'


@pytest.fixture
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of the release that a test names."""
    return cluster_of(suite)


# --- GPUs --------------------------------------------------------------------------------------


@on(NEW)
@pytest.mark.parametrize("at_site", ["docker", "gres"])
def test_gres_beside_gpus_per_node(cluster: Cluster, at_site: str) -> None:
    """26.05 refuses --gres=gpu beside --gpus-per-node; hpckit says one, in the site's spelling."""
    words = says(cluster, *TEST, "--gres=gpu:8", "--gpus-per-node=8")
    assert "--gpus-per-node and --gres=gpu are mutually exclusive" in words
    site = gres_site(cluster) if at_site == "gres" else ()
    job = completes(cluster, *site, "--gpus-per-node", "8", run="echo $CUDA_VISIBLE_DEVICES")
    assert log_of(cluster, job["job_id"], 0) == "0,1,2,3,4,5,6,7\n"


@on(*alike(OLD, MIDDLE, NEW))
def test_gpus_per_task(cluster: Cluster) -> None:
    """With --gpus-per-task a rank sees one GPU; hpckit's ranks see all that the node gives."""
    say = "echo $CUDA_VISIBLE_DEVICES"
    argv = ("srun", "--ntasks=2", "--gpus-per-task=1", "sh", "-c", say)
    naive = says(cluster, *argv, fails=False).split()
    assert [len(one.split(",")) for one in naive] == [1, 1]
    job = completes(cluster, "--gpus-per-node", "2", "--ntasks-per-node", "2", run=say)
    ours = [log_of(cluster, job["job_id"], rank).split(",") for rank in range(2)]
    assert ours[0] == ours[1] and len(ours[0]) == 2


@on(*alike(OLD, MIDDLE, NEW))
def test_ntasks_per_gpu(cluster: Cluster) -> None:
    """--ntasks-per-gpu and --ntasks-per-node exclude each other; hpckit counts ranks by node."""
    words = says(cluster, *TEST, "--gpus=2", "--ntasks-per-gpu=1", "--ntasks-per-node=2")
    assert "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu" in words
    said = refused(cluster, *key("slurm.extra.ntasks-per-gpu", 1))
    assert "instead: resources.ntasks_per_node" in said
    job = completes(cluster, "--gpus-per-node", "2", "--ntasks-per-node", "2", run="echo $RANK")
    assert [log_of(cluster, job["job_id"], rank) for rank in range(2)] == ["0\n", "1\n"]


@on(*alike(OLD, MIDDLE, NEW))
def test_cpus_per_gpu(cluster: Cluster) -> None:
    """--cpus-per-gpu and --cpus-per-task exclude each other; hpckit writes the second alone."""
    words = says(cluster, *TEST, "--gpus=1", "--cpus-per-gpu=2", "--cpus-per-task=2")
    assert "--cpus-per-gpu" in words and "mutually exclusive" in words
    said = refused(cluster, *key("slurm.extra.cpus-per-gpu", 2))
    assert "instead: resources.cpus_per_task" in said
    completes(cluster, "--gpus-per-node", "1", "--cpus-per-task", "2")


# --- CPUs and memory ---------------------------------------------------------------------------


@on(OLD)
def test_cpus_per_task_of_a_step(cluster: Cluster) -> None:
    """Srun of 22.05 does not take over the job's --cpus-per-task; hpckit says it to srun too."""
    options = ("--ntasks=2", "--cpus-per-task=4")
    assert set(naive_job(cluster, *options, run=f"--exact sh -c '{STEP_CPUS}'").split()) == {
        "CPUs=2"
    }
    job = completes(cluster, "--ntasks-per-node", "2", "--cpus-per-task", "4", run=STEP_CPUS)
    assert log_of(cluster, job["job_id"], 0) == "CPUs=8\n"


@on(*alike(OLD, MIDDLE, NEW))
def test_memory_of_a_whole_node(cluster: Cluster) -> None:
    """--exclusive grants DefMemPerCPU a CPU; hpckit's job has all of the node's memory."""
    naive = says(cluster, "srun", "--exclusive", "sh", "-c", JOB_MEMORY, fails=False)
    assert naive == "mem=62.50G\n"
    job = completes(cluster, "--exclusive", run=JOB_MEMORY)
    assert log_of(cluster, job["job_id"], 0) == "mem=1000000M\n"


@on(OLD, *alike(MIDDLE, NEW))
def test_exclusive_beside_oversubscribe(cluster: Cluster, suite: str) -> None:
    """From 23.02 on --exclusive and --oversubscribe exclude each other; hpckit takes the first."""
    words = says(cluster, *TEST, "--exclusive", "--oversubscribe", fails=suite != OLD)
    fatal = "--exclusive and --oversubscribe options are mutually exclusive"
    assert (fatal in words) is (suite != OLD)
    said = refused(cluster, "--exclusive", *key("slurm.extra.oversubscribe", "true"))
    assert "resources.exclusive (the two are mutually exclusive)" in said
    completes(cluster, "--exclusive")


# --- placement ---------------------------------------------------------------------------------


@on(OLD)
def test_segment_before_24_05(cluster: Cluster) -> None:
    """22.05 does not know --segment: hpckit says since when."""
    assert "unrecognized option '--segment=2'" in says(cluster, *TEST, "--nodes=2", "--segment=2")
    said = refused(cluster, "--nodes", "2", *key("slurm.segment", 2))
    assert "sbatch of Slurm 22.05.8 does not have it (new in 24.05)" in said


@on(*alike(MIDDLE, NEW))
def test_arbitrary_distribution(cluster: Cluster) -> None:
    """From 23.11 on --distribution=arbitrary excludes --nodes; hpckit refuses it beforehand."""
    options = ("--nodes=1", "--ntasks=1", "--nodelist=c1", "--distribution=arbitrary")
    words = says(cluster, *TEST, *options)
    assert "--nodes is incompatible with --distribution=arbitrary" in words
    said = refused(cluster, *key("slurm.extra.distribution", "arbitrary"))
    assert "sbatch rejects the two together from Slurm 23.11 on" in said
    said = refused(cluster, *key("launch.distribution", "arbitrary"))
    assert "expected block, cyclic or plane=N" in said


# --- steps -------------------------------------------------------------------------------------


@on(*alike(OLD, MIDDLE))
def test_wait_for_children(cluster: Cluster) -> None:
    """Srun before 25.05 ends at --wait-for-children; hpckit says so before the job waits for it."""
    words = naive_job(cluster, run="--wait-for-children true")
    assert "unrecognized option '--wait-for-children'" in words
    said = refused(cluster, *key("slurm.srun_extra.wait-for-children", "true"))
    assert "does not have it (new in 25.05)" in said


@on(*alike(MIDDLE, NEW))
def test_rank_binding(cluster: Cluster) -> None:
    """Srun from 24.11 on ignores --cpu-bind=rank; hpckit notes it, and the job runs."""
    words = says(cluster, "srun", "--cpu-bind=rank", "true", fails=False)
    assert "Ignoring --cpu-bind=rank. Rank binding is obsolete." in words
    option = key("slurm.srun_extra.cpu-bind", "rank")
    done = hpckit(cluster, "submit", *option, "--wait", "--", "true")
    assert done.returncode == 0
    assert "--cpu-bind=rank: srun of Slurm" in done.stdout + done.stderr


@on(NEW)
def test_a_rank_that_fails(cluster: Cluster) -> None:
    """A plain srun waits for the ranks that a failed one leaves; hpckit's ends them."""
    fail = "test $SLURM_PROCID = 1 || exit 3; exec sleep"
    begun_s = time.monotonic()
    says(cluster, "srun", "--ntasks=2", "sh", "-c", f"{fail} {SLEEP_S}")
    assert time.monotonic() - begun_s >= SLEEP_S
    command = ("sh", "-c", f"{fail} 600")
    done = hpckit(cluster, "submit", "--json", "--ntasks-per-node", "2", "--wait", "--", *command)
    seen = status(cluster, document(done)["job_id"])
    assert (seen["state"], seen["exit_code"]) == ("FAILED", 3)


@on(*alike(OLD, NEW))
def test_an_array_above_the_limit(cluster: Cluster) -> None:
    """Sbatch refuses an index of MaxArraySize and more; hpckit submits the array in parts."""
    words = says(cluster, *TEST, "--array=0-149", "--hold")
    assert "Invalid job array specification" in words
    job = submit(cluster, *HELD, "--array", "0-149", "--", "true")
    assert len(status(cluster, job["job_id"])["part_ids"]) == 2
