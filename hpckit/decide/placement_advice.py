"""What to ask Slurm for, where not the order but the allocation is what costs time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.decide.fabric_ends import FEWEST_PEERS, name_shape, says_nothing
from hpckit.decide.placement_busiest import busiest
from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_loads import Loads
from hpckit.decide.placement_packing import node_grid, packed_orders
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.model.cluster import TopologyKind
from hpckit.model.domain_words import leaf_of
from hpckit.model.hostlist import fold_hosts, natural_order
from hpckit.model.locality import ROOT
from hpckit.model.words import counted
from hpckit.units import short_time

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
    few = len(slow) == 1
    whose = f"its NICs carry {max(slow.values()):.0%} less than those of others"
    if not few:
        whose = f"their NICs carry up to {max(slow.values()):.0%} less than those of others"
    yield (
        f"--exclude={fold_hosts(slow)} ({_saves(time_s, best_s)}): {whose} of"
        f" {'its' if few else 'their'} kind; {counted(len(slow), 'spare node')} would stand in"
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
    ideal_s = _ideal_s(request, nodes)
    if ideal_s < time_s * (1 - _WORTH_FRAC):
        yield (
            f"--switches={leaves}@2:00:00 (waits 2 h at most): {leaves} {_leaves(leaves)} instead"
            f" of {len(now)}; {_saves(time_s, ideal_s)}"
        )


def _whole_segments(request: PlacementRequest, time_s: float) -> Iterator[str]:
    """An allocation of segments as large as a block has room for."""
    members: defaultdict[int, list[str]] = defaultdict(list)
    for node, block in request.locality.domain_of.items():
        members[block].append(node)
    count, largest = len(request.nodes), max(map(len, members.values()), default=1)
    segment = max(n for n in range(1, largest + 1) if count % n == 0)
    ideal = _ideal_nodes(members, count, segment) if segment > 1 else None
    if ideal is None:
        return
    ideal_s = _ideal_s(request, ideal[0])
    if ideal_s < time_s * (1 - _WORTH_FRAC):
        spare = f", {largest - segment} of a block's {largest} spare" if segment < largest else ""
        yield (
            f"--segment={segment}: whole segments in one block{spare}; {_saves(time_s, ideal_s)}"
        )


def _ideal_s(request: PlacementRequest, nodes: tuple[str, ...]) -> float:
    """The least time of the packed orders of other nodes."""
    wanted = instance_of(replace(request, nodes=nodes, slurm_order=None))
    grid = node_grid(request.mesh, request.ranks_per_node)
    return min(Loads(wanted, order).total_s() for order in packed_orders(wanted, grid))


def _alone(
    request: PlacementRequest, instance: Instance, order: Sequence[int], time_s: float
) -> Iterator[str]:
    """No other job on the blocks, where what leads out of them is what takes the time."""
    if busiest(instance, order).beyond_nodes_s <= time_s * _WORTH_FRAC:
        return
    domain_of = request.locality.domain_of
    mine = Counter(domain_of[node] for node in request.nodes if node in domain_of)
    sizes = Counter(domain_of.values())
    shared = sum(sizes[block] > count for block, count in mine.items())
    if shared:
        of = f"{shared} of these blocks" if len(mine) > 1 else "this block"
        yield (
            f"--exclusive=topo: other jobs may be on {of}, and uplinks are what is busiest here"
            " (Slurm 24.05 and later)"
        )


def _saves(time_s: float, better_s: float) -> str:
    return f"saves up to {short_time(time_s - better_s)} of {short_time(time_s)} a step"


def _leaves(count: int) -> str:
    return "leaf" if count == 1 else "leaves"


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
