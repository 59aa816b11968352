"""What a fake driver plays on the cluster's nodes, and what is reported of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.hpckit_on import document, hpckit

BUSY = "/opt/hpckit/nvml-profiles/dgx-h100-busy.toml"
NODE_FILE = "/etc/hpckit/node.toml"
BUSY_S, LATE_S = 26, 14
"""How long a job runs, and how long after its begin a GPU still works."""
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
EIGHT = ("--ntasks-per-node", "8", "--gpus-per-node", "8", "--time", "5")


def on(nodelist: str) -> tuple[str, str]:
    """The option that puts a job on these nodes."""
    return ("--set", f'slurm.nodelist="{nodelist}"')


def report(cluster: Cluster, job_id: str) -> dict[str, Any]:
    """The document of `hpckit report --json`."""
    done = hpckit(cluster, "report", "--json", job_id)
    assert done.returncode == 0, done.stderr
    return document(done)


def rules(printed: dict[str, Any]) -> set[tuple[str, str]]:
    """Rule and subject of each finding about what ran.

    A machine that is too busy to start a sampler within 10 s is rightly found to have done so.
    """
    found = {(one["rule"], one["subject"]) for one in printed["findings"]}
    return {(rule, subject) for rule, subject in found if rule != "coverage-low"}


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


def troubled(cluster: Cluster, host: str) -> str:
    """A profile on a host: GPU2 unused, GPU5 hot, and GPU7 at work for the first LATE_S seconds."""
    text = (CHECKOUT / "docker/fake-nvml/profiles/dgx-h100-troubled.toml").read_text()
    head, _, last = text.partition("[gpu.7]")
    waves = r'"0:(\S+) 35:(\S+) 35:(\S+) 60:\S+"'
    last = re.sub(waves, rf'"0:\1 {LATE_S}:\2 {LATE_S}:\3 3600:\3"', last)
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
    assert parts["ranks_j"] > 0.5 * gpu["value_j"]
    return len(printed["gpus"]), len(printed["ranks"])
