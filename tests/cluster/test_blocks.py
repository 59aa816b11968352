from __future__ import annotations

import re

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import (
    AT_GATE,
    gated,
    hpckit,
    log_of,
    new_path,
    open_gate,
    reached,
    submit,
)
from tests.cluster.traps import completes, refused, says


@pytest.fixture(scope="module", params=["trixie", "forky"])
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster whose topology is blocks, on a release that has them."""
    return cluster_of(request.param, topology="block")


def test_topology(cluster: Cluster) -> None:
    """c1 and c2 are one block, c3 and c4 the other, and the two make a larger one."""
    text = cluster.check(["scontrol", "show", "topology"])
    found = dict(re.findall(r"(?:BlockName|AggregatedBlock)=(\S+) .*?Nodes=(\S+)", text))
    assert found == {"b1": "c[1-2]", "b2": "c[3-4]", "b[1-2]": "c[1-4]"}


def test_a_segment_is_one_block(cluster: Cluster) -> None:
    """A segment of two nodes gets the two of a block."""
    nodes = cluster.check(["srun", "--nodes=2", "--segment=2", "hostname"]).split()
    assert sorted(nodes) in (["c1", "c2"], ["c3", "c4"])


def test_nodes_that_segments_do_not_fill(cluster: Cluster) -> None:
    """26.05 refuses 3 nodes in segments of 2, and hpckit says which numbers would do; 4 run."""
    segment = ("--set", "slurm.segment=2")
    if cluster.check(["sbatch", "--version"]).split()[-1] >= "26.05":
        words = says(cluster, "sbatch", "--test-only", "--nodes=3", "--segment=2", "--wrap=true")
        assert "--segment=2 does not fit the job size (3)" in words
        assert "--nodes 2 or 4" in refused(cluster, "--nodes", "3", *segment)
    assert completes(cluster, "--nodes", "4", *segment)["state"] == "COMPLETED"


def test_a_job_smaller_than_its_segment(cluster: Cluster) -> None:
    """Slurm 24.11 would never start it on blocks, and hpckit refuses it; 26.05 takes it."""
    naive = cluster.run(["sbatch", "--test-only", "--nodes=1", "--segment=2", "--wrap=true"])
    options = ("--nodes", "1", "--set", "slurm.segment=2", "--test-only")
    done = hpckit(cluster, "submit", *options, "--", "true")
    old = cluster.check(["sbatch", "--version"]).split()[-1] < "26.05"
    assert (naive.returncode != 0, done.returncode) == (old, 5 if old else 0)
    assert ("rejects a segment of 2 nodes in a job of 1 node" in done.stderr) == old


SITE = (
    'schema = "hpckit.site/1"\nname = "blocks"\njob_root = "~/jobs"\n[slurm]\ntopology = "block"\n'
)


def test_a_tensor_group_stays_in_one_block(cluster: Cluster) -> None:
    """With one node of a block taken, a group of two nodes gets both of the other."""
    folder = new_path("/tmp")
    cluster.check(["mkdir", folder])
    cluster.run(["tee", f"{folder}/blocks.toml"], input=SITE)
    gate = new_path("/shared/alice")
    other = submit(cluster, "--nodelist=c1", "--time=5", "--exclusive", *gated(AT_GATE, gate))
    assert reached(cluster, other["job_id"], "RUNNING")
    words = ("--site-dir", folder, "--site", "blocks", "--nodes=2", "--ntasks-per-node=2",
             "--set=parallel.tensor=4", "--time=5", "--wait")  # fmt: skip
    job = submit(cluster, *words, "--", "sh", "-c", 'echo "$SLURMD_NODENAME"')
    open_gate(cluster, gate)
    assert "--segment=2" in cluster.read(f"{job['folder']}/job.sbatch")
    assert [log_of(cluster, job["job_id"], rank).strip() for rank in range(4)] == [
        "c3", "c3", "c4", "c4"
    ]  # fmt: skip
