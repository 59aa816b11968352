"""What a fake driver plays on the cluster's nodes, and what is reported of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import CHECKOUT, Cluster, eventually
from tests.cluster.hpckit_on import document, hpckit, reached

BUSY = "/opt/hpckit/nvml-profiles/dgx-h100-busy.toml"
NODE_FILE = "/etc/hpckit/node.toml"
TROUBLED = "/tmp/troubled.toml"
BEGINS = (
    "--set",
    f"""environment.setup=['sed -i "s/^epoch_s.*/epoch_s = $(date +%s)/" {TROUBLED}']""",
)
"""The options by which the trouble begins with the job: who waits for it is not in its time."""
IN_TROUBLE = {
    ("gpu-never-used", "GPU2 on c2"),
    ("thermal-throttling", "GPU5 on c2"),
    ("straggler", "rank 5, GPU5 on c2"),
    ("late-idle", "GPU7 on c2"),
}
"""What is found of a job of eight ranks on `troubled` of c2."""
EIGHT = ("--ntasks-per-node", "8", "--gpus-per-node", "8", "--time", "7")


def on(nodelist: str) -> tuple[str, str]:
    """The option that puts a job on these nodes."""
    return ("--set", f'slurm.nodelist="{nodelist}"')


def report(cluster: Cluster, job_id: str) -> dict[str, Any]:
    """The document of `hpckit report --json`."""
    done = hpckit(cluster, "report", "--json", job_id)
    assert done.returncode == 0, done.stderr
    return document(done)


def reports(cluster: Cluster, *job_ids: str) -> list[dict[str, Any]]:
    """The documents of jobs that complete within minutes."""
    assert all(reached(cluster, job_id, "COMPLETED", timeout_s=400) for job_id in job_ids)
    return [report(cluster, job_id) for job_id in job_ids]


def wait_until_sampled(cluster: Cluster, job: dict[str, Any], *nodes: str) -> None:
    """Wait for the first samples of nodes and for the ledgers of `EIGHT` ranks on each."""
    files = {f"node-{node}.samples" for node in nodes}
    files |= {f"rank-{rank}.ledger" for rank in range(8 * len(nodes))}
    ask = ["ls", f"{job['folder']}/account/restart-0"]
    assert eventually(lambda: files <= set(cluster.run(ask).stdout.split())), files


def rules(printed: dict[str, Any]) -> set[tuple[str, str]]:
    """Rule and subject of each finding."""
    return {(one["rule"], one["subject"]) for one in printed["findings"]}


def sampled_in_time(play: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The reports of jobs that `play` lets run for some seconds, with samples of their begin.

    A machine may be too busy to start a sampler in time, which `coverage-low` rightly says of a
    short job; those that run longer can be told about.
    """
    for busy_s in (26, 80):
        printed = play(busy_s)
        if all(rule != "coverage-low" for one in printed for rule, _ in rules(one)):
            return printed
    return play(240)


@contextmanager
def pretending(cluster: Cluster, profile: str, *hosts: str) -> Iterator[None]:
    """The time in which the fake driver of some nodes plays another profile, a path on them."""
    line = f'nvml_profile = "{profile}"'
    before = {host: cluster.check(["cat", NODE_FILE], user="root", host=host) for host in hosts}
    try:
        for host in hosts:
            edit = ["sed", "-i", f"s,^nvml_profile.*,{line},", NODE_FILE]
            cluster.check(edit, user="root", host=host)
        yield
    finally:
        for host, text in before.items():
            cluster.run(["tee", NODE_FILE], user="root", host=host, input=text)


def troubled(cluster: Cluster, host: str, late_s: int) -> str:
    """A profile on a host: GPU2 unused, GPU5 hot, and GPU7 at work for the first `late_s` only."""
    text = (CHECKOUT / "docker/fake-nvml/profiles/dgx-h100-troubled.toml").read_text()
    head, _, last = text.partition("[gpu.7]")
    waves = r'"0:(\S+) 35:(\S+) 35:(\S+) 60:\S+"'
    last = re.sub(waves, rf'"0:\1 {late_s}:\2 {late_s}:\3 3600:\3"', last)
    written = cluster.run(["tee", TROUBLED], host=host, input=f"{head}[gpu.7]{last}")
    assert written.returncode == 0, written.stderr
    return TROUBLED


def added_up(printed: dict[str, Any]) -> tuple[int, int]:
    """How many GPUs and ranks a report has, whose joules by the counters are the same."""
    gpu, parts = printed["energy"]["gpu"], printed["energy"]["conservation"]
    assert (gpu["source"], printed["job"]["synthetic"]) == ("counter", True)
    ranks_j = sum(rank["energy"]["value_j"] for rank in printed["ranks"])
    assert abs(ranks_j - parts["ranks_j"]) < 1e-6 * gpu["value_j"]
    total_j = parts["ranks_j"] + parts["idle_remainder_j"]
    assert abs(total_j - gpu["value_j"]) < 1e-6 * gpu["value_j"]
    assert parts["ranks_j"] >= 0.5 * gpu["value_j"] * share_with_ranks(printed)
    return len(printed["gpus"]), len(printed["ranks"])


def share_with_ranks(printed: dict[str, Any]) -> float:
    """Which part of the time that GPUs were held ranks had them, of those whose end is known."""
    ended = [one for one in printed["ranks"] if one["ended_s"] is not None]
    assert ended, "no rank has an end"
    had_s = sum((one["ended_s"] - one["started_s"]) * len(one["gpus"]) for one in ended)
    assert had_s > 0
    share: float = had_s / sum(one["held_s"] for one in printed["gpus"])
    return share
