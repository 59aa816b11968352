"""Which node carries which ranks: the best order found, beside those that a job gets without it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, Final, NamedTuple

from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.text import visible
from hpckit.core.units import counted, short_bytes, short_time, time_words
from hpckit.fabric.domain_names import leaf_of, place_kind, short_names
from hpckit.fabric.ends import FEWEST_PEERS, name_shape, says_nothing
from hpckit.fabric.locality import ROOT
from hpckit.placement.bounds import (
    capacities,
    held,
    is_regular,
    known_sizes,
    least_out,
    least_split,
    least_straddling,
    least_time_s,
)
from hpckit.placement.exact import least_of_few_s
from hpckit.placement.instance import Instance, Loads, sending_axes, spread
from hpckit.placement.order import (
    PlacementRequest,
    found_orders,
    given_orders,
    instance_of,
    order_named,
)
from hpckit.placement.order_plan import Pattern
from hpckit.placement.packing import node_grid, packed_orders
from hpckit.placement.request import (
    BYTES_X_HOPS,
    HOP_BYTES,
    ORDER_WORDS,
    SPREAD,
    STEP_TIME_WORDS,
    STRADDLING,
    TIME,
    AxisGroups,
    Compared,
    Orders,
    Placement,
    spread_words,
)
from hpckit.placement.search import Found
from hpckit.placement.traffic import AxisTraffic, hop_bytes_of
from hpckit.slurm.values import TopologyKind

_WORTH_FRAC: Final = 0.02
"""Less than this part of the time is not worth waiting in the queue for."""
_MOST_NODES: Final = 4096
"""Of larger jobs an ideal allocation is not computed: few clusters have a second one."""
_MOST_SLOW_FRAC: Final = 0.25
"""Where more of a kind are slow, they are nodes of another make, and no damage."""


def placement_advice(
    request: PlacementRequest,
    instance: Instance,
    order: Sequence[int],
    plugin: TopologyKind | None,
) -> Iterator[str]:
    """Options of sbatch that would make the predicted time less, with what each would save."""
    time_s = Loads(instance, order).total_s()
    yield from _slow_nodes(request, order, time_s)
    if len(instance.nodes) <= _MOST_NODES and not instance.fixed:
        if plugin is TopologyKind.TREE:
            yield from _fewer_leaves(request, time_s)
        elif plugin is TopologyKind.BLOCK:
            yield from _whole_segments(request, time_s)
    if plugin is TopologyKind.BLOCK:
        yield from _alone(request, instance, order, time_s)


def _slow_nodes(request: PlacementRequest, order: Sequence[int], time_s: float) -> Iterator[str]:
    """Nodes whose NICs carry less than those of their kind, of what the fabric tells."""
    told = request.locality.nic_bytes_per_s
    usual = _usual_speeds(told)
    slow = {
        node: 1 - told[node] / usual[name_shape(node)]
        for node in request.nodes
        if node in told and told[node] < usual.get(name_shape(node), 0.0) * (1 - _WORTH_FRAC)
    }
    if not slow:
        return
    mended = dict(told) | {node: usual[name_shape(node)] for node in slow}
    locality = replace(request.locality, nic_bytes_per_s=mended)
    best_s = Loads(instance_of(replace(request, locality=locality)), order).total_s()
    if best_s >= time_s * (1 - _WORTH_FRAC):
        return
    whose, up_to = ("its", "") if len(slow) == 1 else ("their", "up to ")
    yield (
        f"--exclude={fold_hosts(slow)} ({_saves(time_s, best_s)}): {whose} NICs carry"
        f" {up_to}{max(slow.values()):.0%} less than those of similar nodes;"
        f" needs {counted(len(slow), 'spare node')}"
    )


def _usual_speeds(told: Mapping[str, float]) -> dict[str, float]:
    """What nodes of a kind usually have, by the shape of their names, in bytes per second.

    A kind is left out that is of few nodes, or of which too many have less: those are of another
    make.
    """
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for node, speed in told.items():
        if not says_nothing(node):
            kinds[name_shape(node)].append(speed)
    found = {}
    for shape, speeds in kinds.items():
        usual = Counter(speeds).most_common(1)[0][0]
        less = sum(speed < usual * (1 - _WORTH_FRAC) for speed in speeds)
        if len(speeds) >= FEWEST_PEERS and less <= _MOST_SLOW_FRAC * len(speeds):
            found[shape] = usual
    return found


def _fewer_leaves(request: PlacementRequest, time_s: float) -> Iterator[str]:
    """An allocation on as few leaf switches as the tree has for so many nodes."""
    members: defaultdict[int, list[str]] = defaultdict(list)
    for node in request.locality.domain_of:
        members[leaf_of(request.locality, node)].append(node)
    ideal = _ideal_nodes(members, len(request.nodes))
    now = {leaf_of(request.locality, node) for node in request.nodes}
    if ideal is None or ROOT in members or ideal[1] >= len(now):
        return
    nodes, leaves = ideal
    if gain := _gain(request, nodes, time_s):
        yield (
            f"--switches={leaves}@2:00:00 (waits up to 2 h): {leaves}"
            f" {'leaf' if leaves == 1 else 'leaves'} instead of {len(now)}; {gain}"
        )


def _whole_segments(request: PlacementRequest, time_s: float) -> Iterator[str]:
    """An allocation of segments as large as a block has room for."""
    members: defaultdict[int, list[str]] = defaultdict(list)
    for node, block in request.locality.domain_of.items():
        members[block].append(node)
    count, largest = len(request.nodes), max(map(len, members.values()), default=1)
    segment = max(n for n in range(1, largest + 1) if count % n == 0)
    ideal = _ideal_nodes(members, count, segment) if segment > 1 else None
    if ideal is not None and (gain := _gain(request, ideal[0], time_s)):
        free = f", {largest - segment} of its {largest} nodes free" if segment < largest else ""
        yield f"--segment={segment}: each segment in one block{free}; {gain}"


def _gain(request: PlacementRequest, nodes: tuple[str, ...], time_s: float) -> str:
    """What the best packed order of other nodes saves; nothing where that is too little."""
    wanted = instance_of(replace(request, nodes=nodes, slurm_order=None))
    grid = node_grid(request.mesh, request.ranks_per_node)
    ideal_s = min(Loads(wanted, order).total_s() for order in packed_orders(wanted, grid))
    return _saves(time_s, ideal_s) if ideal_s < time_s * (1 - _WORTH_FRAC) else ""


def _alone(
    request: PlacementRequest, instance: Instance, order: Sequence[int], time_s: float
) -> Iterator[str]:
    """No other job on the blocks, where what leads out of them is what takes the time."""
    if _busiest(instance, order).beyond_nodes_s <= time_s * _WORTH_FRAC:
        return
    domain_of = request.locality.domain_of
    mine = Counter(domain_of[node] for node in request.nodes if node in domain_of)
    sizes = Counter(domain_of.values())
    shared = sum(sizes[block] > count for block, count in mine.items())
    if shared:
        of = f"{shared} of these blocks" if len(mine) > 1 else "this block"
        yield (
            f"--exclusive=topo: other jobs may be on {of}, and uplinks are the bottleneck"
            " (Slurm 24.05 and later)"
        )


def _saves(time_s: float, better_s: float) -> str:
    return f"saves up to {short_time(time_s - better_s)} of {short_time(time_s)} per step"


def _ideal_nodes(
    members: Mapping[int, Sequence[str]], count: int, segment: int = 1
) -> tuple[tuple[str, ...], int] | None:
    """So many nodes in the largest places, whole segments in each; and in how many places."""
    found: list[str] = []
    ranked = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    for places, (_, nodes) in enumerate(ranked, start=1):
        whole = len(nodes) // segment * segment
        found += sorted(nodes, key=natural_order)[:whole]
        if len(found) >= count:
            return tuple(found[:count]), places
    return None


class _Busiest(NamedTuple):
    """Seconds axis by axis: the busiest uplink, the busiest NIC or NVLink, and latency beside."""

    uplinks_s: list[float]
    nodes_s: list[float]
    latency_s: list[float]

    @property
    def beyond_nodes_s(self) -> float:
        """How much longer uplinks take than the nodes themselves would."""
        pairs = zip(self.uplinks_s, self.nodes_s, strict=True)
        return sum(max(0.0, uplinks - nodes) for uplinks, nodes in pairs)


def _busiest(instance: Instance, order: Sequence[int]) -> _Busiest:
    """What each kind of link takes under an order, as if the other kind took nothing."""
    axes = range(len(instance.traffic))
    no_nics = (0.0,) * len(instance.nic_s)
    no_uplinks = (0.0,) * len(instance.seconds_per_byte)
    of_uplinks = replace(instance, nic_s=no_nics, nvlink_s=0.0, floor_s=(0.0,) * len(axes))
    by_nodes = Loads(replace(instance, seconds_per_byte=no_uplinks), order)
    latency_s = [by_nodes.latency_s(axis) for axis in axes]
    uplinks_s, nodes_s = (
        [loads.axis_s(axis) - latency_s[axis] for axis in axes]
        for loads in (Loads(of_uplinks, order), by_nodes)
    )
    return _Busiest(uplinks_s, nodes_s, latency_s)


# --- What a person should know of a placement: what got worse, and what nobody knows.
_SAME: Final = 1e-3
"""Times that differ by less than this part are the same to a person."""
_FEW: Final = 3

Row = tuple[str, Compared, Callable[[float], str]]
"""A row of the table: its name, its figures, and how one of them is written."""


def unknown_note(instance: Instance) -> Iterator[str]:
    """Which nodes the fabric does not know, and where they are put."""
    lost = instance.nodes[len(instance.nodes) - instance.fixed :]
    if not lost:
        return
    names = ", ".join(map(visible, lost)) if len(lost) <= _FEW else short_names(lost, 200)
    verb = "is" if len(lost) == 1 else "are"
    yield (
        f"{len(lost)} of {counted(len(instance.nodes), 'node')} {verb} not in the fabric, and last"
        f" in every order shown: {names}"
    )


def order_notes(
    instance: Instance, order: Sequence[int], time: Compared, rows: Iterable[Row]
) -> Iterator[str]:
    """Why the order does not matter; else which figures are better in another order, and its time.

    Each figure is told once, of the order that is best by it.
    """
    shown = [time.placed, time.hostname, time.random, *([] if time.slurm is None else [time.slurm])]
    if max(shown) - min(shown) <= _SAME * max(shown):
        yield _no_difference(instance, order, time)
        return
    better: dict[str, list[str]] = {}
    for name, figures, words in rows:
        others = {which: value for which in ORDER_WORDS if (value := getattr(figures, which))
                  is not None}  # fmt: skip
        best = min(others, key=lambda which: (others[which], getattr(time, which)))
        if figures.placed > others[best] * (1 + 1e-9):
            told = f"{name} {words(others[best])} (here {words(figures.placed)})"
            better.setdefault(best, []).append(told)
    for which, found in better.items():
        its, here = getattr(time, which), time.placed
        at = f"{STEP_TIME_WORDS} {short_time(its)} (here {short_time(here)})"
        if abs(its - here) <= _SAME * here or short_time(its) == short_time(here):
            at = "at the same predicted time"
        yield f"{ORDER_WORDS[which]}: {', '.join(found)}; {at}"


def _no_difference(instance: Instance, order: Sequence[int], time: Compared) -> str:
    if not time.placed:
        return "the order does not matter: no traffic between nodes"
    busy = _busiest(instance, order)
    links_s = sum(map(max, busy.uplinks_s, busy.nodes_s))
    if sum(busy.latency_s) > links_s:
        return "the order does not matter: latency takes most of the time"
    if busy.beyond_nodes_s > _SAME * links_s:
        return "the order does not matter: the uplinks are equally busy in every order shown"
    own = "NICs or NVLink" if any(instance.nvlink) else "NICs"
    return f"the order does not matter: the nodes' {own} are the bottleneck, not the uplinks"


_PRICE_FRAC: Final = 0.001
"""That rank 0 stays on a certain node is said where it costs more than this part of the time."""


def place(
    request: PlacementRequest,
    plugin: TopologyKind | None = None,
    order: Sequence[str] | None = None,
) -> Placement:
    """The order and every objective beside host names, Slurm's order, a random one and the bound.

    `plugin` is what places jobs on this cluster, for the advice. With an `order` that is judged, in
    place of the best. Raises PlanError where mesh and nodes do not agree.
    """
    instance = instance_of(request)
    free, pinned, bound_s = found_orders(instance, request, _job_first(request))
    bound_s = least_of_few_s(instance, bound_s, free.time_s)
    found = free if request.first is None or pinned is None else pinned
    placed = found.order if order is None else order_named(instance, order)
    names = ("placed", "hostname", "random", "slurm")
    orders = (placed, *given_orders(instance, request))
    judged = {name: _Judged(instance, order) for name, order in zip(names, orders, strict=False)}
    objectives = _objectives(instance, judged, bound_s)
    groups = {
        traffic.axis.name: _axis_groups(instance, judged, i)
        for i, traffic in enumerate(instance.traffic)
    }
    sending = (instance.traffic[axis].axis.name for axis in sending_axes(instance))
    sent = {name: groups[name] for name in sending}
    places = place_kind(request.locality, instance.nodes)
    return Placement(
        orders=Orders(**_of_each(judged, lambda order: order.names)),
        because=_because(found, judged, request.first) if order is None else _beside(found),
        objectives=objectives,
        groups=groups,
        places=places,
        notes=(
            *(_price(request, free, pinned) if order is None else ()),
            *unknown_note(instance),
            *order_notes(instance, placed, objectives[TIME], _rows(objectives, sent, places)),
        ),
        advice=tuple(placement_advice(request, instance, placed, plugin)),
    )


def _job_first(request: PlacementRequest) -> str | None:
    if request.first is not None:
        return request.first
    return request.listed[0] if request.listed else None


def _price(request: PlacementRequest, free: Found, pinned: Found | None) -> Iterable[str]:
    """What it costs that a job has rank 0 on the first node of Slurm's list."""
    if pinned is None or pinned.time_s <= free.time_s * (1 + _PRICE_FRAC):
        return
    times = time_words(pinned.time_s), time_words(free.time_s)
    first = _job_first(request)
    if request.first is None:
        yield (
            f"hpckit keeps a job's rank 0 on {first}, where programs expect it:"
            f" {times[0]} per step instead of {times[1]}"
        )
    else:
        yield (
            f"rank 0 stays on {first}, the first node of Slurm's list, where programs expect it:"
            f" {times[0]} per step; {times[1]} with another node first"
        )


