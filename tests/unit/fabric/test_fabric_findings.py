"""What is odd about a fabric: each defect alone is found as what it is; a clean one has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from hpckit.core.findings import Severity
from hpckit.fabric.file import read_fabric
from hpckit.fabric.rules import fabric_findings
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import (
    ClusterTopology,
    EndKind,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from tests.ib_fabrics import MadeFabric, leaf, three_tier, two_tier

FIRMWARE = "MT4129 ConnectX7   Mellanox Technologies"
MAKERS: dict[str, Callable[[], MadeFabric]] = {
    "two tiers": two_tier,
    "three tiers": three_tier,
    "two tiers, one cable a pair": lambda: two_tier(8, 3, 4, 16, 1),
    "three tiers, four rails": lambda: three_tier(2, 4, 2, 3, 4),
}


@pytest.fixture(params=MAKERS)
def made(request: pytest.FixtureRequest) -> MadeFabric:
    """A clean fabric of each kind."""
    return MAKERS[request.param]()


@pytest.mark.parametrize("pods", [2, 3])
@pytest.mark.parametrize("rails", [1, 4])
@pytest.mark.parametrize(("spines", "cores"), [(1, 1), (2, 3)])
def test_a_clean_fabric_of_three_tiers_has_none(
    pods: int, rails: int, spines: int, cores: int
) -> None:
    """The n-th spine of each pod leads to its own cores and no others."""
    assert three_tier(pods, rails, 2, 3, spines, cores=cores).found() == []


def change(made: MadeFabric, **values: object) -> None:
    """Change one NIC."""
    hca = made.hang("n02-c02", "mlx5_1")
    made.change(lambda one: one == hca, **values)


def move(made: MadeFabric, rail: int, rack: int) -> None:
    """Hang one NIC on another leaf."""
    hca, port = made.hang("n01-c02", "mlx5_0"), made.port(leaf(rail, rack))
    made.change(lambda one: one == hca, switch=leaf(rail, rack), port=port)


def without_uplinks(made: MadeFabric) -> None:
    """Take away the cables of a leaf."""
    made.wires = [one for one in made.wires if one.lower != leaf(1, 1)]


def without_spine_cables(made: MadeFabric) -> None:
    """Take away every other cable to one spine."""
    of_spine = [one for one in made.wires if one.upper == "spine-02"]
    made.wires = [one for one in made.wires if one not in of_spine[::2]]


def without_rail(made: MadeFabric) -> None:
    """Take one NIC of two nodes away."""
    for node in ("n02-c02", "n02-c03"):
        made.hcas.remove(made.hang(node, "mlx5_1"))


def without_nodes(made: MadeFabric) -> None:
    """Take all NICs off a leaf."""
    made.hcas = [one for one in made.hcas if one.switch != leaf(2, 1)]


def add_managers(made: MadeFabric) -> None:
    """Hang two hosts that do not compute on leaves."""
    for node, nic, rail in (("ufm", 0, 2), ("ubuntu", 0, 2), ("ubuntu", 1, 3)):
        made.host(node, f"mlx5_{nic}", leaf(rail, 3))


Defect = tuple[Callable[[MadeFabric], object], str, str, str]
DEFECTS: dict[str, Defect] = {
    "a slow NIC": (
        lambda made: change(made, speed="4xHDR"),
        *("link-slow", "n02-c02 mlx5_1", "slower than 400 Gb/s"),
    ),
    "a NIC that is away": (
        lambda made: made.hcas.remove(made.hang("n02-c02", "mlx5_1")),
        *("rails-fewer", "n02-c02", leaf(1, 1)),
    ),
    "a NIC that does not say whose it is": (
        lambda made: change(made, description=FIRMWARE),
        *("nics-anonymous", f"{leaf(1, 1)} port", "n02-c02"),
    ),
    "swapped between nodes": (
        lambda made: made.exchange(made.hang("n01-c02", "mlx5_1"), made.hang("n02-c01", "mlx5_1")),
        *("rails-swapped", "n01-c02,n02-c01", "cabled to each other's leaf"),
    ),
    "swapped on a node": (
        lambda made: made.exchange(made.hang("n02-c03", "mlx5_0"), made.hang("n02-c03", "mlx5_1")),
        *("rails-swapped", "n02-c03", leaf(1, 1)),
    ),
    "on another rack's leaf": (
        lambda made: move(made, 0, 1),
        *("nic-misplaced", "n01-c02 mlx5_0", "expected on leaf-01-01, rail 0"),
    ),
    "on another rail's leaf": (
        lambda made: move(made, 1, 0),
        *("nic-misplaced", "n01-c02 mlx5_0", "expected on leaf-01-01, rail 0"),
    ),
    "a node called localhost": (
        lambda made: made.change(lambda one: one.node == "n02-c02", node="localhost"),
        *("name-says-nothing", "localhost", "which is not a node in Slurm"),
    ),
    "two nodes of one name": (
        lambda made: made.change(lambda one: one.node == "n02-c02", node="n01-c01"),
        *("name-twice", "n01-c01", "at least 2 nodes"),
    ),
    "a leaf without uplinks": (
        without_uplinks,
        *("switch-isolated", leaf(1, 1), "no cable to another switch"),
    ),
}
OF_TWO_TIERS: dict[str, Defect] = {
    "a spine with half of its cables": (
        without_spine_cables,
        *(
            "uplinks-uneven",
            "spine-02",
            "16 cables from below; most of the 4 switches in its group have 32",
        ),
    ),
    "a leaf that is absent": (
        lambda made: made.without_switch(leaf(2, 1)),
        *("leaf-absent", leaf(2, 1), "8 named nodes therefore have 3 of 4 rails: n02-c[01-08]"),
    ),
    "a leaf without nodes": (
        without_nodes,
        *("leaf-empty", leaf(2, 1), "n02-c[01-08]"),
    ),
    "nodes that lack the same rail": (
        without_rail,
        *("rails-fewer", "n02-c[02-03]", "2 nodes have 3 of the 4 NICs"),
    ),
    "anonymous nodes": (
        lambda made: made.change(
            lambda one: one.node in {"n02-c02", "n02-c03", "n04-c01"}, description=FIRMWARE
        ),
        *("nics-anonymous", "12 HCA ports", "on 8 switches do not name their nodes"),
    ),
    "managers": (add_managers, "host-not-compute", "ubuntu,ufm", "2 hosts with 3 ports"),
}


def tell(made: MadeFabric, defect: Defect) -> None:
    """Make a defect, and look whether it is the one finding."""
    make, rule, subject, because = defect
    make(made)
    one = made.only()
    assert one.rule == rule
    assert one.subject.startswith(subject)
    assert because in one.because


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_alone_is_one_finding(made: MadeFabric, defect: str) -> None:
    """What it is, where, and what was seen; nothing is told a second time."""
    tell(made, DEFECTS[defect])


@pytest.mark.parametrize("defect", OF_TWO_TIERS)
def test_a_defect_of_two_tiers_is_one_finding(defect: str) -> None:
    """Whole leaves and spines, several nodes at once."""
    tell(two_tier(), OF_TWO_TIERS[defect])


def test_a_missing_cable_is_told_by_its_ends(made: MadeFabric) -> None:
    """Counted against what most pairs of the kind have, at every level."""
    for at in (0, -1):
        wire = made.wires.pop(at)
        one = made.only()
        assert (one.rule, one.subject) == ("cables-missing", f"{wire.lower}–{wire.upper}")
        assert "1 cable is missing between 1 pair of switches" in one.because
        made.wires.insert(at if at == 0 else len(made.wires), wire)


def test_missing_cables_are_one_finding_with_counts() -> None:
    """Each pair is named with what it has of what it should."""
    made = two_tier()
    del made.wires[:2], made.wires[20]
    one = made.only()
    assert one.subject == "uplinks of leaves"
    assert "125 of 128 uplinks of leaves are up" in one.because
    assert "3 cables are missing between 2 pairs" in one.because
    assert "leaf-01-01–spine-01 0 of 2" in one.because


def test_cables_that_do_not_divide_evenly_are_no_defect() -> None:
    """18 uplinks over 4 spines by turns are 5, 5, 4 and 4."""
    made = two_tier(cables=4)
    spines = [name for name in made.switches if name.startswith("spine")]
    for at, name in enumerate(name for name in made.switches if name.startswith("leaf")):
        made.wire(name, spines[at % 4])
        made.wire(name, spines[(at + 1) % 4])
    assert made.found() == []
    made.wires.pop(0)
    made.wires.pop(0)
    assert made.only().rule == "cables-missing"


def test_a_cable_to_another_switch_is_uneven(made: MadeFabric) -> None:
    """Where it lacks and where it leads are one finding."""
    upper = made.wires[-1].upper
    changed = dataclasses.replace(made.wires[0], upper=upper, upper_port=made.port(upper))
    made.wires[0] = changed
    assert made.found() == [("uplinks-uneven", changed.lower)]


def test_a_manager_on_a_spine_is_nothing_odd(made: MadeFabric) -> None:
    """Nor does it make the spine a leaf."""
    made.host("srv", "mlx5_0", made.wires[-1].upper)
    assert made.found() == []


def test_two_fabrics_in_one_are_parted() -> None:
    """No node of one is in the other."""
    made, other = two_tier(2, 2), two_tier(2, 3)
    made.switches += [f"x{name}" for name in other.switches]
    made.wires += [
        dataclasses.replace(one, lower=f"x{one.lower}", upper=f"x{one.upper}")
        for one in other.wires
    ]
    made.hcas += [
        dataclasses.replace(one, node=f"x{one.node}", switch=f"x{one.switch}") for one in other.hcas
    ]
    one = made.only()
    assert one.rule == "fabric-parted"
    assert "16 nodes" in one.because
    assert "24 nodes" in one.because


def test_slurms_nodes_are_compared_by_name(made: MadeFabric) -> None:
    """Both ways; None is not asked."""
    nodes = sorted({one.node for one in made.hcas})
    assert made.found(nodes) == []
    assert made.found(nodes[1:]) == [("not-in-slurm", nodes[0])]
    assert made.found([*nodes, "x9"]) == [("not-in-fabric", "x9")]


def test_another_case_or_domain_is_a_note(made: MadeFabric) -> None:
    """The nodes are taken for the same, and that is said."""
    nodes = sorted({one.node for one in made.hcas})
    one = made.only([f"{node.upper()}.site.org" for node in nodes])
    assert one.rule == "names-differ"
    assert f"{len(nodes)} nodes have another case or domain" in one.because


def test_a_fabric_of_slurm_has_no_cables_to_miss() -> None:
    """Where nobody counts cables, none are missing."""
    fabric = ClusterTopology(
        source=FabricSource.SCONTROL,
        switches=tuple(Switch(name=name, level=int(name == "top")) for name in ("s0", "s1", "top")),
        links=(SwitchLink(lower="s0", upper="top"), SwitchLink(lower="s1", upper="top")),
        ports=tuple(
            HostPort(node=f"n{at}", switch=f"s{at % 2}", kind=EndKind.COMPUTE) for at in range(9)
        ),
    )
    assert fabric_findings(fabric) == ()
    assert fabric_findings(ClusterTopology(source=FabricSource.SCONTROL)) == ()


def test_an_absent_core_is_told_by_the_spines_below_it() -> None:
    """They have fewer cables upwards than other spines."""
    made = three_tier()
    made.without_switch("core-1-1")
    one = made.only()
    assert (one.rule, one.subject) == ("uplinks-fewer", "spine-1-1, spine-2-1, spine-3-1")


@pytest.mark.parametrize("nics", [1, 2])
def test_nodes_that_follow_no_rails_are_not_misplaced(nics: int) -> None:
    """CPU nodes hang wherever a port is free."""
    made = two_tier(8)
    for at in range(16):
        for nic in range(nics):
            made.host(f"cpu{at}", f"mlx5_{nic}", leaf((at + 3 * nic) % 8, at % 4))
    assert made.found() == []


def test_where_all_ports_are_anonymous_no_nodes_are_guessed() -> None:
    """Nothing says how many NICs a node has."""
    made = two_tier()
    made.change(lambda _: True, description=FIRMWARE)
    one = made.only()
    assert one.subject == "128 HCA ports"
    assert "about" not in one.because


def test_a_node_whose_nics_all_hang_on_one_leaf_may_lack_one() -> None:
    """Without rails it is counted against its peers."""
    made = two_tier(1)
    for hca in list(made.hcas):
        for nic in (1, 2, 3):
            made.host(hca.node, f"mlx5_{nic}", hca.switch)
    assert made.found() == []
    made.hcas.remove(made.hang("n01-c02", "mlx5_2"))
    assert made.found() == [("rails-fewer", "n01-c02")]


def test_a_place_in_slurms_tree_is_one() -> None:
    """A switch below two others and nodes on two leaves are told, and are no rails."""
    (topology,) = read_fabric(
        b"SwitchName=s0 Nodes=a[1-3]\nSwitchName=s1 Nodes=a[2-5]\nSwitchName=t Switches=s[0-1]\n"
        b"SwitchName=u Switches=s0\nSwitchName=v Switches=t,u\n",
        "topology.conf",
    )
    assert topology.rails == ()
    on_two = "2 nodes on each of s0, s1; a tree allows one leaf per node"
    assert [(one.rule, one.subject, one.because) for one in fabric_findings(topology)] == [
        ("switch-two-parents", "s0", "it is below t, u; a tree allows one parent"),
        ("node-multi-homed", "a[2-3]", on_two),
    ]


def test_a_node_is_in_one_block() -> None:
    """Those in two are told together; a block of blocks has its nodes again by design."""
    (topology,) = read_fabric(
        b"BlockName=b1 BlockIndex=0 Nodes=n[1-3] BlockSize=3\n"
        b"BlockName=b2 BlockIndex=1 Nodes=n[3-5] BlockSize=3\n"
        b"AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-5] BlockSize=6\n",
        "scontrol",
    )
    assert [(one.rule, one.subject, one.because) for one in fabric_findings(topology)] == [
        ("node-two-blocks", "n3", "1 node in each of b1, b2; a node has one block"),
    ]


def test_planes_are_not_parted() -> None:
    """The same nodes hang on each."""
    made = two_tier(2, 3, 4, 2)
    made.wires = [one for one in made.wires if one.lower[5:7] == one.upper[6:8]]
    assert made.found() == []


@pytest.mark.parametrize("below", ["SwitchName=t Switches=c\n", ""])
def test_separate_trees_of_slurm_are_no_missing_cables(below: str) -> None:
    """A topology.conf may have several: Slurm keeps jobs inside one, and nobody cut a cable."""
    text = (
        "SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\nSwitchName=s Switches=a,b\n"
        f"SwitchName=c Nodes=m[1-4]\n{below}"
    )
    (one,) = fabric_findings(parse_topology_conf(text, "topology.conf"))
    assert (one.rule, one.severity) == ("trees-separate", Severity.NOTE)
