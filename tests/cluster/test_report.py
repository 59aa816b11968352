"""`hpckit report` of jobs on the real Slurm, on GPUs that a fake driver makes up."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import reached, submit
from tests.cluster.played import (
    BEGINS,
    BUSY,
    EIGHT,
    IN_TROUBLE,
    added_up,
    on,
    pretending,
    report,
    reports,
    rules,
    sampled_in_time,
    troubled,
    wait_until_sampled,
)


def test_a_clean_job_has_no_finding_and_a_troubled_one_has_four(cluster: Cluster) -> None:
    """An unused GPU, a hot one, the rank behind it, an idle end: each is named, and no other."""

    def play(busy_s: int) -> list[dict[str, Any]]:
        path = troubled(cluster, "c2", busy_s // 2)
        with pretending(cluster, BUSY, "c1", "c4"), pretending(cluster, path, "c2"):
            sleep = ("--", "sleep", str(busy_s))
            clean = submit(cluster, *EIGHT, "--nodes", "2", *on("c[1,4]"), *sleep)["job_id"]
            bad = submit(cluster, *EIGHT, *on("c2"), *BEGINS, *sleep)["job_id"]
            return reports(cluster, clean, bad)

    clean, bad = sampled_in_time(play)
    assert (rules(clean), rules(bad)) == (set(), IN_TROUBLE)


def test_ranks_and_the_rest_add_up_to_the_gpus(cluster: Cluster) -> None:
    """Joules of all ranks and of the time without one are those of the GPUs, by the counters."""

    def play(length_s: int) -> dict[str, Any]:
        job = submit(cluster, *EIGHT, "--nodes", "2", "--wait", "--", "sleep", str(length_s))
        return report(cluster, job["job_id"])

    printed = play(3)
    if printed["energy"]["gpu"]["source"] != "counter":
        printed = play(90)  # of a short job a sampler that began late misses too much
    assert added_up(printed) == (16, 16)


def test_a_requeued_job_reports_both_incarnations(cluster: Cluster) -> None:
    """The first is lost, the second is not, and the job's energy is that of both."""
    script = 'test -n "$SLURM_RESTART_COUNT" || sleep 200; sleep 3'
    more = ("--set", "slurm.requeue=true", *on("c1"))
    job = submit(cluster, *EIGHT, *more, "--", "sh", "-c", script)
    wait_until_sampled(cluster, job, "c1")
    time.sleep(4)
    cluster.check(["scontrol", "requeue", job["job_id"]])
    (printed,) = reports(cluster, job["job_id"])
    lost = [(one["restart"], one["is_lost"]) for one in printed["incarnations"]]
    assert lost == [(0, True), (1, False)]
    energy = printed["energy"]
    both_j = energy["useful_gpu_j"] + energy["lost_gpu_j"]
    assert energy["lost_gpu_j"] > 0
    assert abs(both_j - energy["gpu"]["value_j"]) < 1e-6 * both_j


def test_a_node_that_dies_costs_its_own_end_alone(cluster: Cluster) -> None:
    """A node that is killed leaves what it had flushed; the report says so, and has the others."""
    more = ("--set", "slurm.requeue=false", *on("c[3-4]"))
    job = submit(cluster, *EIGHT, "--nodes", "2", *more, "--", "sleep", "200")
    wait_until_sampled(cluster, job, "c3", "c4")
    time.sleep(9)
    cluster.kill("c4")
    try:
        reached(cluster, job["job_id"], "NODE_FAIL", "FAILED", "CANCELLED", timeout_s=300)
        printed = report(cluster, job["job_id"])
        ends = {rank["node"]: rank["ended_by"] for rank in printed["ranks"]}
        assert ends["c4"] == "sample"
        assert {one["node"] for one in printed["gpus"]} == {"c3", "c4"}
        assert any("c4" in sentence for sentence in printed["missing"]), printed["missing"]
        of_c4 = [one["held_s"] for one in printed["gpus"] if one["node"] == "c4"]
        assert min(of_c4) >= 3
    finally:
        cluster.start_host("c4")
        assert eventually(lambda: "c4" in cluster.check(["sinfo", "-hNt", "idle"]), timeout_s=270)


def test_the_sampler_is_no_step_of_the_report(cluster: Cluster) -> None:
    """Neither status nor report count the sampler's step among the job's."""
    job = submit(cluster, *EIGHT, "--wait", "--", "true")["job_id"]
    assert "hpckit-sampler" not in json.dumps(report(cluster, job))
