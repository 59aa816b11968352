from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.leaves import HOSTNAME_ORDER, LEAVES, all_reduce_s, placed

pytestmark = pytest.mark.slow
BYTES = 1_000_000
AT_LEAST = 3


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf) -> Cluster:
    """Eight nodes on two leaves behind one shaped uplink."""
    return cluster_of(fabric="leaves")


def test_slurm_knows_the_leaves(cluster: Cluster) -> None:
    """The tree that slurmctld reports is the one that is shaped, names taking turns."""
    told = cluster.check(["scontrol", "show", "topology"])
    for leaf, nodes in LEAVES.items():
        numbers = ",".join(node[1:] for node in nodes)
        assert f"SwitchName={leaf} Level=0 LinkSpeed=1 Nodes=c[{numbers}]" in told


def test_a_placed_ring_is_faster(cluster: Cluster) -> None:
    """An all-reduce around eight nodes takes a third of the time or less where it is placed."""
    order = placed("data=8", BYTES).order

    def took_s(hosts: tuple[str, ...]) -> float:
        return all_reduce_s(cluster, "mpi", hosts, (8,), size_bytes=BYTES, rounds=1)[8]

    by_name_s, placed_s = took_s(HOSTNAME_ORDER), took_s(order)
    assert by_name_s / placed_s >= AT_LEAST, (by_name_s, placed_s)
