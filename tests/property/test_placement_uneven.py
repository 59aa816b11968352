"""What holds of every placement on uneven fabrics: NVLink, slow nodes, dead ends, lost nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.placement.bounds import least_straddling, least_time_s
from hpckit.placement.compare import least_hop_bytes, place
from hpckit.placement.instance import Instance, Loads, sending_axes, straddling
from hpckit.placement.order import PlacementRequest, instance_of, order_of
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern
from hpckit.placement.request import TIME
from tests.fakes.fabrics import SPEEDS, mesh, request
from tests.sizes import costly

FEW = costly(0.2)
"""Each is searched with its whole budget."""
ORDERS = ("hostname", "slurm", "random")


@st.composite
def _locality(draw: st.DrawFn) -> Locality:
    """Leaves under pods or under the top at once, some of them NVLink domains; some nodes lost."""
    told = draw(st.booleans())
    domains = [Domain(name="top", level=3), Domain(name="pod", level=2, parent=0)]
    of: dict[str, int] = {}
    nics: dict[str, float] = {}
    count = 0
    for i, size in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))):
        parent = draw(st.sampled_from((0, 1)))
        uplink = draw(st.sampled_from((5e10, 1e11, 4e11))) if told else None
        domains.append(Domain(name=f"l{i}", level=1, parent=parent, uplink_bytes_per_s=uplink))
        leaf = len(domains) - 1
        if draw(st.integers(0, 2)) == 0:
            nvlink = draw(st.booleans())
            domains.append(Domain(name=f"b{i}", level=0, parent=leaf, is_nvlink=nvlink))
        for _ in range(size):
            count += 1
            of[f"n{count}"] = len(domains) - 1 if draw(st.integers(0, 5)) else leaf
            nics[f"n{count}"] = draw(st.sampled_from((4e11, 4e11, 3.5e11)))
    if draw(st.integers(0, 3)) == 0 and count > 1:
        of[f"n{draw(st.integers(1, count))}"] = ROOT
    return Locality(domains=tuple(domains), domain_of=of, nic_bytes_per_s=nics)


@st.composite
def _requests(draw: st.DrawFn) -> PlacementRequest:
    locality = draw(_locality())
    nodes = tuple(locality.domain_of)
    known = {node: domain for node, domain in locality.domain_of.items() if domain != ROOT}
    per_node = draw(st.sampled_from((1, 2, 4)))
    left, axes = len(nodes) * per_node, []
    volumes = st.sampled_from((0.0, 1e8, 1e9, 4e9))
    for name in ("tensor", "pipeline", "data"):
        sizes = [one for one in range(1, left + 1) if left % one == 0]
        size = draw(st.sampled_from(sizes)) if name != "data" else left
        left //= size
        pattern = draw(st.sampled_from(tuple(Pattern)))
        axes.append(MeshAxis(name=name, size=size, pattern=pattern, bytes_per_rank=draw(volumes)))
    if draw(st.booleans()):
        sizes = [one for one in range(1, axes[-1].size + 1) if axes[-1].size % one == 0]
        axes.append(
            MeshAxis(
                name="expert",
                size=draw(st.sampled_from(sizes)),
                pattern=Pattern.ALL_TO_ALL,
                bytes_per_rank=draw(volumes),
                splits="data",
            )
        )
    asked = request(
        replace(locality, domain_of=known), Mesh(axes=tuple(axes)), per_node=per_node, nodes=nodes
    )
    nvlink = draw(st.sampled_from((3.6e12, 4.2e11, 3e11)))
    return replace(
        asked,
        speeds=replace(SPEEDS, nvlink_bytes_per_s=nvlink),
        slurm_order=tuple(draw(st.permutations(nodes))),
    )


def _order(instance: Instance, names: Sequence[str]) -> list[int]:
    index = {node: i for i, node in enumerate(instance.nodes)}
    return [index[node] for node in names]


def _two_apart_and_two_lost() -> PlacementRequest:
    """Groups of two, where the nodes that the fabric knows are on two leaves."""
    top = Domain(name="top", level=2)
    leaves = [Domain(name=name, level=1, parent=0) for name in ("l1", "l2")]
    locality = Locality(domains=(top, *leaves), domain_of={"n1": 1, "n2": 2}, nic_bytes_per_s={})
    wanted = mesh(("data", 2, Pattern.RING, 1e9), ("pipeline", 2, Pattern.CHAIN, 0.0))
    asked = request(locality, wanted, nodes=("n1", "n2", "x1", "x2"))
    return replace(asked, slurm_order=("x1", "n1", "n2", "x2"))


@given(_requests())
@example(_two_apart_and_two_lost())
def test_no_order_is_below_a_bound(asked: PlacementRequest) -> None:
    """Neither in time nor in hop-bytes nor in groups, axis by axis, whatever the nodes are.

    Nodes that the fabric does not know come last, but for the first of Slurm's list.
    """
    instance = instance_of(asked)
    assert asked.slurm_order is not None
    first, *others = _order(instance, asked.slurm_order)
    known = len(instance.nodes) - instance.fixed
    order = [first, *sorted(others, key=lambda node: node >= known)]
    loads = Loads(instance, order)
    for i, traffic in enumerate(instance.traffic):
        assert least_time_s(traffic, instance, instance.floor_s[i]) <= loads.axis_s(i) * (1 + 1e-9)
        assert least_straddling(traffic, instance) <= straddling(instance, order, i)
    least = sum(least_hop_bytes(traffic, instance) for traffic in instance.traffic)
    assert least <= loads.hop_bytes() * (1 + 1e-9)


@FEW
@given(_requests())
def test_what_is_placed_is_above_every_bound(asked: PlacementRequest) -> None:
    """No figure of the order that was found, or of those beside it, is below its bound."""
    found = place(asked)
    axes = (axis.straddling for axis in found.groups.values())
    for one in (*found.objectives.values(), *axes):
        assert one.lower_bound is not None
        shown = [one.placed, *(getattr(one, name) for name in ORDERS)]
        assert one.lower_bound <= min(shown) * (1 + 1e-9) + 1e-12


@FEW
@given(_requests())
def test_of_orders_as_fast_the_one_with_fewer_groups_and_hops_is_taken(
    asked: PlacementRequest,
) -> None:
    """No order beside it, nor that of the node numbers, is less by time, then groups, then hops."""
    instance = instance_of(asked)
    found = place(asked).orders
    assert found.slurm is not None
    natural = list(range(len(instance.nodes)))
    others = [_order(instance, names) for names in (found.hostname, found.slurm, found.random)]
    placed = _worth(instance, _order(instance, found.placed))
    for other in (natural, *others):
        for mine, its in zip(placed, _worth(instance, other), strict=True):
            assert mine <= its * (1 + 2e-9)
            if mine < its * (1 - 2e-9):
                break


def _worth(instance: Instance, order: Sequence[int]) -> tuple[float, float, float]:
    loads = Loads(instance, order)
    groups = sum(straddling(instance, order, axis) for axis in sending_axes(instance))
    return loads.total_s(), groups, loads.hop_bytes()


@costly(0.07)
@given(_requests(), st.integers(0, 11))
def test_a_job_has_the_order_that_is_shown(asked: PlacementRequest, at: int) -> None:
    """With rank 0 on a certain node, and in no case slower than Slurm's order from there."""
    slurm = asked.slurm_order
    assert slurm is not None
    asked = replace(asked, first=slurm[at % len(slurm)], listed=slurm)
    found = place(asked)
    assert found.orders.placed == order_of(asked)
    assert found.orders.placed[0] == asked.first
    assert sorted(found.orders.placed) == sorted(asked.nodes)
    assert found.orders.slurm is not None
    for figures in found.objectives.values():
        assert figures.lower_bound is not None
        assert figures.lower_bound <= figures.placed * (1 + 1e-9) + 1e-12
    time = found.objectives[TIME]
    for name in ORDERS:
        if getattr(found.orders, name)[0] == asked.first:
            assert time.placed <= getattr(time, name) * (1 + 1e-9)
