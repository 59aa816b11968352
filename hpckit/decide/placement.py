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
from hpckit.decide.placement_groups import sending_axes, spread
from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_loads import Loads
from hpckit.decide.placement_notes import Row, order_notes, unknown_note
from hpckit.decide.placement_order import found_orders, given_orders
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.decide.placement_search import Found
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
from hpckit.model.words import time_words
from hpckit.units import short_bytes

TIME: Final = "step_comm_time_s"
HOP_BYTES: Final = "hop_bytes"
STRADDLING: Final = "straddling_groups"
SPREAD: Final = "max_spread"
_PRICE_FRAC: Final = 0.001
"""That rank 0 stays on a certain node is said where it costs more than this part of the time."""


def place(request: PlacementRequest, plugin: TopologyKind | None = None) -> Placement:
    """The order and every objective beside host names, Slurm's order, a random one and the bound.

    `plugin` is what places jobs on this cluster, for the advice.

    Raises PlanError where mesh and nodes do not agree.
    """
    instance = instance_of(request)
    given = given_orders(instance, request)
    free, pinned = found_orders(instance, request, _job_first(request))
    found = free if request.first is None or pinned is None else pinned
    hostname, shuffled = (_Judged(instance, order) for order in given[:2])
    slurm = _Judged(instance, given[2]) if len(given) > 2 else None  # noqa: PLR2004
    judged = _Orders(_Judged(instance, found.order), hostname, slurm, shuffled)
    objectives = _objectives(instance, judged)
    groups = {
        traffic.axis.name: _axis_groups(instance, judged, i)
        for i, traffic in enumerate(instance.traffic)
    }
    sent = {name: groups[name] for name in _sending(instance)}
    places = place_kind(request.locality, instance.nodes)
    return Placement(
        orders=Orders(
            placed=judged.placed.names,
            hostname=hostname.names,
            slurm=None if slurm is None else slurm.names,
            random=shuffled.names,
        ),
        because=_because(found, judged, request.first),
        objectives=objectives,
        groups=groups,
        places=places,
        notes=(
            *_price(request, free, pinned),
            *unknown_note(instance),
            *order_notes(instance, found.order, objectives[TIME], _rows(objectives, sent, places)),
        ),
        advice=tuple(placement_advice(request, instance, found.order, plugin)),
    )


def _job_first(request: PlacementRequest) -> str | None:
    """The node on which a job of hpckit's has rank 0."""
    if request.first is not None:
        return request.first
    return request.listed[0] if request.listed else None


def _sending(instance: Instance) -> Iterable[str]:
    return (instance.traffic[axis].axis.name for axis in sending_axes(instance))


def _price(request: PlacementRequest, free: Found, pinned: Found | None) -> Iterable[str]:
    """What it costs that a job has rank 0 on the first node of Slurm's list."""
    if pinned is None or pinned.time_s <= free.time_s * (1 + _PRICE_FRAC):
        return
    times = time_words(pinned.time_s), time_words(free.time_s)
    first = _job_first(request)
    if request.first is None:
        yield (
            f"a job that hpckit starts keeps rank 0 on {first}, where programs look for it:"
            f" {times[0]} a step, not {times[1]}"
        )
    else:
        yield (
            f"rank 0 stays on {first}, the first of Slurm's list, where programs look for it:"
            f" {times[0]} a step; {times[1]} with another node first"
        )


class _Judged:
    """An order with what it is worth."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.names = tuple(instance.nodes[node] for node in order)
        self.loads = Loads(instance, order)
        axes = range(len(instance.traffic))
        self._spread = [spread(instance, order, axis) for axis in axes]
        self._sending = sending_axes(instance)

    def straddling(self, axis: int) -> int:
        """How many groups of an axis are on more than one leaf."""
        return sum(count > 1 for count in self._spread[axis])

    def all_straddling(self) -> int:
        """Of the axes that send anything."""
        return sum(self.straddling(axis) for axis in self._sending)

    def max_spread(self) -> int:
        """Of the axes that send anything."""
        return max((count for axis in self._sending for count in self._spread[axis]), default=1)


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
    traffic = instance.traffic
    axes = [traffic[axis] for axis in sending_axes(instance)]
    least_s = sum(map(least_time_s, traffic, [instance] * len(traffic), instance.floor_s))
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


def _because(found: Found, judged: _Orders, first: str | None) -> str:
    """Why this order was taken, of those that begin with `first` where that is told."""
    others = [judged.hostname, judged.random, *([] if judged.slurm is None else [judged.slurm])]
    times = [one.loads.total_s() for one in others if first in (None, one.names[0])]
    begin = "" if first is None else f" that begin with {first}"
    if not found.is_least:
        return (
            f"of the orders tried{begin} that are no slower than those beside it, the fewest groups"
            " straddle a leaf in it"
        )
    if found.time_s < min(times, default=float("inf")) * (1 - 1e-9):
        return (
            f"of all orders tried{begin}, its predicted time of communication in a step is the"
            " least"
        )
    if judged.slurm is not None and judged.placed.names == judged.slurm.names:
        return f"it is Slurm's own order: none tried{begin} is faster"
    if judged.placed.names == judged.hostname.names:
        return f"it is the order of host names: none tried{begin} is faster"
    if first is None:
        return "another order tried is as fast; none is faster"
    return f"another order tried that begins with {first} is as fast; none of those is faster"


def _rows(
    objectives: Mapping[str, Compared], groups: Mapping[str, AxisGroups], places: str
) -> Iterable[Row]:
    """The figures beside the time that are shown, in the words of the table."""
    for axis, found in groups.items():
        if found.groups:
            yield f"{axis} groups split", found.straddling, str
    yield BYTES_X_HOPS, objectives[HOP_BYTES], short_bytes
    yield spread_words(places), objectives[SPREAD], str
