"""topology.yaml, and what scontrol show topoconf prints."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.slurm_files import parse_topoconf, parse_topology_yaml
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.slurm.values import TopologyKind
from tests.fakes.fabric_values import blocks, leaves, levels, parents
from tests.fakes.slurm_records import RECORDS

RECORD = RECORDS / "topology-yaml-26.05.5"
NAME = "topology.yaml"
HEAD = "- topology: a\n"
TREE = HEAD + "  tree:\n    switches:\n"


def of(text: str) -> dict[str | None, ClusterTopology]:
    """The topologies by name."""
    return {one.name: one for one in parse_topology_yaml(text, NAME)}


def test_what_scontrol_prints_is_what_was_written() -> None:
    """`show topoconf` has empty tables for other plugins, and is the same topologies."""
    written = parse_topology_yaml((RECORD / "topoconf" / NAME).read_text(), NAME)
    printed = parse_topology_yaml((RECORD / "topoconf" / "output.txt").read_text(), NAME)
    assert printed == written
    assert [one.name for one in written] == ["wide", "racks", "plain"]
    assert [one.is_default for one in written] == [True, False, False]


def test_what_scontrol_prints_without_a_file() -> None:
    """Where slurmctld has a topology.conf, `show topoconf` knows nothing, and is not believed."""
    text = (RECORD / "topoconf-of-topology-conf" / "output.txt").read_text()
    assert parse_topoconf(text) == ()
    with pytest.raises(ParseError, match="topology default has no plugin"):
        parse_topology_yaml(text, NAME)
    written = parse_topology_yaml((RECORD / "topoconf" / NAME).read_text(), NAME)
    assert parse_topoconf((RECORD / "topoconf" / "output.txt").read_text()) == written
    one = "- topology: a\n  cluster_default: false\n  flat: true\n  tree: {}\n"
    assert [topology.name for topology in parse_topoconf(one)] == ["a"]


def test_each_kind() -> None:
    """Trees, blocks and flat topologies have their plugin; rings and toruses nodes and none."""
    found = of((RECORD / "synthetic-kinds" / NAME).read_text())
    assert {one.source for one in found.values()} == {FabricSource.TOPOLOGY_YAML}
    assert {name: one.plugin for name, one in found.items()} == {
        "everything": TopologyKind.TREE,
        "racks": TopologyKind.BLOCK,
        "plain": TopologyKind.FLAT,
        "by-name": TopologyKind.FLAT,
        "rings": None,
        "torus": None,
    }
    assert [name for name, one in found.items() if one.is_default] == ["racks"]
    tree = found["everything"]
    assert levels(tree) == {"core": 1, "leaf1": 0, "leaf2": 0}
    assert parents(tree) == [("leaf1", "core"), ("leaf2", "core")]
    assert leaves(tree) == {"leaf1": ["n01", "n02"], "leaf2": ["n03", "n04"]}
    assert blocks(found["racks"]) == {"b1": ["n01", "n02"], "b2": ["n03", "n04"]}
    assert found["racks"].block_sizes == (2, 4)
    assert blocks(found["rings"]) == {"r0": ["n01", "n02", "n03", "n04"]}
    assert blocks(found["torus"]) == {"pod1": ["n01", "n02", "n03", "n04"]}


def test_one_topology_without_a_list() -> None:
    """A file may be one table, and is the default then."""
    (found,) = parse_topology_yaml("topology: a\nflat: yes\n", NAME)
    assert (found.name, found.is_default, found.plugin) == ("a", True, TopologyKind.FLAT)


def test_nodes_win_over_children() -> None:
    """Of a switch with both slurmctld takes the nodes, with a warning."""
    text = TREE + "      - {switch: b, nodes: n1}\n      - {switch: c, nodes: n2, children: b}\n"
    assert parents(of(text)["a"]) == []


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        ("", 1, "the file is empty"),
        ("---\n", 2, "has no topology"),
        ("just words\n", 1, "got 'just words'; expected a list"),
        (HEAD, 1, "topology a has no plugin"),
        (HEAD + "  flat: false\n", 1, "topology a has no plugin"),
        (HEAD + "  flat: true\n  ring: {rings: [{ring: r, nodes: n1}]}\n", 1, "flat and ring"),
        (HEAD + "  flat: maybe\n", 2, "got 'maybe'; expected true or false"),
        (HEAD + "  flat: true\n  colour: red\n", 3, r"\[0\].colour: unknown key; expected one of"),
        ("- flat: true\n", 1, "topology is missing"),
        (HEAD + "  flat: true\n" + HEAD + "  flat: true\n", 3, "a is already on line 1"),
        (HEAD + "  tree:\n    switches: {}\n", 3, "got a table; expected a list"),
        (HEAD + "  tree:\n    switches:\n", 3, "has no switches"),
        (TREE + "      - switch: [b]\n", 4, "got a list; expected text"),
        (TREE + "      - switch: b\n        speed: 1\n", 5, "unknown key"),
        (
            TREE + "      - switch: b\n        children: c\n",
            4,
            "c, a child of switch b, is not among",
        ),
        (TREE + "      - {switch: b, nodes: n1}\n" * 2, 5, "switch b is already on line 4"),
        (TREE + "      - {switch: b, nodes: 'n[1-'}\n", 4, "unmatched bracket"),
        (TREE + f"      - switch: {'b' * 65}\n", 4, "has 65 characters"),
        (HEAD + "  block:\n    block_sizes: [2, 6]\n    blocks: [{block: b}]\n", 3, "6 is not 2"),
        (HEAD + "  block: {block_sizes: [2]}\n", 2, "has no blocks"),
        (HEAD + "  flat: &x true\n  ring: *x\n", 2, "an anchor or alias"),
        (HEAD + "  flat: *x\n", 2, "undefined alias"),
        (HEAD + "  flat: true\n  flat: true\n", 3, "flat is already on line 2"),
        (HEAD + "  {a: b}: true\n", 2, "a key that is not text"),
        (HEAD + "  flat: true\n---\nb: c\n", 3, "another document"),
        (HEAD + " flat: true\n", 2, "did not find expected|expected <block end>"),
        (HEAD + "  flat: " + "[" * 30 + "]" * 30 + "\n", 2, "nested too deeply"),
        ("- topology: \x00\n", 1, "not YAML"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int, words: str) -> None:
    """The error names the line and the key."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_topology_yaml(text, NAME)
    assert caught.value.line_no == line_no
