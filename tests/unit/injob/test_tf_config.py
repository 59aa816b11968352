"""TF_CONFIG, which the ranks of a job make together; run from the packed archive."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.unit.injob.conftest import Run, Start

SHOW = ("sh", "-c", 'echo "$TF_CONFIG"')
ENTRY = ("rank", "--from", "slurm", "--tf-config", "--")


def of_rank(rank_env: dict[str, str], rank: int) -> dict[str, str]:
    """The environment of a rank of four on two nodes, all on this host."""
    return {**rank_env, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % 2),
            "SLURM_NODEID": str(rank // 2), "SLURMD_NODENAME": f"n{rank // 2}",
            "MASTER_PORT": "61000"}  # fmt: skip


def test_all_ranks_know_all(start: Start, rank_env: dict[str, str]) -> None:
    """Each is a worker of one cluster, at its number, and listens at a port of its own."""
    begun = [start(*ENTRY, *SHOW, env=of_rank(rank_env, rank)) for rank in range(4)]
    configs: list[dict[str, Any]] = []
    for process in begun:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        configs.append(json.loads(out))
    assert [config["task"] for config in configs] == [
        {"type": "worker", "index": rank} for rank in range(4)
    ]
    (workers,) = {tuple(config["cluster"]["worker"]) for config in configs}
    assert [worker.partition(":")[0] for worker in workers] == ["n0", "n0", "n1", "n1"]
    assert len({worker.partition(":")[2] for worker in workers}) == 4


def test_two_jobs_on_a_node_do_not_meet(
    start: Start, rank_env: dict[str, str], tmp_path: Path
) -> None:
    """A rank's port is kept from the moment at which it is told, also while nobody listens."""
    alone = {**rank_env, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0",
             "SLURM_NODEID": "0", "SLURM_TASKS_PER_NODE": "1", "MASTER_PORT": "61000"}  # fmt: skip
    wait = ("sh", "-c", 'echo "$TF_CONFIG"; read -r _')
    other = tmp_path / "other"
    (other / "logs").mkdir(parents=True)
    jobs = [
        start(*ENTRY, *wait, env={**alone, "HPCKIT_JOB_FOLDER": folder}, stdin=-1)
        for folder in (alone["HPCKIT_JOB_FOLDER"], str(other))
    ]
    told = [json.loads(job.stdout.readline()) for job in jobs if job.stdout is not None]
    for job in jobs:
        job.communicate(b"\n", timeout=30)
    first, second = (one["cluster"]["worker"][0] for one in told)
    assert first != second


def test_a_rank_that_knows_no_number(run: Run) -> None:
    """Nothing is started alone that was to be one of many."""
    done = run("rank", "--from", "slurm", "--tf-config", "--", sys.executable, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no TF_CONFIG" in done.stderr
