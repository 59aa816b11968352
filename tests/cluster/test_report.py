"""`hpckit report` of jobs on the real Slurm, on GPUs that a fake driver makes up."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import CHECKOUT, Cluster, eventually
from tests.cluster.hpckit_on import document, hpckit, reached, submit

PROFILES = "/opt/hpckit/nvml-profiles"
NODE_FILE = "/etc/hpckit/node.toml"
BUSY_S, LATE_S = 26, 14
"""How long a job runs, and how long after its profile was written a GPU still works."""
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
    """Rule and subject of each finding."""
    return {(one["rule"], one["subject"]) for one in printed["findings"]}


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
    """A profile on a host: GPU2 unused, GPU5 hot, and GPU7 at work for LATE_S more seconds."""
    text = (CHECKOUT / "docker/fake-nvml/profiles/dgx-h100-troubled.toml").read_text()
    text = re.sub(r"^epoch_s = .*$", f"epoch_s = {int(time.time())}", text, flags=re.MULTILINE)
    head, _, last = text.partition("[gpu.7]")
    waves = r'"0:(\S+) 35:(\S+) 35:(\S+) 60:\S+"'
    last = re.sub(waves, rf'"0:\1 {LATE_S}:\2 {LATE_S}:\3 3600:\3"', last)
    path = "/tmp/troubled.toml"
    written = cluster.run(["tee", path], user="root", host=host, input=f"{head}[gpu.7]{last}")
    assert written.returncode == 0, written.stderr
    return path


def test_a_clean_job_has_no_finding_and_a_troubled_one_has_four(cluster: Cluster) -> None:
    """An unused GPU, a hot one, the rank behind it, an idle end: each is named, and no other."""
    path = troubled(cluster, "c2")
    busy = f"{PROFILES}/dgx-h100-busy.toml"
    with pretending(cluster, busy, "c1", "c4"), pretending(cluster, path, "c2"):
        sleep = ("--", "sleep", str(BUSY_S))
        clean = submit(cluster, *EIGHT, "--nodes", "2", *on("c[1,4]"), *sleep)
        bad = submit(cluster, *EIGHT, *on("c2"), *sleep)
        for job in (clean, bad):
            assert reached(cluster, job["job_id"], "COMPLETED", timeout_s=120)
        assert rules(report(cluster, clean["job_id"])) == set()
        assert rules(report(cluster, bad["job_id"])) == {
            ("gpu-never-used", "GPU2 on c2"),
            ("thermal-throttling", "GPU5 on c2"),
            ("straggler", "rank 5, GPU5 on c2"),
            ("late-idle", "GPU7 on c2"),
        }


def test_ranks_and_the_rest_add_up_to_the_gpus(cluster: Cluster) -> None:
    """Joules of all ranks and of the time without one are those of the GPUs, by the counters."""
    job = submit(cluster, *EIGHT, "--nodes", "2", "--wait", "--", "sleep", "3")
    printed = report(cluster, job["job_id"])
    gpu, parts = printed["energy"]["gpu"], printed["energy"]["conservation"]
    assert (gpu["source"], len(printed["gpus"]), len(printed["ranks"])) == ("counter", 16, 16)
    assert printed["job"]["synthetic"] is True
    ranks_j = sum(rank["energy"]["value_j"] for rank in printed["ranks"])
    assert abs(ranks_j - parts["ranks_j"]) < 1e-6 * gpu["value_j"]
    total_j = parts["ranks_j"] + parts["idle_remainder_j"]
    assert abs(total_j - gpu["value_j"]) < 1e-6 * gpu["value_j"]
    assert parts["ranks_j"] > 0.5 * gpu["value_j"]


def test_a_requeued_job_reports_both_incarnations(cluster: Cluster) -> None:
    """The first is lost, the second is not, and the job's energy is that of both."""
    script = "sleep $((6 - 3 * ${SLURM_RESTART_COUNT:-0}))"
    job = submit(cluster, *EIGHT, "--set", "slurm.requeue=true", "--", "sh", "-c", script)["job_id"]
    assert reached(cluster, job, "RUNNING")
    time.sleep(4)
    cluster.check(["scontrol", "requeue", job])
    assert reached(cluster, job, "COMPLETED", timeout_s=120)
    printed = report(cluster, job)
    lost = [(one["restart"], one["is_lost"]) for one in printed["incarnations"]]
    assert lost == [(0, True), (1, False)]
    energy = printed["energy"]
    both_j = energy["useful_gpu_j"] + energy["lost_gpu_j"]
    assert energy["lost_gpu_j"] > 0
    assert abs(both_j - energy["gpu"]["value_j"]) < 1e-6 * both_j


def test_a_node_that_dies_costs_its_own_end_alone(cluster: Cluster) -> None:
    """A node that is killed leaves what it had flushed; the report says so, and has the others."""
    more = ("--set", "slurm.requeue=false", *on("c[3-4]"))
    job = submit(cluster, *EIGHT, "--nodes", "2", *more, "--", "sleep", "60")["job_id"]
    assert reached(cluster, job, "RUNNING")
    time.sleep(9)
    cluster.kill("c4")
    try:
        assert reached(cluster, job, "NODE_FAIL", "FAILED", "CANCELLED", timeout_s=120)
        printed = report(cluster, job)
        ends = {rank["node"]: rank["ended_by"] for rank in printed["ranks"]}
        assert ends["c4"] == "sample"
        assert {one["node"] for one in printed["gpus"]} == {"c3", "c4"}
        assert any("c4" in sentence for sentence in printed["missing"]), printed["missing"]
        of_c4 = [one["held_s"] for one in printed["gpus"] if one["node"] == "c4"]
        assert min(of_c4) >= 3
    finally:
        cluster.start_host("c4")
        assert eventually(lambda: "c4" in cluster.check(["sinfo", "-hNt", "idle"]), timeout_s=90)


def test_the_sampler_is_no_step_of_the_report(cluster: Cluster) -> None:
    """Neither status nor report count the sampler's step among the job's."""
    job = submit(cluster, *EIGHT, "--wait", "--", "true")["job_id"]
    assert "hpckit-sampler" not in json.dumps(report(cluster, job))
