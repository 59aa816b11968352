"""topology.conf and topology.yaml, as hpckit writes them."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.core.errors import RenderError
from hpckit.fabric.slurm_files import parse_topology_conf, parse_topology_yaml
from hpckit.fabric.slurm_writer import topology_conf_text, topology_yaml_text
from hpckit.fabric.topology import (
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.slurm.values import TopologyKind
from tests.fakes.fabric_scenes import FABRICS, as_slurm_sees, blocks, tree

RENAMED = {
    "names that Slurm reads as lists", "names alike when changed", "a long name", "cabled",
    "blocks of NVLink",
}  # fmt: skip
FLAT = ClusterTopology(source=FabricSource.TOPOLOGY_YAML, plugin=TopologyKind.FLAT, name="plain")


@pytest.mark.parametrize("name", sorted(FABRICS.keys() - RENAMED))
def test_what_is_written_is_read_back(name: str) -> None:
    """Switches, levels, leaves and blocks are those that were written, in both formats."""
    given = FABRICS[name]
    seen = as_slurm_sees(given)
    assert as_slurm_sees(parse_topology_conf(topology_conf_text(given), name)) == seen
    (found,) = parse_topology_yaml(topology_yaml_text([given]), name)
    assert as_slurm_sees(found) == seen


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_a_name_that_slurm_does_not_take_is_another(name: str) -> None:
    """As many links are read back, and the same nodes; comments say the names."""
    given = FABRICS[name]
    text = topology_conf_text(given)
    found = parse_topology_conf(text, name)
    assert found.nodes == tuple(dict.fromkeys(found.nodes))
    assert set(found.nodes) == set(given.nodes) - {"ufm"}
    assert len(found.links) == len(given.links)
    assert text.count("# ") >= 1


def test_a_fabric_with_cables() -> None:
    """Names with spaces are changed, what is no compute node and a switch without any left out."""
    assert topology_conf_text(FABRICS["cabled"]).splitlines() == [
        "# left out: spare leads to no node",
        "# Quantum_1 is Quantum #1",
        "SwitchName=Quantum_1 Nodes=c[1-2]",
        "# Quantum_1_ is Quantum [1]",
        "SwitchName=Quantum_1_ Nodes=c3",
        "# core_A is core A",
        "SwitchName=core_A Switches=Quantum_1",
    ]


def test_the_smallest_block_is_planned_by() -> None:
    """Without sizes slurmctld takes the first block's, and 24.11 ends on a smaller one.

    Aggregated blocks are Slurm's own and are not written.
    """
    more = Block(name="b[1-2]", nodes=("c1", "c2"), is_aggregated=True)
    given = FABRICS["blocks"]
    given = dataclasses.replace(given, blocks=(*given.blocks, more))
    assert topology_conf_text(given).splitlines()[2:] == [
        "BlockName=b3 Nodes=c[5-6]",
        "BlockSizes=2,4",
    ]
    text = topology_conf_text(FABRICS["a first block that is large"])
    assert text.splitlines()[-1] == "BlockSizes=2"
    small = topology_conf_text(blocks({"a": ["c1", "c2"], "b": ["c3"]}, (2,)))
    assert "# 1 node, block size 2: slurmctld 24.11 exits on this" in small


def test_several_topologies() -> None:
    """Each has its name, and one is the default."""
    text = topology_yaml_text(
        [
            dataclasses.replace(FABRICS["one switch"], name="wide", is_default=False),
            dataclasses.replace(FABRICS["blocks"], is_default=True),
            FLAT,
        ]
    )
    assert text == (
        "---\n- topology: wide\n  cluster_default: false\n  tree:\n    switches:\n"
        "      - switch: sw\n        nodes: c[1-2,10]\n"
        "- topology: block\n  cluster_default: true\n  block:\n    block_sizes:\n"
        "      - 2\n      - 4\n    blocks:\n      - block: b1\n        nodes: c[1-2]\n"
        "      - block: b2\n        nodes: c[3-4]\n      - block: b3\n        nodes: c[5-6]\n"
        "- topology: plain\n  cluster_default: false\n  flat: true\n"
    )
    assert [one.name for one in parse_topology_yaml(text, "x")] == ["wide", "block", "plain"]


def changed(given: ClusterTopology, **fields: object) -> ClusterTopology:
    """The topology with other fields."""
    return dataclasses.replace(given, **fields)  # type: ignore[arg-type]


BASE = tree({"a": "s"}, {"a": ["c1"]})
NOT_WRITTEN = {
    "is below s and t": changed(
        BASE,
        switches=(*BASE.switches, Switch(name="t")),
        links=(*BASE.links, SwitchLink(lower="a", upper="t")),
    ),
    "is below itself, over 2": changed(BASE, links=(*BASE.links, SwitchLink(lower="s", upper="a"))),
    "has 1 nodes and 1 switches": changed(
        BASE, ports=(*BASE.ports, HostPort(node="c2", switch="s"))
    ),
    "not a valid Slurm node name": tree({}, {"a": ["c[1-2]"]}),
    "none of the 1 switches": tree({}, {"a": []}),
    "neither switches nor blocks": ClusterTopology(source=FabricSource.AWS),
    "a flat topology has no topology.conf": FLAT,
}


@pytest.mark.parametrize("words", NOT_WRITTEN)
def test_what_is_no_tree_is_an_error(words: str) -> None:
    """The error says why."""
    with pytest.raises(RenderError, match=words):
        topology_conf_text(NOT_WRITTEN[words])


def test_topologies_that_cannot_stand_together() -> None:
    """None at all, and two of one name."""
    with pytest.raises(RenderError, match="no topology to write"):
        topology_yaml_text([])
    with pytest.raises(RenderError, match="2 topologies have the name plain"):
        topology_yaml_text([FLAT, FLAT])


def test_a_comment_says_what_a_switch_stands_for() -> None:
    """Folded, in both formats; of very many the first and the last."""
    few = dataclasses.replace(BASE.switches[0], description="leaf-01-07,leaf-02-07,leaf-03-07")
    names = ",".join(f"leaf{letter}{at}x" for letter in "abcdef" for at in range(7))
    many = dataclasses.replace(BASE.switches[1], description=names)
    given = changed(BASE, switches=(few, many))
    assert topology_conf_text(given).splitlines() == [
        "# a: leaf-[01-03]-07",
        "SwitchName=a Nodes=c1",
        "# s: 42 switches, leafa0x to leaff6x",
        "SwitchName=s Switches=a",
    ]
    assert "      # a: leaf-[01-03]-07\n      - switch: a\n" in topology_yaml_text([given])


def test_a_tree() -> None:
    """Nodes and switches are folded; a LinkSpeed is kept."""
    assert topology_conf_text(FABRICS["two levels"]).splitlines() == [
        "SwitchName=leaf10 Nodes=c[1,3]",
        "SwitchName=leaf2 LinkSpeed=50 Nodes=c[2,4]",
        "SwitchName=spine LinkSpeed=10k Switches=leaf[2,10]",
    ]
