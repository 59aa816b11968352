"""topology.conf, as Slurm reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import FabricSource
from hpckit.slurm.values import TopologyKind
from tests.corpus import corpus_files
from tests.fakes.fabric_values import blocks, leaves, levels, parents
from tests.fakes.slurm_records import RECORDS
from tests.fakes.slurmctld_verdicts import REFUSED, TAKEN, TAKEN_BY_SOME

NAME = "topology.conf"
SYNTHETIC = RECORDS / "topology-conf-26.05"


def record(case: str) -> str:
    """A file that was written by hand."""
    return (SYNTHETIC / case / NAME).read_text()


@pytest.mark.parametrize("case", [*TAKEN, *TAKEN_BY_SOME])
def test_what_slurmctld_takes_is_taken(case: str) -> None:
    """Each text is read, as it is by a slurmctld."""
    found = parse_topology_conf({**TAKEN, **TAKEN_BY_SOME}[case], NAME)
    assert bool(found.switches) == (found.plugin is TopologyKind.TREE)


@pytest.mark.parametrize("case", REFUSED)
def test_what_slurmctld_ends_on_is_an_error(case: str) -> None:
    """The error names the line, what it contradicts and the numbers."""
    text, line_no, words = REFUSED[case]
    with pytest.raises(ParseError, match=words) as caught:
        parse_topology_conf(text, "fabric.conf")
    assert (caught.value.tool, caught.value.line_no) == ("fabric.conf", line_no)


def test_a_tree() -> None:
    """Comments, other cases, continued lines and parents above their children are one tree."""
    tree = parse_topology_conf(record("synthetic-tree"), NAME)
    assert (tree.source, tree.plugin) == (FabricSource.TOPOLOGY_CONF, TopologyKind.TREE)
    assert levels(tree) == {"core": 2, "spine1": 1, "spine2": 1, "leaf01": 0, "leaf02": 0, "io": 0}
    assert parents(tree) == [
        ("spine1", "core"), ("spine2", "core"), ("leaf01", "spine1"), ("leaf02", "spine2"),
    ]  # fmt: skip
    assert leaves(tree) == {
        "leaf01": ["n08", "n09", "n10"],
        "leaf02": ["n11", "n12", "big"],
        "io": ["io-1-a", "io-2-a"],
    }
    assert [switch.link_speed for switch in tree.switches] == [None, "100", "100", None, None, None]


def test_blocks() -> None:
    """Blocks have the sizes that the file gives."""
    found = parse_topology_conf(record("synthetic-blocks"), NAME)
    assert found.plugin is TopologyKind.BLOCK
    assert blocks(found) == {"rack1": ["t1", "t2", "t3"], "rack2": ["t4", "t5"]}
    assert found.block_sizes == (2, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# later\n", "neither switches nor blocks"),
        ('SwitchName="" Nodes=n1', "Name is empty"),
        ('BlockName="" Nodes=n1', "Name is empty"),
        ("SwitchName=s Nodes=a[1-60000]b[1-60000]\n", "more than 1,000,000 names"),
    ],
)
def test_what_no_cluster_has_is_an_error(text: str, words: str) -> None:
    """Nothing, a name that is empty, a list that would fill the memory."""
    with pytest.raises(ParseError, match=words):
        parse_topology_conf(text, NAME)


def test_a_line_is_continued_and_a_comment_is_not() -> None:
    """A backslash before the end of the line joins the next."""
    found = parse_topology_conf("SwitchName=a # c \\\n SwitchName=c \\\nNodes=n1 \\ \n", NAME)
    assert list(levels(found)) == ["a", "c"]


@pytest.mark.parametrize(
    "path",
    corpus_files("slurm-topology/*.conf", "slurm-topology/azure-cyclecloud/slurm_topology.txt"),
)
def test_public_files(path: Path) -> None:
    """Each is a tree whose leaves alone have nodes, or blocks."""
    found = parse_topology_conf(path.read_text(), path.name)
    level = levels(found)
    assert found.nodes
    assert all(level[port.switch] == 0 for port in found.ports)