class _Judged:
    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.names = tuple(instance.nodes[node] for node in order)
        self.loads = Loads(instance, order)
        axes = range(len(instance.traffic))
        self._spread = [spread(instance, order, axis) for axis in axes]
        self._sending = sending_axes(instance)

    def straddling(self, *axes: int) -> int:
        """How many groups are on more than one leaf; without axes of all that send anything."""
        return sum(count > 1 for axis in axes or self._sending for count in self._spread[axis])

    def max_spread(self) -> int:
        """On how many leaves the widest group lies, of the axes that send anything."""
        return max((count for axis in self._sending for count in self._spread[axis]), default=1)


_Orders = Mapping[str, _Judged]
"""The order that is placed, and those beside it that are known."""


def _of_each(judged: _Orders, measure: Callable[[_Judged], object]) -> dict[str, Any]:
    """Return a figure of each order, None of one that is not known."""
    names = ("placed", *ORDER_WORDS)
    return {name: measure(judged[name]) if name in judged else None for name in names}


def _compared(
    judged: _Orders, measure: Callable[[_Judged], float], bound: float | None
) -> Compared:
    return Compared(**_of_each(judged, measure), lower_bound=bound)


def _objectives(instance: Instance, judged: _Orders, bound_s: float) -> Mapping[str, Compared]:
    traffic = instance.traffic
    axes = [traffic[axis] for axis in sending_axes(instance)]
    return {
        TIME: _compared(judged, lambda one: one.loads.total_s(), bound_s),
        HOP_BYTES: _compared(
            judged,
            lambda one: one.loads.hop_bytes(),
            sum(least_hop_bytes(axis, instance) for axis in axes),
        ),
        STRADDLING: _compared(
            judged, _Judged.straddling, sum(least_straddling(axis, instance) for axis in axes)
        ),
        SPREAD: _compared(
            judged,
            _Judged.max_spread,
            max((least_spread(axis, instance) for axis in axes), default=1),
        ),
    }


