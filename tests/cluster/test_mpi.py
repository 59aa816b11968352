"""Ranks that talk by MPI: none starts alone without a word, whatever srun has of plugins."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import document, hpckit, log_of
from tests.cluster.landed import verdicts
from tests.cluster.traps import alike

FOUR = ("--nodes", "2", "--ntasks-per-node", "2", "--launch", "mpi")
ONE_OF_FOUR = ("as planned", "world size 4 on each rank")
COUNT = ("python3", "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)")


@pytest.fixture(params=alike("bookworm", "forky", "trixie"))
def cluster(request: pytest.FixtureRequest, cluster_of: ClusterOf) -> Cluster:
    """A cluster of each release, whose MpiDefault is none."""
    return cluster_of(request.param)


def plugins(cluster: Cluster) -> set[str]:
    """The plugins of srun but for Cray's, whose library is not here."""
    listed = cluster.run(["srun", "--mpi=list"])
    return {"pmix", "pmi2"} & set((listed.stdout + listed.stderr).split())


def test_a_job_that_names_no_plugin_is_refused(cluster: Cluster) -> None:
    """At no site, so that nothing names one: with those that there are as the fix."""
    done = cluster.run(["hpckit", "submit", "--site", "none", *FOUR, "--", "true"])
    assert (done.returncode, done.stdout) == (5, "")
    assert "every rank would be process 0 of 1" in done.stderr
    assert all(f'launch.mpi = "{name}"' in done.stderr for name in plugins(cluster))
    words = ["hpckit", "check", "--json", "--site", "none", *FOUR, "--", "true"]
    findings = document(cluster.run(words))["findings"]
    (grave,) = (one for one in findings if one["severity"] == "error")
    assert "process 0 of 1" in grave["because"]


def test_each_plugin_gives_the_world_that_was_planned(cluster: Cluster) -> None:
    """By the variables that a library of that plugin reads; by MPI itself where that is PMIx's."""
    for name in sorted(plugins(cluster)):
        count = COUNT if name == "pmix" else ("true",)
        words = ("--set", f"launch.mpi={name}", "--wait", "--", *count)
        job = document(hpckit(cluster, "submit", "--json", *FOUR, *words))
        assert job["state"] == "COMPLETED", log_of(cluster, job["job_id"])
        assert verdicts(cluster, job)["world"] == ONE_OF_FOUR
        if name == "pmix":
            assert [log_of(cluster, job["job_id"], rank) for rank in range(4)] == ["4\n"] * 4


def test_ranks_that_do_not_find_each_other_are_told(cluster: Cluster) -> None:
    """A job that says `none` itself is started, and the proof at its start says what it is."""
    words = ("--set", "launch.mpi=none", "--wait", "--", "true")
    job = document(hpckit(cluster, "submit", "--json", *FOUR, *words))
    verdict, because = verdicts(cluster, job)["world"]
    assert verdict == "differs"
    assert because.startswith("rank 0 finds neither PMIx nor PMI: MPI sees it as rank 0 of 1")
    assert "placement  world  differs" in log_of(cluster, job["job_id"])
