"""What a job leaves of what it used: ledgers of its ranks, samples of its nodes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hpckit.spec.folder_in_job import SAMPLER_STEP
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import (
    AT_GATE,
    document,
    gated,
    hpckit,
    log_of,
    new_path,
    open_gate,
    reached,
    status,
    submit,
)

TWO_BY_TWO = ("--nodes", "2", "--ntasks-per-node", "2", "--gpus-per-node", "8")
SAMPLES = ("node-c1.samples", "node-c2.samples")
TOPOLOGIES = tuple(f"node-c{number}.topology.json" for number in range(1, 5))


def account(cluster: Cluster, job: dict[str, Any], folder: str = "restart-0") -> list[str]:
    """The names of the ledgers and sample files that an incarnation left."""
    listed = cluster.run(["ls", f"{job['folder']}/account/{folder}"])
    return sorted(name for name in listed.stdout.split() if name not in TOPOLOGIES)


def ledger(
    cluster: Cluster, job: dict[str, Any], rank: int, folder: str = "restart-0"
) -> list[dict[str, Any]]:
    """The lines of a rank's ledger."""
    text = cluster.read(f"{job['folder']}/account/{folder}/rank-{rank}.ledger")
    return [json.loads(line) for line in text.splitlines()]


def steps(cluster: Cluster, job: dict[str, Any]) -> list[str]:
    """The names of a job's steps, as Slurm's accounts have them once it has ended."""
    ask = ["sacct", "-nP", "--format=JobName", f"--jobs={job['job_id']}"]
    return cluster.check(ask).split()


def test_ranks_and_nodes_are_accounted(cluster: Cluster) -> None:
    """Four ranks on two nodes: each a ledger of its share of the GPUs, each node its samples."""
    job = submit(cluster, *TWO_BY_TWO, "--wait", "--", "sh", "-c", "sleep 1.5; exit 0")
    assert job["state"] == "COMPLETED"
    assert account(cluster, job) == [*SAMPLES, *(f"rank-{rank}.ledger" for rank in range(4))]
    of_node: dict[str, list[str]] = {}
    for rank in range(4):
        start, end = ledger(cluster, job, rank)
        assert (start["rank"], start["claim"], end["exit_code"]) == (rank, "local-rank", 0)
        of_node.setdefault(start["node"], []).extend(gpu["uuid"] for gpu in start["gpus"])
        for first, last in zip(start["gpus"], end["gpus"], strict=True):
            assert last["energy_mj"] > first["energy_mj"]
    assert {node: len(set(gpus)) for node, gpus in of_node.items()} == {"c1": 8, "c2": 8}
    assert SAMPLER_STEP in steps(cluster, job)


def test_nodes_leave_their_topology(cluster: Cluster) -> None:
    """Each node's is beside its samples, as `hpckit inspect` reads it."""
    job = submit(cluster, *TWO_BY_TWO, "--wait", "--", "sleep", "6")
    for number in (1, 2):
        path = f"{job['folder']}/account/restart-0/node-c{number}.topology.json"
        done = hpckit(cluster, "inspect", path, "--json")
        assert done.returncode == 0, done.stderr
        assert len(document(done)["gpus"]) == 8


def test_a_bare_wait_does_not_wait_for_the_sampler(cluster: Cluster) -> None:
    """A `wait` in the script's last trap, when the sampler still runs, ends at once."""
    setup = 'environment.setup=["trap wait EXIT"]'
    begun_s = time.monotonic()
    job = submit(cluster, "--time", "5", "--set", setup, "--wait", "--", "sleep", "1")
    assert job["state"] == "COMPLETED"
    assert time.monotonic() - begun_s < 150
    assert SAMPLER_STEP in steps(cluster, job)


@pytest.mark.parametrize(
    "words",
    [
        ("--mem", "300M"),
        ("--set", "resources.mem_per_cpu=100M", "--cpus-per-task", "2"),
        ("--set", "resources.mem_per_gpu=50M"),
        ("--set", "slurm.srun_extra={exact=true}", "--cpus-per-task", "1"),
        ("--exclusive",),
    ],
    ids=lambda words: words[-1],
)
def test_the_sampler_takes_nothing_that_the_command_needs(
    cluster: Cluster, words: tuple[str, ...]
) -> None:
    """However memory and CPUs are asked for, the command's step starts while the sampler runs."""
    gate = new_path()
    script = f"{AT_GATE}; echo ended"
    job = submit(cluster, *TWO_BY_TWO, *words, "--time", "2", *gated(script, gate))
    begun = eventually(lambda: set(SAMPLES) <= set(account(cluster, job)), timeout_s=180)
    ranks = eventually(lambda: len(account(cluster, job)) == len(SAMPLES) + 4, timeout_s=120)
    open_gate(cluster, gate)
    assert begun, cluster.read(f"{job['folder']}/logs/sampler.log")
    assert ranks, log_of(cluster, job["job_id"])
    assert reached(cluster, job["job_id"], "COMPLETED")


def test_scancel_is_not_held_up(cluster: Cluster) -> None:
    """The sampler's step ends with the command's, and ranks note that they were asked to end."""
    job = submit(cluster, *TWO_BY_TWO, "--", "sh", "-c", "exec sleep 120")
    assert eventually(lambda: set(SAMPLES) <= set(account(cluster, job)), timeout_s=180)
    all_four = {f"rank-{rank}.ledger" for rank in range(4)}
    assert eventually(lambda: all_four <= set(account(cluster, job)))
    cluster.check(["scancel", job["job_id"]])
    ask = ["squeue", "-h", "--states=RUNNING,COMPLETING", f"--jobs={job['job_id']}"]
    assert eventually(lambda: cluster.check(ask) == "", timeout_s=180)
    assert "Kill task failed" not in cluster.check(["sinfo", "--list-reasons"])
    assert [ledger(cluster, job, rank)[-1]["exit_code"] for rank in range(4)] == [143] * 4


def test_a_requeued_job_has_an_account_of_each_run(cluster: Cluster) -> None:
    """The first run's files stay as they are, the second has its own folder."""
    gate = new_path()
    job = submit(cluster, "--requeue", *gated(AT_GATE, gate))
    assert eventually(lambda: "rank-0.ledger" in account(cluster, job), timeout_s=180)
    cluster.check(["scontrol", "requeue", job["job_id"]])
    ended = eventually(lambda: ledger(cluster, job, 0)[-1].get("exit_code"), timeout_s=180)
    open_gate(cluster, gate)
    again = eventually(lambda: "rank-0.ledger" in account(cluster, job, "restart-1"), timeout_s=270)
    assert again
    reached(cluster, job["job_id"], "COMPLETED")
    assert ledger(cluster, job, 0, "restart-1")[-1]["exit_code"] == 0
    assert ended == ledger(cluster, job, 0)[-1]["exit_code"] == 143


def test_without_an_account_there_is_none(cluster: Cluster) -> None:
    """With --no-account no file is left, and Slurm knows of no further step."""
    job = submit(cluster, "--no-account", "--wait", "--", "true")
    assert account(cluster, job) == []
    assert SAMPLER_STEP not in steps(cluster, job)


def test_status_does_not_show_the_samplers_step(cluster: Cluster) -> None:
    """Of a job that failed the command's step is shown alone, by its name."""
    done = hpckit(cluster, "submit", "--wait", "--json", "--", "sh", "-c", "sleep 1; exit 7")
    detail = status(cluster, document(done)["job_id"])["detail"]
    assert detail is not None
    assert SAMPLER_STEP not in [step["name"] for step in detail["steps"]]