def least_spread(traffic: AxisTraffic, instance: Instance) -> int:
    """The fewest leaves on which the widest group can lie: two where some group has to be split."""
    widest = min(max(sizes, default=1) for sizes in known_sizes(traffic, instance))
    least = 2 if least_straddling(traffic, instance) else 1
    nodes = 0
    counts = sorted(held(instance).values(), reverse=True)
    for leaves, count in enumerate(counts, start=1):
        nodes += count
        if nodes >= widest:
            return max(least, leaves)
    return least


def least_hop_bytes(traffic: AxisTraffic, instance: Instance) -> float:
    """The least of bytes times cables on their way, by what has to leave a leaf, a pod, …."""
    found = 2 * sum(traffic.sent().values())
    if not is_regular(traffic):
        return found
    group = traffic.groups[0]
    for level in range(len(instance.levels)):
        domains = dict.fromkeys(instance.levels[level])
        counts = capacities(instance, level)
        alone = sum(
            instance.cables[domain] * least_out(traffic, group, count % len(group.nodes))
            for domain, count in zip(domains, counts, strict=True)
        )
        sizes = [len(group.nodes) for group in traffic.groups]
        straddling = least_split(sizes, counts, is_apart=True)
        parts = max(2, ceil(len(group.nodes) / max(counts)))
        crossings = parts if traffic.axis.pattern is Pattern.RING else 2 * (parts - 1)
        together = 0.0
        # Where some domain has no cable out of it, a group can go that way.
        all_cabled = all(instance.cables[domain] for domain in domains)
        if traffic.axis.pattern is not Pattern.ALL_TO_ALL and all_cabled:
            together = straddling * crossings * hop_bytes_of(traffic.axis) * group.times
        found += 2 * max(alone, together)
    return found


