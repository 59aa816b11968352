"""What a placement counts, says and advises, on clusters made for one point each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hpckit.fabric.locality import Domain, Locality
from hpckit.placement.compare import place
from hpckit.placement.order import PlacementRequest
from hpckit.placement.order_plan import Mesh, Pattern
from hpckit.placement.request import HOP_BYTES, SPREAD, TIME, Placement
from hpckit.slurm.values import TopologyKind
from tests.fakes.fabrics import mesh, request, tree

RING = Pattern.RING
NIC = 4e11


def leaves(
    sizes: Sequence[int], *, uplink: float | None = None, nics: Mapping[str, float] | None = None
) -> Locality:
    """Leaf switches of so many nodes, n1 … in order, below one switch."""
    top = len(sizes)
    domains = [
        Domain(name=f"l{at}", level=1, parent=top, uplink_bytes_per_s=uplink) for at in range(top)
    ]
    homes = [at for at, size in enumerate(sizes) for _ in range(size)]
    return Locality(
        domains=(*domains, Domain(name="top", level=2)),
        domain_of={f"n{at}": home for at, home in enumerate(homes, start=1)},
        nic_bytes_per_s=nics or {},
    )


def blocks(sizes: Sequence[int]) -> Locality:
    """Slurm's blocks of so many nodes."""
    found = leaves(sizes)
    domains = [replace(one, level=0) for one in found.domains[:-1]]
    return replace(found, domains=(*domains, found.domains[-1]))


def placed(
    locality: Locality, nodes: Sequence[int], wanted: Mesh, plugin: TopologyKind | None = None
) -> Placement:
    """The placement of these nodes of a locality, eight ranks on each."""
    names = [f"n{at}" for at in nodes]
    return place(request(locality, wanted, per_node=8, nodes=names), plugin)


def data(nodes: int, sent: float = 1e9) -> Mesh:
    """One ring through all nodes."""
    return mesh(("data", 8 * nodes, RING, sent))


def all_to_all(nodes: int, sent: float = 1e9) -> Mesh:
    """What keeps uplinks busier than NICs, where they are assumed."""
    return mesh(("data", 8 * nodes, Pattern.ALL_TO_ALL, sent))


def mixed() -> PlacementRequest:
    """Two nodes in an NVLink domain on a leaf, four beside each other on another."""
    locality = Locality(
        domains=(
            Domain(name="cb", level=0, parent=1, is_nvlink=True),
            Domain(name="l1", level=1, parent=3),
            Domain(name="l2", level=1, parent=3),
            Domain(name="top", level=2),
        ),
        domain_of={"n1": 0, "n2": 0, "n3": 2, "n4": 2, "n5": 2, "n6": 2},
        nic_bytes_per_s={},
    )
    wanted = mesh(("tensor", 8, RING, 1e9), ("data", 2, RING, 1e9), ("pipeline", 3, RING, 0.0))
    return request(locality, wanted, per_node=8)


def test_nodes_of_a_leaf_beside_an_nvlink_domain_split_no_group() -> None:
    """They are on one leaf, though none is in a domain of the lowest level."""
    found = place(mixed())
    assert found.groups["data"].straddling.placed == 0
    assert found.groups["data"].straddling.lower_bound == 0
    assert found.objectives[SPREAD].placed == 1
    assert found.places == "domains"


def test_a_tree_is_asked_for_fewer_leaf_switches() -> None:
    """As few as the tree has for so many nodes, with what it saves and how long it waits."""
    found = placed(leaves([8, 8, 8, 8]), [1, 9, 17, 25], data(4), TopologyKind.TREE).advice
    (switches,) = found
    assert switches.startswith("--switches=1@2:00:00 (waits up to 2 h): 1 leaf instead of 4;")


@pytest.mark.parametrize(
    ("nodes", "sent", "plugin"),
    [
        ([1, 9, 17, 25], 1e9, None),
        ([1, 9, 17, 25], 1e9, TopologyKind.FLAT),
        ([1, 2, 3, 4], 1e9, TopologyKind.TREE),
        ([1, 9, 17, 25], 0.0, TopologyKind.TREE),
    ],
    ids=["no plugin", "flat", "one leaf already", "nothing is sent"],
)
def test_leaf_switches_are_asked_for_of_a_tree_alone(
    nodes: list[int], sent: float, plugin: TopologyKind | None
) -> None:
    """And never where that saves nothing."""
    assert placed(leaves([8, 8, 8, 8]), nodes, data(4, sent), plugin).advice == ()


