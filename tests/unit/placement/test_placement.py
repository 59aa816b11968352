"""What is said of an order: why it was taken, and what rank 0's place costs a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.placement.compare import place
from hpckit.placement.order import PlacementRequest, instance_of, order_of
from hpckit.placement.order_plan import Mesh, Pattern
from hpckit.placement.packing import node_grid
from hpckit.placement.request import HOP_BYTES, STRADDLING, TIME
from hpckit.placement.search import turned
from tests.fakes.fabrics import mesh, request, tree

DEAR = tree([[1, 3, 2]], seed=None)
"""Node 0 is alone on its leaf: whatever has rank 0 there straddles."""
WIDE = mesh(("pipeline", 3, Pattern.CHAIN, 1e9), ("data", 4, Pattern.RING, 1e9))
STAGES = mesh(("pipeline", 3, Pattern.CHAIN, 1e9), ("data", 2, Pattern.RING, 1e9))


def asked(wanted: Mesh = STAGES, **more: object) -> PlacementRequest:
    """Of the six nodes, which Slurm lists by name."""
    one = request(DEAR, wanted)
    return replace(one, listed=one.nodes, **more)  # type: ignore[arg-type]


def test_without_a_job_any_node_is_first() -> None:
    """The order attains the bound, and a note says what a job pays for its first node."""
    found = place(asked())
    time = found.objectives[TIME]
    assert time.lower_bound is not None
    assert time.placed == pytest.approx(time.lower_bound)
    assert found.orders.placed[0] != "n00000"
    (note,) = [one for one in found.notes if "rank 0" in one]
    assert note.startswith("hpckit keeps a job's rank 0 on n00000")
    assert note.endswith("per step instead of 7.558 ms")


def test_with_a_job_its_first_node_is_first() -> None:
    """The order and its reason are of those that begin so, and a note tells the price."""
    found = place(asked(first="n00000"))
    assert found.orders.placed[0] == "n00000"
    assert found.orders.placed == order_of(asked(first="n00000"))
    assert "starting with n00000" in found.because
    (note,) = [one for one in found.notes if "rank 0" in one]
    assert note.startswith("rank 0 stays on n00000")
    assert note.endswith("per step; 7.558 ms with another node first")


@pytest.mark.parametrize("first", [None, "n00000"])
def test_a_first_node_that_costs_nothing_is_not_spoken_of(first: str | None) -> None:
    """A ring is turned."""
    found = place(asked(mesh(("data", 6, Pattern.RING, 1e9)), first=first))
    assert not [one for one in found.notes if "rank 0" in one]


def test_an_order_that_costs_a_job_nothing_is_shown_without_one_too() -> None:
    """Of orders that are alike in all the one that begins with the first node of Slurm's list."""
    one = request(tree([[3, 5, 4]], seed=1), WIDE)
    for first in one.nodes:
        listed = (first, *(node for node in one.nodes if node != first))
        free = place(replace(one, listed=listed))
        pinned = place(replace(one, listed=listed, first=first))
        if pinned.objectives[HOP_BYTES].placed <= free.objectives[HOP_BYTES].placed:
            assert free.orders.placed == pinned.orders.placed
    ring = request(tree([[3, 5, 4]], seed=1), mesh(("data", 12, Pattern.RING, 1e9)))
    for first in ring.nodes:
        listed = (first, *(node for node in ring.nodes if node != first))
        assert place(replace(ring, listed=listed)).orders.placed[0] == first


def test_a_ring_is_turned_beside_a_node_that_nobody_knows() -> None:
    """It stays last, and rank 0 on another node costs nothing."""
    locality = tree([[3, 4]], seed=None)
    known = dict(locality.domain_of)
    del known["n00006"]
    ring = mesh(("data", 7, Pattern.RING, 1e9))
    one = request(replace(locality, domain_of=known), ring, nodes=tuple(locality.domain_of))
    instance = instance_of(one)
    assert turned(instance, node_grid(ring, 1), range(7), 4) == [4, 5, 3, 0, 1, 2, 6]
    free, pinned = place(one), place(replace(one, first="n00004"))
    assert pinned.orders.placed[-1] == "n00006"
    assert pinned.objectives[TIME].placed == pytest.approx(free.objectives[TIME].placed)


def test_rank_0_is_on_its_node_where_nobody_knows_that_one() -> None:
    """There the others look for it."""
    known = {node: at for node, at in DEAR.domain_of.items() if node != "n00000"}
    one = request(replace(DEAR, domain_of=known), STAGES, nodes=tuple(DEAR.domain_of))
    assert order_of(replace(one, first="n00000"))[0] == "n00000"


def test_an_order_that_is_no_faster_than_another_is_not_called_the_least() -> None:
    """On one leaf all orders are alike, in groups and hops too: names stay in their order."""
    found = place(request(tree([[6]], seed=3), STAGES))
    assert found.because == "same as host-name order: no order tried is faster"
    assert found.orders.placed == found.orders.hostname


def test_axes_that_send_nothing_do_not_count() -> None:
    """Their groups are shown one by one, but are not in the sum, and no note is of them."""
    wanted = mesh(("pipeline", 4, Pattern.CHAIN, 1e9), ("data", 4, Pattern.RING, 0.0))
    found = place(request(tree([[3, 9, 4]], seed=None), wanted))
    assert found.groups["data"].straddling.placed > 0
    assert found.objectives[STRADDLING] == found.groups["pipeline"].straddling
    assert not [note for note in found.notes if "data" in note]
