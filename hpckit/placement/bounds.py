"""What no order of these nodes can beat: lower bounds of every objective.

A domain of c nodes holds at most c div m whole groups of m; where m does not divide c, something
leads out of it. Bounds of axes are added up, so of two axes that want the same leaf the bound may
be out of reach; of one axis it is attained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil

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
    counts = list(_held(instance).values())
    members = Counter(node for group in traffic.groups for node in set(group.nodes))
    is_apart = max(members.values(), default=1) == 1
    return min(
        _least_split(sizes, counts, is_apart=is_apart) for sizes in _known_sizes(traffic, instance)
    )


def _least_split(sizes: Sequence[int], counts: Sequence[int], *, is_apart: bool) -> int:
    """The fewest groups of these sizes that cannot lie whole in places of these counts."""
    parted = [size for size in sizes if size > 1]
    if not parted or not counts:
        return 0
    widest = max(counts)
    too_wide = sum(size > widest for size in parted)
    if not is_apart:
        # A node of several groups makes them whole together, so only what cannot fit is counted.
        return too_wide
    whole = sum(count // min(parted) for count in counts)
    return max(too_wide, len(parted) - whole, 0)


def _held(instance: Instance) -> Counter[int]:
    """How many of the nodes each leaf holds; those that nobody knows are on none."""
    found = Counter(instance.home)
    del found[ROOT]
    return found


def _known_sizes(traffic: AxisTraffic, instance: Instance) -> Iterator[list[int]]:
    """Yield how many nodes that somebody knows each group has: the others keep the last positions.

    One of the others may be first, where rank 0 stays on the first node of Slurm's list; the known
    node that it displaces may then be anywhere, and is not counted.
    """
    known = len(instance.nodes) - instance.fixed
    for least in (0, 1) if instance.fixed else (0,):
        kept = set(range(least, known))
        yield [len(kept.intersection(group.nodes)) for group in traffic.groups]


def least_spread(traffic: AxisTraffic, instance: Instance) -> int:
    """The fewest leaves on which the widest group can lie: two where some group has to be split."""
    widest = min(max(sizes, default=1) for sizes in _known_sizes(traffic, instance))
    least = 2 if least_straddling(traffic, instance) else 1
    held = 0
    counts = sorted(_held(instance).values(), reverse=True)
    for leaves, count in enumerate(counts, start=1):
        held += count
        if held >= widest:
            return max(least, leaves)
    return least


def least_time_s(traffic: AxisTraffic, instance: Instance, floor_s: float) -> float:
    """The least time of an axis; `floor_s` is what the NICs take whatever the order is."""
    if not traffic.groups or not traffic.axis.bytes_per_rank:
        return 0.0
    busiest = floor_s
    if _is_regular(traffic):
        group = traffic.groups[0]
        for level in range(len(instance.levels)):
            for domain in dict.fromkeys(instance.levels[level]):
                left_over = instance.capacity[domain] % len(group.nodes)
                out = _least_out(traffic, group, left_over)
                busiest = max(busiest, out * instance.seconds_per_byte[domain])
    return busiest + traffic.steps * _least_latency_s(traffic, instance)


def least_hop_bytes(traffic: AxisTraffic, instance: Instance) -> float:
    """The least of bytes times cables on their way, by what has to leave a leaf, a pod, …."""
    found = 2 * sum(traffic.sent().values())
    if not _is_regular(traffic):
        return found
    group = traffic.groups[0]
    for level in range(len(instance.levels)):
        domains = dict.fromkeys(instance.levels[level])
        counts = capacities(instance, level)
        alone = sum(
            instance.cables[domain] * _least_out(traffic, group, count % len(group.nodes))
            for domain, count in zip(domains, counts, strict=True)
        )
        sizes = [len(group.nodes) for group in traffic.groups]
        straddling = _least_split(sizes, counts, is_apart=True)
        parts = max(2, ceil(len(group.nodes) / max(counts)))
        crossings = parts if traffic.axis.pattern is Pattern.RING else 2 * (parts - 1)
        together = 0.0
        # Where some domain has no cable out of it, a group can go that way.
        all_cabled = all(instance.cables[domain] for domain in domains)
        if traffic.axis.pattern is not Pattern.ALL_TO_ALL and all_cabled:
            together = straddling * crossings * hop_bytes_of(traffic.axis) * group.times
        found += 2 * max(alone, together)
    return found


def _is_regular(traffic: AxisTraffic) -> bool:
    """Whether every group is as large as the others, and no node is in two."""
    members = Counter(node for group in traffic.groups for node in group.nodes)
    shapes = {(len(group.nodes), group.times, group.ranks) for group in traffic.groups}
    return len(shapes) == 1 and max(members.values()) == 1


def _least_out(traffic: AxisTraffic, group: NodeGroup, left_over: int) -> float:
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
    """Of one step, in the nearest domains that can hold all groups."""
    linked = {domain for domain in instance.levels[0] if instance.nvlink[domain]}
    held = [[instance.capacity[domain] for domain in sorted(linked)]]
    held += [capacities(instance, level) for level in range(len(instance.levels))]
    widest = traffic.nodes_per_group
    needed = len(traffic.groups) if _is_regular(traffic) else 1
    for counts, latency_s in zip(held, instance.latencies_s, strict=False):
        if sum(count // widest for count in counts) >= needed:
            return latency_s
    return instance.latencies_s[-1]
