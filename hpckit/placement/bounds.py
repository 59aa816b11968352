"""What no order of these nodes can beat: lower bounds of every objective.

A domain of c nodes holds at most c div m whole groups of m; where m does not divide c, something
leads out of it. Of all axes together: let an axis have h groups with nodes in a domain, f of them
whole; then h - f groups are cut, and each of them sends outwards. A set of c places in a grid of k
axes has c^(k-1) ≤ h₁ · … · hₖ (Loomis and Whitney, 1949), so axes cannot all be cut seldom at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import ceil, prod
from operator import le, mul
from typing import Final

from hpckit.fabric.locality import ROOT
from hpckit.placement.instance import Instance
from hpckit.placement.order_plan import Pattern
from hpckit.placement.traffic import AxisTraffic, NodeGroup, hop_bytes_of


def capacities(instance: Instance, level: int) -> list[int]:
    """How many of the nodes each domain of a level holds."""
    return [instance.capacity[domain] for domain in dict.fromkeys(instance.levels[level])]


def least_straddling(traffic: AxisTraffic, instance: Instance) -> int:
    """The fewest groups of nodes that can lie on more than one leaf, as `spread` counts them.

    Of groups of one size, each node in one of them, it is attained by packing alone.
    """
    counts = list(held(instance).values())
    members = Counter(node for group in traffic.groups for node in set(group.nodes))
    is_apart = max(members.values(), default=1) == 1
    return min(
        least_split(sizes, counts, is_apart=is_apart) for sizes in known_sizes(traffic, instance)
    )


def least_split(sizes: Sequence[int], counts: Sequence[int], *, is_apart: bool) -> int:
    """The fewest groups of these sizes that cannot lie whole in places of these counts."""
    parted = [size for size in sizes if size > 1]
    if not parted or not counts:
        return 0
    widest = max(counts)
    too_wide = sum(size > widest for size in parted)
    if not is_apart:
        # A node of several groups makes them whole together, so only what cannot fit is counted.
        return too_wide
    least = min(parted)
    whole = sum(count // least for count in counts)
    return max(too_wide, len(parted) - whole, 0)


def held(instance: Instance) -> Counter[int]:
    """How many of the nodes each leaf holds; those that nobody knows are on none."""
    found = Counter(instance.home)
    del found[ROOT]
    return found


def known_sizes(traffic: AxisTraffic, instance: Instance) -> Iterator[list[int]]:
    """Yield how many nodes that somebody knows each group has: the others keep the last positions.

    One of the others may be first, where rank 0 stays on the first node of Slurm's list; the known
    node that it displaces may then be anywhere, and is not counted.
    """
    known = len(instance.nodes) - instance.fixed
    for least in (0, 1) if instance.fixed else (0,):
        kept = set(range(least, known))
        yield [len(kept.intersection(group.nodes)) for group in traffic.groups]


def least_time_s(traffic: AxisTraffic, instance: Instance, floor_s: float) -> float:
    """The least time of an axis; `floor_s` is what the NICs take whatever the order is."""
    if not traffic.lanes:
        return 0.0
    return _least_busy_s(traffic, instance, floor_s) + _least_latency_s(traffic, instance)


def _least_busy_s(traffic: AxisTraffic, instance: Instance, floor_s: float) -> float:
    """How long the busiest link of an axis is busy at least."""
    busiest = floor_s
    if not traffic.lanes:
        return 0.0
    if is_regular(traffic):
        group = traffic.groups[0]
        for level in range(len(instance.levels)):
            for domain in dict.fromkeys(instance.levels[level]):
                capacity = instance.capacity[domain]
                left_over = capacity % len(group.nodes)
                out = least_out(traffic, group, left_over)
                busiest = max(busiest, out * instance.seconds_per_byte[domain])
                if left_over and instance.nvlink[domain]:
                    busiest = max(busiest, least_by_nics(instance, traffic, capacity))
    return busiest


def least_by_nics(instance: Instance, traffic: AxisTraffic, capacity: int) -> float:
    """How long NICs are busy at least where a group is cut by an NVLink domain of so many nodes."""
    least = min((sent for sent, _, _ in traffic.lanes), default=0.0) * min(instance.nic_s)
    if traffic.axis.pattern is not Pattern.ALL_TO_ALL:
        return least
    return least * max(1, min(len(group.nodes) for group in traffic.groups) - capacity)


def is_regular(traffic: AxisTraffic) -> bool:
    """Whether every group is as large as the others, and no node is in two."""
    members = Counter(node for group in traffic.groups for node in group.nodes)
    shapes = {(len(group.nodes), group.times, group.ranks) for group in traffic.groups}
    return len(shapes) == 1 and max(members.values()) == 1


def least_out(traffic: AxisTraffic, group: NodeGroup, left_over: int) -> float:
    """What leads out of a domain at least, in which so many nodes are of no whole group."""
    if not left_over:
        return 0.0
    axis = traffic.axis
    if axis.pattern is Pattern.ALL_TO_ALL:
        counts = sorted(group.ranks)
        inside = sum(counts[:left_over])
        pairs = min(inside * (sum(counts) - inside), counts[0] * (sum(counts) - counts[0]))
        if len(set(counts)) == 1:
            pairs = inside * (sum(counts) - inside)
        return axis.bytes_per_rank / axis.size * group.times * pairs
    return hop_bytes_of(axis) * group.times


def _least_latency_s(traffic: AxisTraffic, instance: Instance) -> float:
    """Of all steps, in the nearest domains that can hold all groups."""
    linked = {domain for domain in instance.levels[0] if instance.nvlink[domain]}
    counted = [[instance.capacity[domain] for domain in sorted(linked)]]
    counted += [capacities(instance, level) for level in range(len(instance.levels))]
    widest = traffic.nodes_per_group
    needed = len(traffic.groups) if is_regular(traffic) else 1
    for counts, latency_s in zip(counted, instance.latencies_s, strict=False):
        if sum(count // widest for count in counts) >= needed:
            return traffic.steps * latency_s
    return traffic.steps * instance.latencies_s[-1]


_MOST_CUTS: Final = 4_000
_MOST_TIMES: Final = 20_000
_TOLERANCE: Final = 1e-9
_Times = tuple[float, ...]


def least_total_s(instance: Instance, limit_s: float) -> float:
    """The least time of all axes together, but for what is more than `limit_s`.

    What each domain has to send out gives the least cuts of one axis by those of the others; a time
    is possible only if it is enough for every domain.
    """
    traffic = instance.traffic
    least_s = list(map(_least_busy_s, traffic, [instance] * len(traffic), instance.floor_s))
    latency_s = sum(_least_latency_s(axis, instance) for axis in traffic if axis.lanes)
    alone_s = sum(least_s) + latency_s
    axes = [i for i, one in enumerate(traffic) if one.groups and one.axis.splits is None]
    grid = [traffic[i] for i in axes]
    is_grid = all(map(is_regular, grid)) and not instance.fixed
    if not is_grid or prod(axis.nodes_per_group for axis in grid) != len(instance.nodes):
        return alone_s
    possible = {tuple(least_s[i] for i in axes)}
    rest_s = alone_s - sum(map(sum, possible))
    outs = [least_out(axis, axis.groups[0], 1) for axis in grid]
    for capacity, per_byte_s, is_nvlink in _links(instance):
        if is_nvlink:
            by_nics = [least_by_nics(instance, axis, capacity) for axis in grid]
            times_s = {
                tuple(map(mul, map(bool, cuts), by_nics)) for cuts in _least_cuts(grid, capacity)
            }
        else:
            cut_s = [out * per_byte_s for out in outs]
            times_s = {tuple(map(mul, cuts, cut_s)) for cuts in _least_cuts(grid, capacity)}
        rows = _least(times_s)
        if rows and len(possible) * len(rows) <= _MOST_TIMES:
            both = {tuple(map(max, one, other)) for one, other in product(possible, rows)}
            possible = _least(row for row in both if sum(row) + rest_s < limit_s)
    return max(alone_s, min((sum(row) + rest_s for row in possible), default=limit_s))


def _links(instance: Instance) -> list[tuple[int, float, bool]]:
    """The nodes of each domain, seconds per byte out of it, and whether it is one of NVLink."""
    domains = {domain for level in instance.levels for domain in level}
    links = {
        (instance.capacity[domain], instance.seconds_per_byte[domain], instance.nvlink[domain])
        for domain in domains
    }
    limits = [(c, s, v) for c, s, v in links if c < len(instance.nodes) and (s or v)]
    return sorted(limits, key=lambda link: (-link[0] * link[1], link))


def _least_cuts(grid: Sequence[AxisTraffic], capacity: int) -> Iterator[tuple[int, ...]]:
    """Yield how many groups of each axis are cut by a domain; nothing where that is too much.

    The last axis that sends anything follows from the others; those that send nothing are free.
    """
    sizes = [axis.nodes_per_group for axis in grid]
    sending = [at for at, axis in enumerate(grid) if axis.lanes]
    if not sending or (capacity + 1) ** (len(sending) - 1) > _MOST_CUTS:
        return
    *free, last = sending
    size = sizes[last]
    for chosen in product(range(capacity + 1), repeat=len(free)):
        cuts = dict(zip(free, chosen, strict=True))
        whole = prod(sizes[at] for at, cut in cuts.items() if not cut)
        if capacity % whole:
            continue
        # Of c nodes, those of cut groups at least one each, the others are in whole groups.
        met = prod(cut + (capacity - cut) / sizes[at] for at, cut in cuts.items())
        needed = capacity ** len(free) / met
        cut = max(0, ceil((needed - capacity / size) / (1 - 1 / size) - _TOLERANCE))
        if cut == 0 and capacity % (whole * size):
            cut = 1
        if cut <= capacity:
            yield tuple({**cuts, last: cut}.get(at, 0) for at in range(len(grid)))


def _least(rows: Iterable[_Times]) -> set[_Times]:
    """Those than which no other is less by all axes."""
    found: list[_Times] = []
    for row in sorted(rows):
        if not any(all(map(le, other, row)) for other in found):
            found.append(row)
    return set(found)
