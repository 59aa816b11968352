"""Which node carries which ranks: the best order found, beside those that a job gets without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.decide.placement_advice import placement_advice
from hpckit.decide.placement_bounds import (
    least_hop_bytes,
    least_spread,
    least_straddling,
    least_time_s,
)
from hpckit.decide.placement_groups import spread
from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_loads import Loads
from hpckit.decide.placement_notes import Row, order_notes, unknown_note
from hpckit.decide.placement_order import first_index, given_orders
from hpckit.decide.placement_packing import node_grid
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.decide.placement_search import best_order, pinned_order
from hpckit.decide.traffic import AxisTraffic
from hpckit.model.cluster import TopologyKind
from hpckit.model.domain_words import place_kind
from hpckit.model.placement import (
    BYTES_X_HOPS,
    AxisGroups,
    Compared,
    Orders,
    Placement,
    spread_words,
)
from hpckit.units import short_bytes

TIME: Final = "step_comm_time_s"
HOP_BYTES: Final = "hop_bytes"
STRADDLING: Final = "straddling_groups"
SPREAD: Final = "max_spread"


def place(request: PlacementRequest, plugin: TopologyKind | None = None) -> Placement:
    """The order and every objective beside host names, Slurm's order, a random one and the bound.

    `plugin` is what places jobs on this cluster, for the advice.

    Raises PlanError where mesh and nodes do not agree.
    """
    instance = instance_of(request)
    given = given_orders(instance, request)
    found, is_pinned = _found(instance, request, given)
    hostname, shuffled = (_Judged(instance, order) for order in given[:2])
    slurm = _Judged(instance, given[2]) if len(given) > 2 else None  # noqa: PLR2004
    judged = _Orders(_Judged(instance, found), hostname, slurm, shuffled)
    objectives = _objectives(instance, judged)
    groups = {
        traffic.axis.name: _axis_groups(instance, judged, i)
        for i, traffic in enumerate(instance.traffic)
    }
    places = place_kind(request.locality, instance.nodes)
    return Placement(
        orders=Orders(
            placed=judged.placed.names,
            hostname=hostname.names,
            slurm=None if slurm is None else slurm.names,
            random=shuffled.names,
        ),
        because=_because(objectives[TIME]),
        objectives=objectives,
        groups=groups,
        places=places,
        notes=(
            *(() if is_pinned else (_MOVED.format(request.first),)),
            *unknown_note(instance),
            *order_notes(instance, found, objectives[TIME], _rows(objectives, groups, places)),
        ),
        advice=tuple(placement_advice(request, instance, found, plugin)),
    )


def _found(
    instance: Instance, request: PlacementRequest, given: Sequence[Sequence[int]]
) -> tuple[list[int], bool]:
    """The order, and whether it begins with the node that rank 0 is to be on.

    It does unless one of the orders beside it were better then.
    """
    grid = node_grid(request.mesh, request.ranks_per_node)
    found = best_order(instance, grid, given)
    first = first_index(instance, request)
    if first is None:
        return found, True
    pinned = pinned_order(instance, grid, given, found, first)
    least_s = min(Loads(instance, order).total_s() for order in given)
    if Loads(instance, pinned).total_s() <= least_s * (1 + 1e-9):
        return pinned, True
    return found, False


class _Judged:
    """An order with what it is worth."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.names = tuple(instance.nodes[node] for node in order)
        self.loads = Loads(instance, order)
        axes = range(len(instance.traffic))
        self._spread = [spread(instance, order, axis) for axis in axes]

    def straddling(self, axis: int) -> int:
        """How many groups of an axis are on more than one leaf."""
        return sum(count > 1 for count in self._spread[axis])

    def all_straddling(self) -> int:
        return sum(self.straddling(axis) for axis in range(len(self._spread)))

    def max_spread(self) -> int:
        return max((count for counts in self._spread for count in counts), default=1)


@dataclass(frozen=True, slots=True)
class _Orders:
    placed: _Judged
    hostname: _Judged
    slurm: _Judged | None
    random: _Judged

    def compared(self, measure: Callable[[_Judged], float], bound: float | None) -> Compared:
        return Compared(
            placed=measure(self.placed),
            hostname=measure(self.hostname),
            slurm=None if self.slurm is None else measure(self.slurm),
            random=measure(self.random),
            lower_bound=bound,
        )


def _objectives(instance: Instance, judged: _Orders) -> Mapping[str, Compared]:
    axes = instance.traffic
    least_s = sum(map(least_time_s, axes, [instance] * len(axes), instance.floor_s))
    return {
        TIME: judged.compared(lambda one: one.loads.total_s(), least_s),
        HOP_BYTES: judged.compared(
            lambda one: one.loads.hop_bytes(),
            sum(least_hop_bytes(axis, instance) for axis in axes),
        ),
        STRADDLING: judged.compared(
            _Judged.all_straddling, sum(least_straddling(axis, instance) for axis in axes)
        ),
        SPREAD: judged.compared(
            _Judged.max_spread, max((least_spread(axis, instance) for axis in axes), default=1)
        ),
    }


def _axis_groups(instance: Instance, judged: _Orders, axis: int) -> AxisGroups:
    traffic: AxisTraffic = instance.traffic[axis]
    least_s = least_time_s(traffic, instance, instance.floor_s[axis])
    return AxisGroups(
        groups=len(traffic.groups),
        nodes_per_group=traffic.nodes_per_group,
        straddling=judged.compared(
            lambda one: one.straddling(axis), least_straddling(traffic, instance)
        ),
        time_s=judged.compared(lambda one: one.loads.axis_s(axis), least_s),
    )


def _because(time: Compared) -> str:
    others = [time.hostname, time.random, *([] if time.slurm is None else [time.slurm])]
    if time.placed < min(others) * (1 - 1e-9):
        return "of all orders tried, its predicted time of communication in a step is the least"
    return "no order tried has a predicted time less than this one's"


def _rows(
    objectives: Mapping[str, Compared], groups: Mapping[str, AxisGroups], places: str
) -> Iterable[Row]:
    """The figures beside the time that are shown, in the words of the table."""
    for axis, found in groups.items():
        if found.groups:
            yield f"{axis} groups split", found.straddling, str
    yield BYTES_X_HOPS, objectives[HOP_BYTES], short_bytes
    yield spread_words(places), objectives[SPREAD], str


_MOVED: Final = (
    "rank 0 is not on {}, the first of Slurm's list; a job keeps it there, for programs that look"
    " for it there, and loses a little"
)