def test_blocks_are_asked_for_segments_and_to_be_alone() -> None:
    """Where what leads out of them is what is busiest; the nodes of others are counted by block."""
    found = placed(blocks([8, 8, 8]), [1, 2, 9, 10], all_to_all(4), TopologyKind.BLOCK).advice
    assert [one.partition(":")[0] for one in found] == ["--segment=4", "--exclusive=topo"]
    assert "other jobs may be on 2 of these blocks" in found[1]
    whole = placed(blocks([2, 2, 8]), [1, 2, 3, 4], all_to_all(4), TopologyKind.BLOCK).advice
    assert not any("topo" in one for one in whole)
    tree_of_it = placed(leaves([8, 8, 8]), [1, 2, 9, 10], all_to_all(4), TopologyKind.TREE).advice
    assert not any("topo" in one for one in tree_of_it)


def test_blocks_are_not_to_be_alone_where_uplinks_are_idle() -> None:
    """Uplinks that carry a hundred times what the nodes send are not what is busiest."""
    locality = blocks([8, 8])
    fast = [replace(one, uplink_bytes_per_s=800 * NIC) for one in locality.domains]
    locality = replace(locality, domains=tuple(fast))
    found = placed(locality, [1, 2, 9, 10], all_to_all(4, 1e7), TopologyKind.BLOCK).advice
    assert not any("topo" in one for one in found)


def _excluded(nics: Mapping[str, float]) -> list[str]:
    advice = placed(leaves([8], nics=nics), range(1, 9), data(8), None).advice
    return [one for one in advice if one.startswith("--exclude")]


def test_a_node_slower_than_its_kind_is_to_be_left_out() -> None:
    """With what that saves."""
    nics = {f"n{at}": NIC for at in range(1, 9)}
    (found,) = _excluded(nics | {"n3": NIC / 2})
    assert found.startswith("--exclude=n3 (saves up to ")
    assert "its NICs carry 50% less than those of similar nodes" in found
    assert found.endswith("needs 1 spare node")
    (found,) = _excluded(nics | {"n3": NIC / 2, "n4": NIC / 4})
    assert "--exclude=n[3-4] " in found
    assert found.endswith("needs 2 spare nodes")


@pytest.mark.parametrize(
    "nics",
    [
        {"n1": NIC / 4, "n2": NIC / 4, "n3": NIC / 4},
        {f"n{at}": NIC if at < 6 else NIC / 2 for at in range(1, 9)},
    ],
    ids=["others not told", "two makes of nodes"],
)
def test_no_node_is_left_out_for_what_others_are_taken_to_have(nics: dict[str, float]) -> None:
    """A speed that is told is not compared with one that is assumed, nor makes of nodes."""
    assert _excluded(nics) == []


def test_a_note_is_in_the_words_of_the_table() -> None:
    """What is better in another order, and its time beside this one's."""
    locality = tree([[3, 3, 3, 3]], seed=None)
    wanted = mesh(("data", 2, RING, 1.0), ("pipeline", 6, RING, 1e9))
    found = place(request(locality, wanted))
    assert found.groups["data"].straddling.placed > found.groups["data"].straddling.hostname
    (note,) = [one for one in found.notes if "host names" in one]
    assert note.startswith("host names: data groups split ")
    assert "; communication per step " in note
    assert " (here " in note


def test_where_the_order_does_not_matter_one_line_says_why() -> None:
    """No other note, though other figures differ: nothing leaves the leaves that NICs do not."""
    found = placed(leaves([2, 2], uplink=100 * NIC), range(1, 5), data(4))
    assert found.objectives[HOP_BYTES].placed < found.objectives[HOP_BYTES].random
    assert found.objectives[TIME].placed == pytest.approx(found.objectives[TIME].random, rel=1e-3)
    assert found.notes == (
        "the order does not matter: the nodes' NICs are the bottleneck, not the uplinks",
    )
    found = placed(leaves([2, 2]), range(1, 5), data(4, 0.0))
    assert found.notes == ("the order does not matter: no traffic between nodes",)
