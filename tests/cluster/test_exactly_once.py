"""Whatever happens to hpckit or slurmctld meanwhile: an intent is one Slurm job or none."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hpckit.decide.job_status import CONFIRM_S
from hpckit.model.job_folder import submission_in
from tests.cluster.cluster import Cluster

DRIVER = Path(__file__).with_name("kill_driver.py")
KILLED = {"early": 40, "before": 40, "during": 40, "after": 40, "late": 30}
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
    return [(job_id, uuid) for job_id, _, line in rows if (uuid := submission_in(line))]


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


@pytest.mark.slow
def test_two_hundred_submissions_with_kills(cluster: Cluster, scratch: str) -> None:
    """Of 200 submissions, 190 killed around sbatch, each is one job or NOT_SUBMITTED."""
    begun_s = time.time()
    told = driven(cluster, scratch, {**KILLED, "none": 10})
    assert len(told) == 200
    killed = Counter(one["stage"] for one in told if one["killed"])
    assert all(killed[stage] >= 10 for stage in KILLED), killed
    unkilled = [one for one in told if one["stage"] == "none"]
    assert all(one["returncode"] == 0 and one["out"].strip().isdigit() for one in unkilled)
    before_s = time.time()
    young = [job for job in listed(cluster) if job["submitted_s"] > before_s - CONFIRM_S + 5]
    assert not [job for job in young if job["state"] == "NOT_SUBMITTED"], "declared dead too soon"
    assert_each_intent_is_one_job_or_none(cluster, scratch)
    states = Counter(job["state"] for job in listed(cluster))
    # The stages whose outcome is certain: 40 stalled before sbatch spoke, 40 after it had.
    assert states["NOT_SUBMITTED"] >= killed["before"]
    assert states["COMPLETED"] >= killed["after"] + len(unkilled), (states, time.time() - begun_s)


@pytest.mark.slow
def test_slurmctld_restarts_meanwhile(cluster: Cluster, scratch: str) -> None:
    """Of 50 submissions while slurmctld restarts, each is one job, or refused without a trace."""
    told: list[dict[str, Any]] = []
    worker = threading.Thread(target=lambda: told.extend(driven(cluster, scratch, {"none": 50})))
    worker.start()
    time.sleep(4)
    cluster.restart("ctl")
    worker.join()
    assert len(told) == 50
    assert {one["returncode"] for one in told} <= {0, 7}, told
    started = [one["out"].strip() for one in told if one["returncode"] == 0]
    assert started, "no submission went through"
    assert len(set(started)) == len(started)
    assert_each_intent_is_one_job_or_none(cluster, scratch)
    assert set(started) <= {job["job_id"] for job in listed(cluster)}