def _axis_groups(instance: Instance, judged: _Orders, axis: int) -> AxisGroups:
    traffic: AxisTraffic = instance.traffic[axis]
    least_s = least_time_s(traffic, instance, instance.floor_s[axis])
    return AxisGroups(
        groups=len(traffic.groups),
        nodes_per_group=traffic.nodes_per_group,
        straddling=_compared(
            judged, lambda one: one.straddling(axis), least_straddling(traffic, instance)
        ),
        time_s=_compared(judged, lambda one: one.loads.axis_s(axis), least_s),
    )


def _beside(found: Found) -> str:
    """What the best order takes, beside one that somebody else made."""
    return f"a given order; hpckit's own takes {short_time(found.time_s)} per step"


def _because(found: Found, judged: _Orders, first: str | None) -> str:
    """Why this order was taken, of those that begin with `first` where that is told."""
    others = [judged[name] for name in ORDER_WORDS if name in judged]
    times = [one.loads.total_s() for one in others if first in (None, one.names[0])]
    names = judged["placed"].names
    begin = "" if first is None else f" starting with {first}"
    if not found.is_least:
        return f"fewest split groups among the orders tried{begin} that are no slower"
    if found.time_s < min(times, default=float("inf")) * (1 - 1e-9):
        return f"best of all orders tried{begin}, by predicted communication time per step"
    if "slurm" in judged and names == judged["slurm"].names:
        return f"same as Slurm's order: no order tried{begin} is faster"
    if names == judged["hostname"].names:
        return f"same as host-name order: no order tried{begin} is faster"
    if first is None:
        return "as fast as another order tried; none is faster"
    return f"as fast as another order tried{begin}; none is faster"


def _rows(
    objectives: Mapping[str, Compared], groups: Mapping[str, AxisGroups], places: str
) -> Iterable[Row]:
    """The figures beside the time that are shown, in the words of the table."""
    for axis, found in groups.items():
        if found.groups:
            yield f"{axis} groups split", found.straddling, str
    yield BYTES_X_HOPS, objectives[HOP_BYTES], short_bytes
    yield spread_words(places), objectives[SPREAD], str
