"""pyslurm answers as Slurm's commands do, where the image has it (docker/pyslurm looks for it)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import document, hpckit, reached, status, submit

API = {"HPCKIT_SLURM_API": "pyslurm"}
ASK = """\
import json, sys, time
import msgspec
from hpckit.core.files import SystemClock
from hpckit.core.process import ProcessRunner
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.pyslurm_ask import SlurmLibrary, import_pyslurm

class Silent(ProcessRunner):
    def run(self, *words, **more):
        raise SystemExit(f"a command was asked: {words}")

ids = sys.argv[1:]
library = SlurmLibrary(Silent(), SystemClock(), import_pyslurm)
told, times = [], []
for slurm in (SlurmCli(ProcessRunner(), SystemClock()), library):
    questions = {
        "queue": lambda: slurm.queue(None),
        "accounts": lambda: slurm.accounts(ids, None),
        "partitions": lambda: slurm.partitions(None),
        "in_service": lambda: slurm.in_service(None),
    }
    told.append({name: msgspec.to_builtins(ask()) for name, ask in questions.items()})
    took = {}
    for name, ask in questions.items():
        begun = time.perf_counter()
        for _ in range(20):
            ask()
        took[name] = round((time.perf_counter() - begun) * 50, 2)
    times.append(took)
print(json.dumps({"told": told, "ms": times}))
"""


@pytest.fixture(scope="module", params=["trixie", "bookworm", "forky"])
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each release, whose image has pyslurm."""
    cluster = cluster_of(request.param)
    found = cluster.run(["/opt/hpckit/bin/python", "-c", "import pyslurm"])
    if found.returncode:
        pytest.skip(f"the image of {request.param} has no pyslurm: {found.stderr.splitlines()[-1]}")
    return cluster


def sbatch(cluster: Cluster, script: str, *options: str) -> str:
    """The id of a job whose script is called as hpckit calls those that it submits."""
    path = f"/shared/alice/submission-{uuid.uuid4().hex}.sbatch"
    cluster.check(["sh", "-c", f"printf '#!/bin/sh\\n%s\\n' \"$1\" > {path}", "sh", script])
    return cluster.check(["sbatch", "--parsable", *options, path]).strip()


@pytest.fixture
def jobs(cluster: Cluster) -> list[str]:
    """Jobs of alice's that run, wait, have ended each in its way, and two arrays; and one of bob's.

    Those whose ids are given are all in the accounts.
    """
    ran = [
        sbatch(cluster, "exit 0"),
        sbatch(cluster, "exit 7", "--partition=debug"),
        sbatch(cluster, "kill -9 $$"),
        sbatch(cluster, "sleep 600", "--nodes=2", "--nodelist=c[3-4]"),
    ]
    held = sbatch(cluster, "true", "--hold")
    cancelled = [
        sbatch(cluster, "sleep 600"),
        sbatch(cluster, "sleep 600", "--array=0-9%1"),
    ]
    arrays = [
        sbatch(cluster, "exit $SLURM_ARRAY_TASK_ID", "--array=0-9:3%2"),
        sbatch(cluster, "sleep 600", "--array=0-99%2"),
    ]
    sbatch(cluster, "true", "--begin=now+1hour")
    both = sbatch(cluster, "sleep 600", ":", "--nodes=1")
    cluster.check(["sbatch", "--hold", "--wrap=true"], user="bob")
    ask = ["squeue", "--noheader", "--states=RUNNING", "--format=%T", "--jobs"]
    running = [*ask, ",".join([*cancelled, both])]
    assert eventually(lambda: cluster.check(running).count("RUNNING") == 4)
    cluster.check(["scancel", held, *cancelled])
    ids = [*ran, *cancelled, *arrays]
    assert eventually(lambda: settled(cluster, ids)), cluster.check(["sacct", "--allocations"])
    return ids


def settled(cluster: Cluster, ids: list[str]) -> bool:
    """Whether the accounts know all that is to happen to these jobs."""
    ask = ["sacct", "-nXP", "--format=State", f"--jobs={','.join(ids)}"]
    said = cluster.check(ask).splitlines()
    ended = ["COMPLETED"] * 2 + ["FAILED"] * 5 + ["CANCELLED by 1001"] * 3
    return sorted(said) == sorted([*ended, *["RUNNING"] * 3, "PENDING"])


@pytest.fixture
def drained(cluster: Cluster, jobs: list[str]) -> Iterator[None]:
    """A node that is drained while a job runs on it, and another that is drained."""
    state = ["scontrol", "update", "nodename=c1,c3"]
    cluster.check([*state, "state=drain", "reason=test"], user="root", host="ctl")
    yield
    cluster.check([*state, "state=resume"], user="root", host="ctl")


def in_any_order(told: dict[str, Any]) -> dict[str, Any]:
    """The answers with what has no order in one: squeue sorts jobs by state."""
    for name in ("queue", "accounts"):
        told[name] = sorted(told[name], key=lambda job: (job["job_id"], job["task_index"] or 0))
    for partition in told["partitions"]:
        partition["groups"].sort(key=json.dumps)
    return told


def test_both_tell_the_same(cluster: Cluster, jobs: list[str], drained: None) -> None:
    """Jobs, accounts, partitions and nodes are the same values, and no command is asked."""
    done = json.loads(cluster.check(["/opt/hpckit/bin/python", "-c", ASK, *jobs]))
    commands, library = map(in_any_order, done["told"])
    print("milliseconds a question, by commands and by pyslurm:", *done["ms"])
    for name, answer in commands.items():
        assert library[name] == answer, name
    assert {job["state"] for job in commands["queue"]} >= {"RUNNING", "PENDING", "FAILED"}


def test_hpckit_asks_it(cluster: Cluster) -> None:
    """`status` by pyslurm says what it says by commands, and asks neither squeue nor sacct."""
    job = submit(cluster, "--", "sleep", "600")["job_id"]
    reached(cluster, job, "RUNNING")
    log = f"/tmp/{uuid.uuid4().hex}"
    told = status(cluster, job, env={**API, "HPCKIT_COMMAND_LOG": log})
    assert told == status(cluster, job)
    asked = [json.loads(line)["argv"][0] for line in cluster.read(log).splitlines()]
    assert [word.rpartition("/")[2] for word in asked if "python" not in word] == []


def test_without_a_configuration_commands_are_asked(cluster: Cluster) -> None:
    """The process in which libslurm finds no slurm.conf"""
    done = hpckit(cluster, "doctor", "--json", env={"SLURM_CONF": "/nowhere/slurm.conf"})
    (found,) = [one for one in document(done)["findings"] if one["subject"] == "pyslurm"]
    assert (found["level"], done.returncode) == ("note", 1)
    assert "/nowhere/slurm.conf" in found["text"], found
