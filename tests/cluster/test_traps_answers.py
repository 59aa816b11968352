"""Answers of Slurm whose form follows the release, and what hpckit reads from each."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import reached, submit
from tests.cluster.traps import MIDDLE, NEW, OLD, completes, on


@pytest.fixture
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of the release that a test names."""
    return cluster_of(suite)


@on(OLD, MIDDLE, NEW)
def test_a_state_is_a_word_or_a_list(cluster: Cluster, suite: str) -> None:
    """Squeue --json gives a job's state as a word on 22.05, later in a list; hpckit reads both."""
    job_id = submit(cluster, "--", "sleep", "60")["job_id"]
    assert reached(cluster, job_id, "RUNNING")["state"] == "RUNNING"
    jobs = json.loads(cluster.check(["squeue", "--json"]))["jobs"]
    state = next(job["job_state"] for job in jobs if str(job["job_id"]) == job_id)
    assert state == ("RUNNING" if suite == OLD else ["RUNNING"])


@on(OLD, MIDDLE, NEW)
def test_scontrol_without_json(cluster: Cluster, suite: str) -> None:
    """Scontrol of 22.05 has no --json; what hpckit says of a job, it says on every release."""
    job = completes(cluster)
    done = cluster.run(["scontrol", "show", "job", job["job_id"], "--json"])
    assert ("unrecognized option '--json'" in done.stderr) is (suite == OLD)
    assert reached(cluster, job["job_id"], "COMPLETED")["exit_code"] == 0


@on(OLD, MIDDLE, NEW)
def test_a_field_that_sacct_does_not_have(cluster: Cluster, suite: str) -> None:
    """Sacct before 25.05 has no SegmentSize and answers nothing; hpckit's question is answered."""
    job = completes(cluster)
    done = cluster.run(["sacct", f"--jobs={job['job_id']}", "--format=State,SegmentSize"])
    assert ('Invalid field requested: "SegmentSize"' in done.stderr) is (suite != NEW)
    cluster.check(["rm", f"{job['folder']}/result.json"])
    assert reached(cluster, job["job_id"], "COMPLETED")["exit_code"] == 0
