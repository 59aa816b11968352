"""A network from a file and from Slurm."""

from __future__ import annotations

import json

from hpckit.core.errors import SchedulerUnreachable
from hpckit.core.hostlist import expand_hosts
from hpckit.fabric.file import fabric_of_slurm, read_fabric
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import ClusterTopology
from tests.fakes.cluster_probe import FakeClusterProbe

HEADS = """\
SwitchName=l1 Nodes=gpu[1-8]
SwitchName=l2 Nodes=gpu[9-16],head1,gw[1-2]
SwitchName=io Nodes=login1
SwitchName=top Switches=l[1-2]
"""


def of_slurm(*topologies: ClusterTopology) -> tuple[ClusterTopology, ...]:
    """What Slurm has, which tells of these."""
    probe = FakeClusterProbe(SchedulerUnreachable("not asked"), topologies=topologies)
    return fabric_of_slurm(probe)


def test_every_node_that_slurm_lists_computes() -> None:
    """Whatever its name is."""
    (found,) = read_fabric(HEADS.encode(), "topology.conf")
    assert set(found.nodes) == {*expand_hosts("gpu[1-16]"), "head1", "gw1", "gw2", "login1"}


def test_every_instance_that_a_cloud_lists_computes() -> None:
    """Whatever its name is."""
    names = [*expand_hosts("gpu[1-14]"), "head-1", "login-1"]
    hosts = [
        {"InstanceId": name, "NetworkNodes": ["t", f"l{at % 2}"]} for at, name in enumerate(names)
    ]
    (found,) = read_fabric(json.dumps({"Instances": hosts}).encode(), "aws.json")
    assert set(found.nodes) == set(names)


def test_slurm_and_a_file_of_the_same_are_one_fabric() -> None:
    """With what is worked out of it too: here two parts that nothing joins."""
    (of_file,) = read_fabric(HEADS.encode(), "topology.conf")
    assert of_slurm(parse_topology_conf(HEADS, "topology.conf")) == (of_file,)
    assert of_file.planes == (("l1", "l2", "top"), ("io",))
