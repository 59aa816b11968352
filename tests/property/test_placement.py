"""What holds of every placement, on made-up trees of leaves and pods."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hpckit.fabric.domains import locality_of
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.placement.compare import place
from hpckit.placement.order import PlacementRequest
from hpckit.placement.order_plan import Pattern
from hpckit.placement.request import TIME
from tests.corpus import corpus_file
from tests.fakes.fabrics import mesh, request, tree
from tests.sizes import costly

FEW = costly(0.2)
"""Each is searched with its whole budget, a quarter of a second."""
_PODS = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=5), min_size=1, max_size=4
).filter(lambda pods: sum(map(sum, pods)) > 1)


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


@st.composite
def _one_axis(draw: st.DrawFn) -> PlacementRequest:
    pods = draw(_PODS)
    nodes = sum(map(sum, pods))
    size = draw(st.sampled_from(_divisors(nodes)))
    pattern = draw(st.sampled_from((Pattern.RING, Pattern.CHAIN)))
    wanted = mesh(("data", size, pattern, 4e9), ("pipeline", nodes // size, Pattern.CHAIN, 0.0))
    return request(tree(pods, seed=draw(st.integers(0, 99))), wanted)


@st.composite
def _any_mesh(draw: st.DrawFn) -> PlacementRequest:
    pods = draw(_PODS)
    left = sum(map(sum, pods))
    per_node = draw(st.sampled_from((1, 2, 4)))
    axes = []
    for name in ("tensor", "context", "data"):
        size = draw(st.sampled_from(_divisors(left * per_node if name == "tensor" else left)))
        if name == "tensor":
            size = per_node
        else:
            left //= size
        pattern = draw(st.sampled_from(tuple(Pattern)))
        axes.append((name, size, pattern, draw(st.floats(0, 1e10))))
    axes.append(("pipeline", left, Pattern.CHAIN, draw(st.floats(0, 1e9))))
    return request(tree(pods, seed=draw(st.integers(0, 99))), mesh(*axes), per_node=per_node)


@given(_one_axis())
def test_groups_of_one_axis_straddle_as_few_leaves_as_possible(wanted: PlacementRequest) -> None:
    """Of groups of one axis no more straddle a leaf than the lower bound says."""
    straddling = place(wanted).groups["data"].straddling
    assert straddling.placed == straddling.lower_bound


def test_groups_of_seven_on_leaves_of_two_to_nine() -> None:
    """Eleven groups of one axis, of which five lie whole on a leaf and six cannot."""
    name = "placement/one-axis-77.conf"
    locality = locality_of(parse_topology_conf(corpus_file(name).read_text(), name))
    ring = mesh(("data", 7, Pattern.RING, 4e9), ("pipeline", 11, Pattern.CHAIN, 0.0))
    straddling = place(request(locality, ring)).groups["data"].straddling
    assert straddling.placed == straddling.lower_bound


@FEW
@given(_any_mesh())
def test_an_order_is_whole_and_as_good_as_can_be_told(wanted: PlacementRequest) -> None:
    """It is a permutation, no shown order has less predicted time, and none is below a bound."""
    found = place(replace(wanted, slurm_order=tuple(sorted(wanted.nodes))))
    assert sorted(found.orders.placed) == sorted(wanted.nodes)
    time = found.objectives[TIME]
    assert time.slurm is not None
    assert time.placed <= min(time.hostname, time.slurm, time.random) * (1 + 1e-9)
    compared = [*found.objectives.values()]
    compared += [
        figures for axis in found.groups.values() for figures in (axis.straddling, axis.time_s)
    ]
    for figures in compared:
        assert figures.lower_bound is not None
        least = min(figures.placed, figures.hostname, figures.random)
        assert figures.lower_bound <= least * (1 + 1e-9) + 1e-12


@FEW
@given(_any_mesh(), st.randoms(use_true_random=False))
def test_the_order_of_the_node_list_does_not_matter(
    wanted: PlacementRequest, dice: random.Random
) -> None:
    """The same nodes in another order get the same places."""
    nodes = list(wanted.nodes)
    dice.shuffle(nodes)
    assert place(replace(wanted, nodes=tuple(nodes))).orders == place(wanted).orders


@FEW
@given(_any_mesh(), st.integers(1, 3))
def test_nodes_that_nobody_knows_come_last(wanted: PlacementRequest, count: int) -> None:
    """Nodes that the fabric lacks are on the last places, and a note names them."""
    known = dict(wanted.locality.domain_of)
    lost = sorted(known)[:count]
    for node in lost:
        del known[node]
    found = place(replace(wanted, locality=replace(wanted.locality, domain_of=known)))
    assert set(found.orders.placed[-len(lost) :]) == set(lost)
    assert any(lost[0] in note for note in found.notes)


@FEW
@given(_one_axis())
def test_a_ring_is_turned_to_its_first_node_for_nothing(wanted: PlacementRequest) -> None:
    """Groups of one axis straddle as few leaves with rank 0 on a certain node as without."""
    found = place(replace(wanted, first=min(wanted.nodes)))
    assert found.groups["data"].straddling.placed == found.groups["data"].straddling.lower_bound
