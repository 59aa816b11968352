"""A job's share of a node, from Slurm's environment."""

from __future__ import annotations

import pytest

from hpckit.binding.plan_in_job import job_cpus, job_memory_bytes

MIB = 1024**2


@pytest.mark.parametrize(
    ("per_node", "node", "cpus"),
    [
        ("72(x2),36", "0", 72),
        ("72(x2),36", "1", 72),
        ("72(x2),36", "2", 36),
        ("72(x2),36", "3", None),
        ("8", "0", 8),
        ("", "0", None),
        ("eight", "0", None),
        ("8", "x", None),
    ],
)
def test_cpus_of_this_node(per_node: str, node: str, cpus: int | None) -> None:
    """SLURM_JOB_CPUS_PER_NODE is counted to this node's place in the job."""
    assert job_cpus({"SLURM_JOB_CPUS_PER_NODE": per_node, "SLURM_NODEID": node}) == cpus


@pytest.mark.parametrize(
    ("env", "limit"),
    [
        ({"SLURM_MEM_PER_NODE": "1000"}, 1000 * MIB),
        ({"SLURM_MEM_PER_NODE": "0"}, None),
        ({"SLURM_MEM_PER_CPU": "100"}, 800 * MIB),
        ({"SLURM_MEM_PER_GPU": "100", "SLURM_GPUS_ON_NODE": "4"}, 400 * MIB),
        ({"SLURM_MEM_PER_NODE": "0", "HPCKIT_MEM_PER_NODE": "1000"}, 1000 * MIB),
        ({"SLURM_MEM_PER_NODE": "0", "HPCKIT_MEM_PER_CPU": "100"}, 800 * MIB),
        ({"SLURM_MEM_PER_CPU": "100", "HPCKIT_MEM_PER_NODE": "0"}, None),
        ({}, None),
    ],
)
def test_memory_of_this_node(env: dict[str, str], limit: int | None) -> None:
    """Memory is that of the node, of each CPU or GPU, in MiB; 0 is all and so no limit; what the
    script says goes before what a step without limits has.
    """
    assert job_memory_bytes(env, 8) == limit
