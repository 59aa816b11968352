"""Answers of Slurm whose form follows the release, and what hpckit asks for instead."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import Cluster, stopped
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import failed_job, reached, status_and_commands, submit
from tests.cluster.traps import MIDDLE, NEW, OLD, alike, on


@pytest.fixture
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """A cluster of the release that a test names."""
    return cluster_of(suite)


@on(OLD, *alike(MIDDLE, NEW))
def test_a_state_is_a_word_or_a_list(cluster: Cluster, suite: str) -> None:
    """Squeue --json gives a state as a word on 22.05, later in a list; the text that hpckit asks
    for has the same word on every release.
    """
    job_id = submit(cluster, "--", "sleep", "60")["job_id"]
    reached(cluster, job_id, "RUNNING")
    jobs = json.loads(cluster.check(["squeue", "--json"]))["jobs"]
    state = next(job["job_state"] for job in jobs if str(job["job_id"]) == job_id)
    assert state == ("RUNNING" if suite == OLD else ["RUNNING"])
    told, (squeue,) = status_and_commands(cluster, job_id)
    assert (told["state"], squeue[0]) == ("RUNNING", "squeue")
    assert "--json" not in squeue
    assert f"{job_id}\x1fRUNNING\x1f" in cluster.check(squeue)


@on(OLD, *alike(MIDDLE, NEW))
def test_scontrol_without_json(cluster: Cluster, suite: str) -> None:
    """Scontrol of 22.05 has no --json; hpckit, which asks it for the exit code while slurmdbd
    does not run, asks for text and is answered on every release.
    """
    job_id = failed_job(cluster)
    done = cluster.run(["scontrol", "show", "job", job_id, "--json"])
    assert ("unrecognized option '--json'" in done.stderr) is (suite == OLD)
    with stopped(cluster, "dbd"):
        told, asked = status_and_commands(cluster, job_id)
    assert (told["state"], told["exit_code"]) == ("FAILED", 7)
    (scontrol,) = [argv for argv in asked if argv[0] == "scontrol"]
    assert "--json" not in scontrol


@on(OLD, *alike(MIDDLE, NEW))
def test_a_field_that_sacct_does_not_have(cluster: Cluster, suite: str) -> None:
    """Sacct before 25.05 has no SegmentSize and answers nothing; the fields that hpckit asks it for
    are answered on every release, so that scontrol is not asked for the exit code.
    """
    job_id = failed_job(cluster)
    done = cluster.run(["sacct", f"--jobs={job_id}", "--format=State,SegmentSize"])
    assert ('Invalid field requested: "SegmentSize"' in done.stderr) is (suite != NEW)
    told, asked = status_and_commands(cluster, job_id)
    assert (told["state"], told["exit_code"]) == ("FAILED", 7)
    assert [argv[0] for argv in asked] == ["squeue", "sacct", "sacct"]
    assert "--json" in asked[2]  # for the steps: it names no field
