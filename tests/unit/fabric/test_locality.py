"""How near nodes are to each other in each kind of fabric, and what Slurm can say of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import RenderError
from hpckit.fabric.domains import locality_of
from hpckit.fabric.file import read_fabric
from hpckit.fabric.locality import ROOT, Locality
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.slurm_writer import left_out, slurm_tree, topology_conf_text
from hpckit.fabric.topology import (
    Block,
    ClusterTopology,
)
from tests.corpus import corpus_file
from tests.fakes.fabric_scenes import FABRICS, blocks, cabled, tree
from tests.fakes.slurm_records import RECORDS
from tests.ib_fabrics import two_tier, with_storage

NDR = "ib-fabric/topograph-dgx-8racks-4rail-ndr.ibnetdiscover.out"


TWO_RAILS = RECORDS / "ibnetdiscover-rdma-core-50" / "synthetic-two-rails" / "output.txt"


def read(path: Path) -> ClusterTopology:
    """The one fabric of a file."""
    (found,) = read_fabric(path.read_bytes(), path.name)
    return found


def groups(locality: Locality) -> set[frozenset[str]]:
    """The nodes of each lowest domain."""
    found: dict[int, set[str]] = {}
    for node, domain in locality.domain_of.items():
        found.setdefault(domain, set()).add(node)
    return {frozenset(nodes) for nodes in found.values()}


def heights(locality: Locality) -> Counter[int]:
    """How many domains are around a node, and of how many nodes that is so."""
    return Counter(len(locality.path(node)) for node in locality.domain_of)


def test_a_tree_of_leaves() -> None:
    """A leaf is a domain, and so is what joins leaves; blocks alone are, and no node of none."""
    found = locality_of(
        tree({"a": "s", "b": "s", "s": "t", "c": "t"}, {"a": ["n1"], "b": ["n2"], "c": ["n3"]})
    )
    assert groups(found) == {frozenset({"n1"}), frozenset({"n2"}), frozenset({"n3"})}
    assert [len(found.path(node)) for node in ("n1", "n2", "n3")] == [3, 3, 2]
    assert found.path("n1")[1:] == found.path("n2")[1:]
    assert found.path("n1")[-1] == found.path("n3")[-1]
    found = locality_of(blocks({"b1": ["n1", "n2"], "b2": ["n3"]}))
    assert groups(found) == {frozenset({"n1", "n2"}), frozenset({"n3"})}
    assert found.path("n9") == ()


def test_nvlink_domains_lie_inside_a_leaf_or_around_it() -> None:
    """Two domains of one leaf are nearer than it; one of two leaves makes these one place."""
    fabric = tree({"a": "s", "b": "s", "c": "s"}, {"a": ["n1", "n2"], "b": ["n3"], "c": ["n4"]})
    inside = (Block(name="d1", nodes=("n1",), domain="u.1"), Block(name="d2", nodes=("n2",)))
    found = locality_of(replace(fabric, blocks=inside))
    assert next(found.domains[at].name for at in found.path("n1")) == "d1"
    assert [found.domains[at].is_nvlink for at in found.path("n1")][:2] == [True, False]
    assert found.path("n1")[1:] == found.path("n2")[1:]
    above = (Block(name="d1", nodes=("n1", "n2", "n3"), domain="u.1"),)
    found = locality_of(replace(fabric, blocks=above))
    assert len({found.path(node) for node in ("n1", "n2", "n3")}) == 1
    assert found.path("n4")[-1] == found.path("n1")[-1]


def at_depths() -> ClusterTopology:
    """Hosts on t > m > l, t > m, t, and nowhere."""
    chains = {"a": ["t", "m", "l"], "b": ["t", "m", "l"], "c": ["t", "m"], "d": ["t"], "e": []}
    hosts = [{"InstanceId": name, "NetworkNodes": above} for name, above in chains.items()]
    (found,) = read_fabric(json.dumps(hosts).encode(), "aws.json")
    return found


def names(locality: Locality, node: str) -> list[str]:
    """The domains around a node, the lowest first."""
    return [locality.domains[at].name for at in locality.path(node)]


def test_a_host_is_where_it_is_told_to_be() -> None:
    """One of which less is told is in the domain of the switch that is told, beside leaves."""
    found = locality_of(at_depths())
    assert names(found, "a") == names(found, "b") == ["l", "m", "t"]
    assert names(found, "c") == ["m", "t"]
    assert names(found, "d") == ["t"]
    assert names(found, "e") == []
    assert [domain.level for domain in found.domains] == [1, 2, 3]


def test_hosts_beside_leaves_get_a_leaf_for_slurm() -> None:
    """A switch of Slurm has nodes or switches, so the file has one leaf more for each such."""
    back = parse_topology_conf(topology_conf_text(slurm_tree(at_depths())), "topology.conf")
    found = locality_of(back)
    assert groups(found) == {frozenset("ab"), frozenset("c"), frozenset("d")}
    assert [len(found.path(node)) for node in "abcd"] == [3, 3, 3, 2]
    assert found.path("a")[1] == found.path("c")[1]


def test_the_ndr_capture_has_eight_racks() -> None:
    """Of 18 nodes at most, under one tier of spines; a cable in the wrong leaf joins nothing."""
    found = locality_of(read(corpus_file(NDR)))
    assert len(groups(found)) == 8
    assert max(map(len, groups(found))) == 18
    assert heights(found) == Counter({2: 120})
    for rack in groups(found):
        assert len({node.split("-c")[0] for node in rack if "-dgx-" in node}) == 1


def test_an_unbalanced_tree() -> None:
    """10,000 nodes, half of them one switch further down; every path ends at one root."""
    found = locality_of(read(corpus_file("slurm-topology/slurm-test133_1-case2.topology.conf")))
    assert len(found.domain_of) == 10_000
    assert set(map(len, groups(found))) == {20}
    assert sorted(heights(found)) == [3, 4]
    assert sum(domain.parent == ROOT for domain in found.domains) == 1


@pytest.mark.parametrize("name", [NDR, None])
def test_any_fabric_becomes_what_slurm_takes(name: str | None) -> None:
    """A topology.conf that reads back to the same nodes in the same groups."""
    fabric = read(corpus_file(name)) if name else read(TWO_RAILS)
    text = topology_conf_text(slurm_tree(fabric))
    back = parse_topology_conf(text, "topology.conf")
    known = replace(fabric, ports=tuple(one for one in fabric.ports if one.node != "localhost"))
    assert sorted(back.nodes) == sorted(locality_of(known).domain_of)
    assert groups(locality_of(back)) == groups(locality_of(known))


def test_a_cabled_tree_has_short_names() -> None:
    """With what each stands for beside it; a manager and a spare switch are no part of it."""
    found = slurm_tree(replace(cabled(), plugin=None))
    assert [switch.name for switch in found.switches if switch.level == 0] == ["leaf1", "leaf2"]
    assert {switch.description for switch in found.switches} >= {"Quantum #1"}
    assert sorted(found.nodes) == ["c1", "c2", "c3"]


def test_what_slurm_cannot_know_is_left_out_and_told() -> None:
    """Names that say nothing, ports without a name, managers; of Slurm's own tree nothing."""
    fabric = read(corpus_file(NDR))
    assert "localhost" not in slurm_tree(fabric).nodes
    assert left_out(fabric) == (
        "localhost, 3 ports: a default name, not a node in Slurm",
        "69 ports without a node name",
        "2 non-compute hosts: B11-P1-CUFM-02,ubuntu",
    )
    assert left_out(FABRICS["one switch"]) == ()


