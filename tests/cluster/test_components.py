"""Heterogeneous jobs: components that meet, that end together, and that are told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster, eventually
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import (
    HELD,
    document,
    hpckit,
    log_of,
    new_path,
    nothing_lives,
    reached,
    submit,
)
from tests.cluster.traps import alike

EXAMPLE = CHECKOUT / "examples" / "components"
DIES = """
import os, sys, time
time.sleep(3)
print("no more")
sys.exit(200 if os.environ["RANK"] == "1" else 0)
"""
SERVES = """\
[[component]]
name = "server"
command = ["sh", "-c", {server}]
{keys}

[[component]]
name = "worker"
after = ["server"]
command = ["sh", "-c", {worker}]
"""


@pytest.fixture(scope="module", params=alike("bookworm", "forky", "trixie"))
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each release."""
    return cluster_of(request.param)


@pytest.fixture(scope="module")
def example(cluster: Cluster) -> str:
    """A copy of the example, readable for everybody."""
    folder = new_path()
    cluster.copy_in(EXAMPLE, folder)
    cluster.check(["chmod", "-R", "a+rX", folder], user="root")
    return folder


def two(cluster: Cluster, *, server: str, worker: str, keys: str = "") -> str:
    """A job file of two components that run these lines of shell."""
    text = SERVES.format(server=json.dumps(server), worker=json.dumps(worker), keys=keys)
    head = 'schema = "hpckit.job/1"\nname = "two"\n[resources]\ntime_limit = "5"\n'
    path = new_path()
    assert cluster.run(["tee", path], input=head + text).returncode == 0
    return path


