from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpckit.script.launchers.torchrun import OWNED
from hpckit.script.launchers.torchrun import TORCHRUN as OPTIONS
from tests.cluster.cluster import FRAMEWORKS, Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import document, hpckit, log_of, new_path, status, submit
from tests.cluster.played import (
    BEGINS,
    BUSY,
    IN_TROUBLE,
    added_up,
    on,
    pretending,
    reports,
    rules,
    sampled_in_time,
    troubled,
)

PROGRAM = Path(__file__).with_name("torch_sum.py")
TORCHRUN = ("--nodes", "2", "--gpus-per-node", "4", "--launch", "torchrun")
RANKS = range(8)
FAILING = 5


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf) -> Cluster:
    """Debian 12 with PyTorch as pip installs it: Debian's own is built without torchrun's libuv."""
    return cluster_of("bookworm", target="torch", pip=FRAMEWORKS)


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> str:
    """The path of the program in a folder that every host sees."""
    path = f"{new_path()}.py"
    cluster.copy_in(PROGRAM, path)
    return path


def waited_for(cluster: Cluster, *command: str) -> dict[str, Any]:
    """What `submit --wait` says of eight ranks of `command` on two nodes, and its exit code."""
    words = ("submit", "--json", *TORCHRUN, "--wait", "--", "python3", *command)
    done = hpckit(cluster, *words)
    return {**document(done), "returncode": done.returncode}


def test_an_all_reduce(cluster: Cluster, program: str) -> None:
    """Eight ranks of torchrun agree on their sum; a node's rank is SLURM_PROCID; each has a log."""
    job = waited_for(cluster, program)
    assert (job["state"], job["exit_code"], job["returncode"]) == ("COMPLETED", 0, 0)
    logs = [log_of(cluster, job["job_id"], rank) for rank in RANKS]
    assert logs == [
        f"{rank} {rank // 4} {rank // 4} {rank % 4} c{rank // 4 + 1} {sum(RANKS) + 8}\n"
        for rank in RANKS
    ]


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        pytest.param("raise", 1, "ValueError: one of the ranks gives up", marks=pytest.mark.slow),
        ("7", 7, "exitcode  : 7"),
    ],
)
def test_a_rank_that_fails(cluster: Cluster, program: str, how: str, code: int, words: str) -> None:
    """The job of a rank that fails ends soon with that rank's code, while seven wait for it, and
    the log says why.
    """
    job = waited_for(cluster, program, str(FAILING), how)
    assert (job["state"], job["exit_code"], job["returncode"]) == ("FAILED", code, 1)
    assert status(cluster, job["job_id"])["exit_code"] == code
    assert words in log_of(cluster, job["job_id"])
    own = log_of(cluster, job["job_id"], FAILING)
    assert (words in own) == (how == "raise"), own


def test_every_option_of_torchrun_is_known(cluster: Cluster) -> None:
    """Whether an option takes a value decides what is the program: the table has all of them."""
    usage = cluster.check(["torchrun", "--help"]).partition("Torch Distributed")[0]
    valued = {name: bool(value) for name, value in re.findall(r"\[--?([a-z-]+)( [^]]+)?\]", usage)}
    assert len(valued) > 20
    known = {*OPTIONS.valued, *OPTIONS.flags, *OPTIONS.as_module, *OWNED}
    assert {name for name in valued if name not in known} == set()
    ours = {name: value for name, value in valued.items() if name not in OWNED}
    assert ours == {name: OPTIONS.takes_value(name) for name in ours}


def test_every_worker_keeps_a_ledger(cluster: Cluster, program: str) -> None:
    """Each of torchrun's workers has the GPU of its local rank, and both ends."""
    job = waited_for(cluster, program)
    gpus = set()
    for rank in RANKS:
        text = cluster.read(f"{job['folder']}/account/restart-0/rank-{rank}.ledger")
        start, end = (json.loads(line) for line in text.splitlines())
        assert (start["rank"], start["claim"], end["exit_code"]) == (rank, "local-rank", 0)
        gpus.add((start["node"], *(gpu["uuid"] for gpu in start["gpus"])))
    assert [len(one) for one in gpus] == [2] * len(RANKS)


@pytest.mark.slow
def test_what_is_reported_of_workers(cluster: Cluster) -> None:
    """A clean node has no finding, each trouble of another is named, and ranks add up to GPUs."""
    nap = ("--launch", "torchrun", "--gpus-per-node", "8", "--time", "7")
    path = f"{new_path()}.py"

    def play(busy_s: int) -> list[dict[str, Any]]:
        cluster.run(["tee", path], input=f"import time\ntime.sleep({busy_s})\n")
        played = troubled(cluster, "c2", busy_s // 2)
        with pretending(cluster, BUSY, "c1"), pretending(cluster, played, "c2"):
            clean = submit(cluster, *nap, *on("c1"), "--", "python3", path)["job_id"]
            bad = submit(cluster, *nap, *on("c2"), *BEGINS, "--", "python3", path)["job_id"]
            return reports(cluster, clean, bad)

    clean, bad = sampled_in_time(play)
    assert (rules(clean), rules(bad)) == (set(), IN_TROUBLE)
    assert added_up(clean) == (8, 8)
