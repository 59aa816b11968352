"""SLURM_TOPOLOGY_ADDR of the nodes of a job."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.slurm_live import parse_topology_addr
from hpckit.fabric.topology import FabricSource
from hpckit.slurm.values import TopologyKind
from tests.fakes.fabric_values import blocks, leaves, levels, parents
from tests.fakes.slurm_records import RECORDS, record_text

NAME = "addresses"
TREE = "switch.switch.node"


@pytest.mark.parametrize(
    ("version", "case"),
    [
        *(("22.05.8", "tree"), ("24.11.5", "tree"), ("26.05.5", "tree")),
        *(("24.11.5", "block"), ("26.05.5", "block")),
    ],
)
def test_addresses_tell_the_topology(version: str, case: str) -> None:
    """All nodes together name every switch, link, leaf and block of the topology.conf."""
    tool = f"topology-addr-{version}"
    found = parse_topology_addr(record_text(tool, case), NAME)
    told = parse_topology_conf((RECORDS / tool / case / "topology.conf").read_text(), NAME)
    assert (found.source, found.plugin) == (FabricSource.TOPOLOGY_ADDR, TopologyKind(case))
    assert levels(found) == levels(told)
    assert set(parents(found)) == set(parents(told))
    for members in (leaves, blocks):
        ours, theirs = members(found), members(told)
        assert {name: set(nodes) for name, nodes in ours.items()} == {
            name: set(nodes) for name, nodes in theirs.items()
        }


def test_uneven_trees() -> None:
    """A level may be missing, and may have several switches; a node may be on none."""
    found = parse_topology_addr(record_text("topology-addr-24.11.5", "synthetic-mixed"), NAME)
    assert levels(found) == {
        "leaf1": 0, "spine1": 1, "core": 2, "leaf2": 0, "leaf3": 0, "spine2": 1, "other": 2,
    }  # fmt: skip
    assert leaves(found) == {"leaf1": ["n1", "n5"], "leaf2": ["n2"], "leaf3": ["n3"]}
    assert found.unplaced == ("n4",)
    assert ("leaf2", "core") in parents(found)
    assert {("leaf3", "spine1"), ("leaf3", "spine2"), ("spine2", "other")} <= set(parents(found))


def test_nodes_outside_of_switches_and_blocks() -> None:
    """The pattern of a node in none is `node`; where all have it the topology is flat."""
    found = parse_topology_addr("n1 n1 node\nn2 n2 node\n", NAME)
    assert (found.plugin, found.nodes) == (TopologyKind.FLAT, ())
    assert found.unplaced == ("n1", "n2")
    found = parse_topology_addr("n1 b1.n1 block.node\nn2 n2 node\n", NAME)
    assert blocks(found) == {"b1": ["n1"]}


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        ("", 1, "has no address"),
        (f"n1 s.l.n1 {TREE}\nn2 s.l.n2\n", 2, "is not a node address"),
        ("n1 s.l.n1 switch.node.switch\n", 1, "is not a node address"),
        (f"n1 s.l.n1 {TREE}\nn1 s.m.n1 {TREE}\n", 2, r"n1 is s.m.n1 here, s.l.n1 on line 1"),
        (f"n1 s.leaf.1.n1 {TREE}\n", 1, "has 4 parts, its pattern 3"),
        (f"n1 a.b.n1 {TREE}\nn2 b.a.n2 {TREE}\n", 2, "switch a is at level 0 here, at 1"),
        (f"n1 s.l.n1 {TREE}\nn2 b.n2 block.node\n", 2, "switches and blocks"),
        (f"n1 s.l[a-b].n1 {TREE}\n", 1, "is not a range"),
        ("n1 .n1 block.node\n", 1, "no block"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int, words: str) -> None:
    """The error names the line, and the one that it contradicts."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_topology_addr(text, NAME)
    assert caught.value.line_no == line_no