def test_a_topology_conf_is_in_order_and_says_what_its_switches_stand_for() -> None:
    """A comment above each line, folded."""
    lines = topology_conf_text(slurm_tree(read(corpus_file(NDR)))).splitlines()
    assert [line.split()[0] for line in lines[1::2]] == [
        *(f"SwitchName=leaf{at}" for at in range(1, 9)),
        "SwitchName=spine1",
    ]
    assert lines[6] == "# leaf4: A09-P1-IBLEAF-[01-04]-04"
    assert lines[16] == "# spine1: A10-P1-IBSPINE-[01-04],B10-P1-IBSPINE-[05-09]"


def test_blocks_without_nodes_are_no_topology_of_slurms() -> None:
    """Of several one may be empty, as it is left out."""
    with pytest.raises(RenderError, match="no node in 2 blocks"):
        slurm_tree(blocks({"b1": [], "b2": []}, (2, 4)))
    assert slurm_tree(blocks({"b1": [], "b2": ["n1"]})).nodes == ("n1",)


def test_nics_for_storage_carry_no_traffic_of_jobs() -> None:
    """What a node can send is what its rails carry, and not the NIC on a leaf for storage."""
    with_them, without = (locality_of(made.topology()) for made in (with_storage(), two_tier()))
    speeds = set(with_them.nic_bytes_per_s.values())
    assert speeds == set(without.nic_bytes_per_s.values())
    assert len(speeds) == 1
