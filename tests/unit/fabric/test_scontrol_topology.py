"""The answers of scontrol show topology and show partitions."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.slurm_files import parse_topology_yaml
from hpckit.fabric.slurm_live import (
    parse_partition_topologies,
    parse_scontrol_topology,
    scontrol_argv,
    used_by_partitions,
)
from hpckit.fabric.topology import Block, ClusterTopology, FabricSource
from hpckit.slurm.values import TopologyKind
from tests.fakes.fabric_values import blocks, leaves, levels, parents
from tests.fakes.slurm_records import RECORDS, record_text

VERSIONS = ("22.05.8", "24.11.5", "26.05.5")
CASE = ("scontrol-partitions-26.05.5", "three-topologies")


def of_record(version: str, case: str) -> ClusterTopology:
    """The one topology of a record."""
    (found,) = parse_scontrol_topology(record_text(f"scontrol-topology-{version}", case))
    return found


@pytest.mark.parametrize("what", ["topology", "topoconf", "partitions"])
def test_the_questions(what: str) -> None:
    """They name the cluster where there are several; partitions are a line each."""
    lines = ("--oneliner",) if what == "partitions" else ()
    assert scontrol_argv(what, None) == ("scontrol", *lines, "show", what)
    assert scontrol_argv(what, "north") == ("scontrol", *lines, "--clusters=north", "show", what)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_prints_a_tree_alike(version: str) -> None:
    """Nodes hang on leaves alone, though Slurm lists them at each switch above; roots may be two.

    A LinkSpeed that nobody wrote is none.
    """
    tree = of_record(version, "tree")
    assert (tree.source, tree.plugin) == (FabricSource.SCONTROL, TopologyKind.TREE)
    assert levels(tree) == {"leaf1": 0, "leaf2": 0, "spine": 1, "island": 0}
    assert parents(tree) == [("leaf1", "spine"), ("leaf2", "spine")]
    assert leaves(tree) == {
        "leaf1": ["c1", "c2", "c5", "c6"], "leaf2": ["c3", "c4", "c7"], "island": ["c8"],
    }  # fmt: skip
    assert [switch.link_speed for switch in tree.switches] == [None, "50", None, None]
    assert {link.cables for link in tree.links} == {None}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_each_version_prints_blocks_alike(version: str) -> None:
    """Blocks have Slurm's index and size, and one of several says so."""
    found = of_record(version, "block")
    assert found.plugin is TopologyKind.BLOCK
    assert found.block_sizes == (2, 4)
    assert blocks(found) == {
        "b1": ["c1", "c2"], "b2": ["c3", "c4"], "b3": ["c5", "c6", "c7"],
        "b[1-2]": ["c1", "c2", "c3", "c4"],
    }  # fmt: skip
    assert found.blocks[-1] == Block(
        name="b[1-2]", nodes=("c1", "c2", "c3", "c4"), index=3, size=4, is_aggregated=True
    )


def test_one_of_several_topologies() -> None:
    """26.05 prints the default of several, and each when it is named."""
    assert levels(of_record("26.05.5", "default-of-three")) == {"spine": 1, "leaf1": 0, "leaf2": 0}
    assert blocks(of_record("26.05.5", "named-racks"))["b2"] == ["c3", "c4"]


def test_several_answers_in_one_text() -> None:
    """A tree and blocks one after the other are two topologies, the first the default."""
    both = parse_scontrol_topology(
        record_text("scontrol-topology-26.05.5", "block")
        + record_text("scontrol-topology-26.05.5", "tree")
    )
    assert [one.plugin for one in both] == [TopologyKind.BLOCK, TopologyKind.TREE]
    assert [one.is_default for one in both] == [True, False]


def test_a_part_of_the_tree_is_refused() -> None:
    """What `show topology node=c1` prints lacks a leaf, and so nodes: the error names it."""
    with pytest.raises(ParseError, match="leaf2, a child of switch spine") as caught:
        parse_scontrol_topology(record_text("scontrol-topology-26.05.5", "one-node"))
    assert caught.value.line_no == 2


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        ("slurm_load_topo error: no\n", 1, "is neither a switch"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=c1\nSwitchName=b Lev\n", 2, "is neither a switch"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=c[1-\n", 1, "unmatched bracket"),
        ("BlockName=a BlockIndex=0 Nodes=c1 BlockSize=1\n" * 2, 2, "block a is already on line 1"),
        ("RingName=r1 Nodes=c[1-4]\n", 1, "is neither a switch"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int, words: str) -> None:
    """The error names the line."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_scontrol_topology(text)
    assert caught.value.line_no == line_no


def test_partitions_of_three_topologies() -> None:
    """A partition that names none uses the default."""
    used = parse_partition_topologies(record_text(*CASE))
    assert used == {"main": None, "nvl": "racks", "any": "plain"}
    text = (RECORDS / CASE[0] / CASE[1] / "topology.yaml").read_text()
    found = used_by_partitions(parse_topology_yaml(text, "topology.yaml"), used)
    assert {one.name: one.partitions for one in found} == {
        "wide": ("main",), "racks": ("nvl",), "plain": ("any",),
    }  # fmt: skip


def test_releases_without_it() -> None:
    """Before 25.05 no partition has a topology of its own."""
    assert parse_partition_topologies("PartitionName=main AllowGroups=ALL\n") == {"main": None}
    assert parse_partition_topologies("No partitions in the system\n") == {}


def test_a_line_of_no_partition_is_an_error() -> None:
    """The error names the line."""
    with pytest.raises(ParseError, match="is not a partition") as caught:
        parse_partition_topologies("PartitionName=main AllowGroups=ALL\n   DefaultTime=NONE\n")
    assert caught.value.line_no == 2


def test_names_with_spaces_and_lists_as_they_were_written() -> None:
    """24.11 prints a name with a space, and a list of nodes as the file has it."""
    (tree,) = parse_scontrol_topology(
        "SwitchName=a b Level=0 LinkSpeed=10240 Nodes=c[1-2], c[3-4],c1\n"
    )
    assert leaves(tree) == {"a b": ["c1", "c2", "c3", "c4"]}