def components(told: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    """How each component of a status document is, and its exit code."""
    return {one["component"]: (one["state"], one["exit_code"]) for one in told["components"]}


def status_of(cluster: Cluster, job_id: str) -> dict[str, Any]:
    """The document of `hpckit status --json`."""
    return document(hpckit(cluster, "status", "--json", job_id))


def test_three_components_meet(cluster: Cluster, example: str) -> None:
    """Rollouts on two nodes and a trainer on a third by a server on the fourth, which drains."""
    job = document(hpckit(cluster, "submit", "--wait", "--json", f"{example}/job.toml"))
    job_id = job["job_id"]
    assert job["state"] == "COMPLETED", log_of(cluster, job_id)
    told = components(status_of(cluster, job_id))
    assert told["rollout"] == told["trainer"] == ("COMPLETED", 0)
    assert told["server"] == ("CANCELLED", 0)  # asked to end, and well
    assert log_of(cluster, f"{job_id}+server", 0) == "drained after 40 samples\n"
    ranks = [log_of(cluster, f"{job_id}+rollout", rank) for rank in range(4)]
    assert ranks == [f"rollout {rank} of 4 brought 10 samples\n" for rank in range(4)]
    assert log_of(cluster, f"{job_id}+2", 1) == "trainer 1: mean 19.5\n"
    reports = document(hpckit(cluster, "report", "--json", job_id))["components"]
    assert {name: len(report["ranks"]) for name, report in reports.items()} == {
        "server": 1, "rollout": 4, "trainer": 2,
    }  # fmt: skip
    assert len(reports["rollout"]["nodes"]) == 2
    copy = hpckit(cluster, "report", "--from", job["folder"])
    assert (copy.returncode, "rollout" in copy.stdout) == (0, True), copy
    assert nothing_lives(cluster)


def test_one_that_fails_ends_the_others(cluster: Cluster, example: str) -> None:
    """The job has its whole code; the others are asked to end, have time for it, and say so."""
    folder = new_path()
    cluster.check(["cp", "-r", example, folder])
    assert cluster.run(["tee", f"{folder}/trainer.py"], input=DIES).returncode == 0
    waits = "import time\ntime.sleep(300)\n"
    assert cluster.run(["tee", f"{folder}/rollout.py"], input=waits).returncode == 0
    job = document(hpckit(cluster, "submit", "--wait", "--json", f"{folder}/job.toml"))
    job_id = job["job_id"]
    assert (job["state"], job["exit_code"]) == ("FAILED", 200), log_of(cluster, job_id)
    told = status_of(cluster, job_id)
    assert told["ended_s"] - told["started_s"] < 60
    assert components(told)["trainer"] == ("FAILED", 200)
    assert {components(told)[name][0] for name in ("server", "rollout")} == {"CANCELLED"}
    assert "trainer failed with exit code 200: stopping server, rollout" in log_of(cluster, job_id)
    assert log_of(cluster, f"{job_id}+server", 0) == "drained after 0 samples\n"
    assert log_of(cluster, f"{job_id}+trainer", 1) == "no more\n"
    assert nothing_lives(cluster)


def test_a_het_job_is_tracked(cluster: Cluster) -> None:
    """From where it waits to its end, each component by its own id; a part cannot be cancelled."""
    path = two(cluster, server="sleep 300", worker="sleep 300")
    job_id = submit(cluster, path, *HELD)["job_id"]
    told = reached(cluster, job_id, "PENDING")
    assert [one["job_id"] for one in told["components"]] == [f"{job_id}+0", f"{job_id}+1"]
    part = hpckit(cluster, "cancel", f"{job_id}+1")
    assert (part.returncode, f"hpckit cancel {job_id}" in part.stderr) == (1, True), part
    cluster.check(["scontrol", "update", f"jobid={job_id}", "starttime=now"])
    told = reached(cluster, job_id, "RUNNING")
    assert eventually(lambda: log_of(cluster, f"{job_id}+server", 0) is not None)
    nodes = {one["nodelist"] for one in told["components"]}
    assert len(nodes) == 2
    assert hpckit(cluster, "cancel", job_id).returncode == 0
    told = reached(cluster, job_id, "CANCELLED")
    assert {state for state, _ in components(told).values()} == {"CANCELLED"}
    assert nothing_lives(cluster)


def test_one_that_is_never_ready(cluster: Cluster) -> None:
    """Where what others wait for ends before it answers, the job fails at once and says so."""
    path = two(cluster, server="sleep 1", worker="echo began", keys="serve = { port = 8123 }")
    job = document(hpckit(cluster, "submit", "--wait", "--json", path))
    assert (job["state"], job["exit_code"]) == ("FAILED", 1)
    said = log_of(cluster, job["job_id"])
    assert "server: ended before it was ready" in said
    assert "began" not in said


def test_each_has_its_own_secrets(cluster: Cluster) -> None:
    """A component's secret is in its ranks alone, and in no folder after the end."""
    shows = 'echo "${WORD-none}"'
    path = two(cluster, server=shows, worker=shows, keys='environment = { secrets = ["WORD"] }')
    job = document(hpckit(cluster, "submit", "--wait", "--json", path, env={"WORD": "opensesame"}))
    said = {name: log_of(cluster, f"{job['job_id']}+{name}", 0) for name in ("server", "worker")}
    assert said == {"server": "opensesame\n", "worker": "none\n"}
    found = cluster.run(["grep", "-rl", "--exclude-dir=logs", "opensesame", job["folder"]])
    assert found.stdout == ""


def test_together_they_fit_or_are_refused(cluster: Cluster) -> None:
    """Components share no node: what each could have alone, all may not; and nothing is left."""
    path = two(cluster, server="true", worker="true")
    done = hpckit(cluster, "submit", "--nodes", "3", path)
    assert (done.returncode, "6" in done.stderr) == (5, True), done
    assert hpckit(cluster, "check", "--nodes", "3", path).returncode == 1


def test_one_cancelled_before_it_began(cluster: Cluster) -> None:
    """It is no array of tasks, whatever the accounts keep of it."""
    job_id = submit(cluster, two(cluster, server="true", worker="true"), *HELD)["job_id"]
    assert reached(cluster, job_id, "PENDING")["tasks"] == []
    assert "CANCELLED · cancelled" in hpckit(cluster, "cancel", job_id).stdout
    assert status_of(cluster, job_id)["tasks"] == []
