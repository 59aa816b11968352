"""What a shell inside another job leaves in the environment, and what it does to the next job."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.traps import MIDDLE, NEW, OLD, alike, completes, gres_site, naive_job, on, says


@pytest.fixture
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of the release that a test names."""
    return cluster_of(suite)


@on(NEW)
def test_gpus_per_node(cluster: Cluster) -> None:
    """With SLURM_GPUS_PER_NODE around, srun --gres=gpu of 26.05 is fatal; hpckit holds it back."""
    leaked = {"SLURM_GPUS_PER_NODE": "8", "SBATCH_GPUS_PER_NODE": "8"}
    fatal = "--gpus-per-node and --gres=gpu are mutually exclusive"
    assert fatal in says(cluster, "srun", "--gres=gpu:2", "true", env=leaked)
    assert fatal in naive_job(cluster, "--gpus-per-node=2", run="--gres=gpu:1 true")
    completes(cluster, *gres_site(cluster), "--gpus-per-node", "2", env=leaked)


@on(*alike(MIDDLE, NEW))
def test_cpus_per_task(cluster: Cluster) -> None:
    """SLURM_CPUS_PER_TASK and SLURM_TRES_PER_TASK end a later srun; hpckit holds both back."""
    leaked = {"SLURM_CPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "cpu=8"}
    words = says(cluster, "srun", "true", env=leaked)
    assert "cpus-per-task set by two different environment variables" in words
    completes(cluster, "--cpus-per-task", "2", env=leaked)


@on(*alike(OLD, MIDDLE, NEW))
def test_memory(cluster: Cluster) -> None:
    """A job with --mem from a shell with SLURM_MEM_PER_CPU ends at srun; hpckit's completes."""
    leaked = {"SLURM_MEM_PER_CPU": "100"}
    words = naive_job(cluster, "--mem=500", run="true", env=leaked)
    fatal = "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive"
    assert fatal in words
    completes(cluster, "--mem", "500M", env=leaked)


@on(*alike(OLD, MIDDLE, NEW))
def test_ntasks_per_gpu(cluster: Cluster) -> None:
    """A job from a shell with SLURM_NTASKS_PER_GPU ends at srun; hpckit's completes."""
    leaked = {"SLURM_NTASKS_PER_GPU": "1"}
    words = naive_job(cluster, "--ntasks-per-node=2", run="true", env=leaked)
    assert "SLURM_NTASKS_PER_NODE is mutually exclusive with --ntasks-per-gpu" in words
    completes(cluster, "--ntasks-per-node", "2", env=leaked)
