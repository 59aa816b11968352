"""Whatever happens to hpckit or slurmctld meanwhile: an intent is one Slurm job or none."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hpckit.jobs.status import CONFIRM_S
from hpckit.slurm.values import submission_in
from tests.cluster.cluster import Cluster
from tests.sizes import size

DRIVER = Path(__file__).with_name("kill_driver.py")
KILLED = {
    "early": size(quick=4, whole=40),
    "before": size(quick=4, whole=40),
    "during": size(quick=6, whole=40),
    "after": size(quick=4, whole=40),
    "late": size(quick=4, whole=30),
}
UNKILLED = size(quick=4, whole=10)
RESTARTED = size(quick=15, whole=50)
ENV = {"HPCKIT_SITE": "docker"}


@pytest.fixture
def scratch(cluster: Cluster) -> str:
    """A folder of alice's that this test has for itself, and her job folders emptied."""
    path = cluster.check(["mktemp", "-d", "/shared/alice/kills-XXXXXX"]).strip()
    cluster.check(["rm", "-rf", "/shared/alice/hpckit", "/home/alice/.local/state/hpckit"])
    cluster.copy_in(DRIVER, f"{path}/driver.py")
    return path


def driven(cluster: Cluster, scratch: str, stages: dict[str, int]) -> list[dict[str, Any]]:
    """What became of submissions with hpckit killed at these stages."""
    words = [f"{stage}={count}" for stage, count in stages.items()]
    argv = ["python3", f"{scratch}/driver.py", scratch, *words]
    done = cluster.untraced.run(argv, env=ENV, timeout_s=560)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def intents(cluster: Cluster) -> dict[str, float]:
    """Uuid → when, of every intent that was written."""
    script = "cat /shared/alice/hpckit/*/intent.json | python3 -c '{}'".format(
        "import json, sys; text = sys.stdin.read(); decoder = json.JSONDecoder(); found = []\n"
        "while text.strip():\n"
        "    one, end = decoder.raw_decode(text.lstrip()); text = text.lstrip()[end:]\n"
        '    found.append([one["uuid"], one["created_s"]])\n'
        "print(json.dumps(found))"
    )
    return dict(json.loads(cluster.check(["sh", "-c", script])))


def listed(cluster: Cluster, *options: str) -> list[dict[str, Any]]:
    """Every job that hpckit lists."""
    done = cluster.run(["hpckit", "jobs", "--all", "--json", *options], env=ENV, timeout_s=120)
    assert done.returncode == 0, done.stderr
    jobs: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return jobs


def slurms_own(cluster: Cluster) -> list[tuple[str, str]]:
    """Id and uuid of every job that Slurm's accounts have and hpckit submitted."""
    argv = ["sacct", "-X", "-n", "-P", "--delimiter=|", "-S", "now-1hour", "-o", "JobID,SubmitLine"]
    # Other tests' commands may have several lines, the further ones of which begin no record.
    rows = [line.partition("|") for line in cluster.check(argv).splitlines()]
    return [(job_id, uuid) for job_id, _, line in rows if (uuid := submission_in(line)[0])]


def assert_each_intent_is_one_job_or_none(cluster: Cluster, scratch: str) -> None:
    """Wait until every intent is certain, then compare the index with Slurm's accounts."""
    written = intents(cluster)
    youngest_s = max(written.values())
    time.sleep(max(0.0, youngest_s + CONFIRM_S + 2 - time.time()))
    jobs = listed(cluster, "--rebuild")
    own = [(job_id, uuid) for job_id, uuid in slurms_own(cluster) if uuid in written]
    assert Counter(uuid for _, uuid in own).most_common(1)[0][1] == 1, "an intent became two jobs"
    assert {job["submission"] for job in jobs} == set(written), "an intent is not in the index"
    confirmed = {job["submission"]: job["job_id"] for job in jobs if job["job_id"].isdigit()}
    assert confirmed == {uuid: job_id for job_id, uuid in own}, "index and Slurm differ"
    rest = {job["state"] for job in jobs if job["submission"] not in confirmed}
    assert rest <= {"NOT_SUBMITTED"}, f"not defined: {rest}"


def submitted_while_slurmctld_restarts(cluster: Cluster, scratch: str) -> set[str]:
    """The ids of submissions of which each is one job, or refused without a trace."""
    told: list[dict[str, Any]] = []
    stages = {"none": RESTARTED}
    worker = threading.Thread(target=lambda: told.extend(driven(cluster, scratch, stages)))
    worker.start()
    time.sleep(4)
    cluster.restart("ctl")
    worker.join()
    assert len(told) == RESTARTED
    assert {each["returncode"] for each in told} <= {0, 7}, told
    started = [each["out"].strip() for each in told if each["returncode"] == 0]
    assert started, "no submission went through"
    assert len(set(started)) == len(started)
    return set(started)


def test_submissions_with_kills_and_a_restart(cluster: Cluster, scratch: str) -> None:
    """With hpckit killed around sbatch and slurmctld restarted, each is one job or NOT_SUBMITTED.

    What became of all of them is certain at one time: the wait for it is two minutes.
    """
    told = driven(cluster, scratch, {**KILLED, "none": UNKILLED})
    killed = Counter(each["stage"] for each in told if each["killed"])
    # In the other stages the kill meets a living process by chance.
    assert (killed["before"], killed["after"]) == (KILLED["before"], KILLED["after"]), killed
    unkilled = [each for each in told if each["stage"] == "none"]
    assert all(each["returncode"] == 0 and each["out"].strip().isdigit() for each in unkilled)
    before_s = time.time()
    young = [job for job in listed(cluster) if job["submitted_s"] > before_s - CONFIRM_S + 5]
    assert not [job for job in young if job["state"] == "NOT_SUBMITTED"], "declared dead too soon"
    started = submitted_while_slurmctld_restarts(cluster, scratch)
    assert_each_intent_is_one_job_or_none(cluster, scratch)
    jobs = listed(cluster)
    assert started <= {job["job_id"] for job in jobs}
    states = Counter(job["state"] for job in jobs)
    # The stages whose outcome is certain: stalled before sbatch spoke, and after it had.
    assert states["NOT_SUBMITTED"] >= killed["before"]
    assert states["COMPLETED"] >= killed["after"] + len(unkilled), states
