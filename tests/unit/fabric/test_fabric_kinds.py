"""Fabrics with leaves, NICs and cables of several kinds: healthy ones have no findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.ib_fabrics import (
    MadeFabric,
    Wire,
    leaf,
    two_tier,
    with_cpu_leaves,
    with_cpu_pod,
    with_island,
    with_storage,
)

MAKERS: dict[str, Callable[[], MadeFabric]] = {
    "storage NICs at a lower rate": with_storage,
    "storage NICs at the same rate": lambda: with_storage(speed="4xNDR"),
    "one leaf for storage": lambda: with_storage(1),
    "more than two leaves for storage": lambda: with_storage(3),
    "a leaf of CPU nodes": with_cpu_leaves,
    "two leaves of CPU nodes": lambda: with_cpu_leaves(2),
    "leaves of CPU nodes with more cables": lambda: with_cpu_leaves(2, 3),
    "an island of another generation": with_island,
    "an island whose nodes are called alike": lambda: with_island("n"),
    "a pod of CPU nodes with thinner spines": with_cpu_pod,
}


@pytest.fixture(params=MAKERS)
def made(request: pytest.FixtureRequest) -> MadeFabric:
    """A healthy fabric of each kind."""
    return MAKERS[request.param]()


def slowed(wire: Wire) -> Wire:
    """The same cable at half its rate."""
    return dataclasses.replace(wire, speed=f"2x{wire.speed[2:]}")


def test_what_is_so_by_design_is_no_finding(made: MadeFabric) -> None:
    """Fewer cables of a kind of leaf, slower NICs of one name, slower cables of one island."""
    assert made.found() == []


def test_a_defect_beside_them_is_told(made: MadeFabric) -> None:
    """A cable that is away or slow, of one leaf among many alike; a slow NIC beside its like."""
    wire = made.wires.pop(0)
    assert made.found() == [("cables-missing", f"{wire.lower}–{wire.upper}")]
    made.wires.insert(0, slowed(wire))
    ((rule, subject),) = made.found()
    assert (rule, subject.partition(" ")[0]) == ("link-slow", f"{wire.lower}–{wire.upper}")
    made.wires[0] = wire
    hca = made.hang("n02-c02", "mlx5_0")
    made.change(lambda one: one == hca, speed="4xEDR")
    assert made.found() == [("link-slow", "n02-c02 mlx5_0")]


@pytest.mark.parametrize("leaves", [2, 3])
def test_a_missing_cable_of_a_storage_leaf_is_told(leaves: int) -> None:
    """By what the other leaves for storage have."""
    made = with_storage(leaves, 2)
    two = two_tier(cables=4)  # so that what is by design is half of what compute leaves have
    made.wires = [*two.wires, *(one for one in made.wires if one.lower.startswith("storage"))]
    made.wires = renumbered(made)
    assert made.found() == []
    made.wires.pop()
    one = made.only()
    assert (one.rule, one.subject) == ("cables-missing", f"storage-0{leaves}–spine-04")
    assert "1 of 2" in one.because


def renumbered(made: MadeFabric) -> list[Wire]:
    """The cables on ports of their own."""
    made.used = {one.switch: 40 for one in made.hcas}
    return [
        dataclasses.replace(one, lower_port=made.port(one.lower), upper_port=made.port(one.upper))
        for one in made.wires
    ]


def test_a_slow_cable_of_an_island_is_told() -> None:
    """Slower than the others of the island."""
    made = with_island()
    at = next(at for at, one in enumerate(made.wires) if one.lower == leaf(2, 3))
    made.wires[at] = slowed(made.wires[at])
    one = made.only()
    assert one.rule == "link-slow"
    assert one.subject.startswith(leaf(2, 3))
    assert "slower than 200 Gb/s" in one.because


@pytest.mark.parametrize("racks", [2, 5])
@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_storage_nics_by_turns_are_not_misplaced(racks: int, leaves: int) -> None:
    """In racks of seven more hang on one leaf for storage than on the next, and belong to none."""
    made = two_tier(racks=racks, nodes=7)
    for at in range(leaves):
        made.leaf_below_spines(f"storage-{at}", 1)
    for at, node in enumerate(dict.fromkeys(one.node for one in made.hcas)):
        made.host(node, "mlx5_4", f"storage-{at % leaves}")
    assert made.found() == []
    made.exchange(made.hang("n01-c02", "mlx5_0"), made.hang("n02-c05", "mlx5_0"))
    assert made.found() == [("rails-swapped", "n01-c02,n02-c05")]


@pytest.mark.parametrize("leaves", [2, 3])
def test_an_absent_leaf_is_told_beside_leaves_for_storage(leaves: int) -> None:
    """They are no groups that lack its rail."""
    made = with_storage(leaves)
    made.without_switch(leaf(2, 1))
    one = made.only()
    assert (one.rule, one.subject) == ("leaf-absent", leaf(2, 1))
    assert one.because.startswith("4 groups of nodes have leaves for 4 rails")
    assert "(15 of 16 leaves found)" in one.because
    assert "8 named nodes therefore have 3 of 4 rails" in one.because


def test_a_leaf_of_storage_servers_is_not_empty() -> None:
    """They are no compute nodes, and hang there by design."""
    made = two_tier()
    made.leaf_below_spines("storage-01", 1)
    for at in range(4):
        made.host(f"oss{at}", "mlx5_0", "storage-01")
    assert [rule for rule, _ in made.found()] == ["host-not-compute"]


def test_an_empty_leaf_is_told_though_a_manager_hangs_on_it() -> None:
    """A rail lacks a leaf, so it is that one."""
    made = two_tier()
    made.hcas = [one for one in made.hcas if one.switch != leaf(2, 1)]
    made.host("ufm", "mlx5_0", leaf(2, 1))
    assert ("leaf-empty", leaf(2, 1)) in made.found()


def test_a_pod_of_another_kind_may_have_fewer_spines() -> None:
    """It is compared with none."""
    made = with_cpu_pod(4)
    made.without_switch("spine-4-1")
    assert made.found() == []
