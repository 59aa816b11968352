"""The order in which Slurm hands ranks to nodes."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.slurm_live import parse_scontrol_topology
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.placement.request import slurm_order, table_order
from hpckit.slurm.values import SlurmVersion, TopologyKind
from tests.fakes.fabric_scenes import FABRICS
from tests.fakes.slurm_records import RECORDS, record_text

V24, V25, V26 = SlurmVersion(24, 11, 5), SlurmVersion(25, 11, 7), SlurmVersion(26, 5, 5)
TREE = FABRICS["a core that comes last"]


def ran(version: str, case: str) -> tuple[str, ...]:
    """The nodes by the rank that srun gave them."""
    lines = record_text(f"srun-order-{version}", case).splitlines()
    return tuple(line.split()[1] for line in lines)


@pytest.mark.parametrize(
    ("version", "case"),
    [("22.05.8", "tree"), ("24.11.5", "tree"), ("26.05.5", "tree"), ("26.05.5", "block")],
)
def test_it_is_the_order_in_which_srun_ran(version: str, case: str) -> None:
    """Of names that sort in every odd way, under switches that are not in the order of names."""
    order = ran(version, case)
    folder = RECORDS / f"srun-order-{version}" / case
    (shown,) = parse_scontrol_topology((folder / "scontrol.txt").read_text())
    written = parse_topology_conf((folder / "topology.conf").read_text(), "topology.conf")
    for topology in (shown, written):
        assert slurm_order(sorted(order), SlurmVersion.of(version), topology) == order


def test_topology_block_before_25_05_has_the_order_of_slurm_conf() -> None:
    """There slurmctld does not sort its nodes, and nothing that it prints of a topology says how
    they stand in the file: hpckit takes them to stand there by name.
    """
    order = ran("24.11.5", "block")
    assert " ".join(order) == "n1 n2 n3 n9 n10 n11 n04 n007 a-1 a1 x1-ib x10-ib"
    assert slurm_order(order, V24, None) == tuple(sorted(order, key=table_order)) != order


@pytest.mark.parametrize("version", [SlurmVersion(22, 5), V24, V25])
def test_up_to_25_11_it_is_by_name(version: SlurmVersion) -> None:
    """Whatever the topology is, and where none is known; a flat one is so in every release."""
    nodes = ("n10", "n9", "n1")
    assert slurm_order(nodes, version, None) == ("n1", "n9", "n10")
    assert slurm_order(nodes, version, FABRICS["one switch"]) == ("n1", "n9", "n10")
    flat = ClusterTopology(source=FabricSource.TOPOLOGY_YAML, plugin=TopologyKind.FLAT)
    assert slurm_order(nodes, V26, flat) == ("n1", "n9", "n10")


def test_from_26_05_on_it_is_by_leaf() -> None:
    """The leaves in the order of the configuration; a node that is on none comes first."""
    nodes = ("n10", "n03", "n09", "n02", "other", "n01")
    assert slurm_order(nodes, V26, TREE) == ("other", "n01", "n02", "n03", "n09", "n10")
    turned = dataclasses.replace(TREE, switches=TREE.switches[::-1])
    assert slurm_order(nodes, V26, turned) == ("other", "n09", "n10", "n03", "n01", "n02")


def test_a_node_on_two_leaves_is_on_the_first() -> None:
    """And a node in two blocks in the first."""
    text = "SwitchName=b Nodes=c3,c2\nSwitchName=a Nodes=c1,c2\n"
    found = parse_topology_conf(text, "x")
    assert slurm_order(("c1", "c2", "c3"), V26, found) == ("c2", "c3", "c1")
    blocks = parse_topology_conf("BlockName=b Nodes=c3,c2\nBlockName=a Nodes=c1,c2\n", "x")
    assert slurm_order(("c1", "c2", "c3"), V26, blocks) == ("c2", "c3", "c1")


@pytest.mark.parametrize(
    ("version", "topology"),
    [
        (None, TREE),
        (V26, None),
        (V26, dataclasses.replace(TREE, source=FabricSource.TOPOLOGY_ADDR)),
        (V26, dataclasses.replace(TREE, source=FabricSource.IBNETDISCOVER)),
        (V26, dataclasses.replace(TREE, plugin=None)),
    ],
)
def test_what_is_not_known_is_none(
    version: SlurmVersion | None, topology: ClusterTopology | None
) -> None:
    """Without the release, or without the order in which Slurm itself has the leaves."""
    assert slurm_order(("n1", "n2"), version, topology) is None


def test_names_sort_as_strnatcmp_sorts_them() -> None:
    """Numbers by value; where one begins with a zero, digit by digit."""
    names = ["A", "a-1", "a1", "a1-x", "a1b", "n007", "n010", "n04", "n09", "n1", "n9", "n10", "nb"]
    assert sorted(names, key=table_order) == names
