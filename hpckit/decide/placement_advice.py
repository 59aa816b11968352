"""What to ask Slurm for, where not the order but the allocation is what costs time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_loads import Loads
from hpckit.decide.placement_packing import node_grid, packed_orders
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.model.cluster import TopologyKind
from hpckit.model.hostlist import fold_hosts, natural_order
from hpckit.model.locality import Locality

_WORTH_FRAC: Final = 0.02
"""Less than this part of the time is not worth waiting in the queue for."""
_MOST_NODES: Final = 4096
"""Of larger jobs an ideal allocation is not computed: few clusters have a second one."""


def placement_advice(
    request: PlacementRequest,
    instance: Instance,
    order: Sequence[int],
    plugin: TopologyKind | None,
) -> Iterator[str]:
    """Options of sbatch that would make the predicted time less, with what each would save."""
    time_s = Loads(instance, order).total_s()
    yield from _slow_nodes(instance, order, time_s)
    if len(instance.nodes) <= _MOST_NODES:
        yield from _fewer_leaves(request, time_s, plugin)
    if plugin in (TopologyKind.TREE, TopologyKind.BLOCK):
        yield from _alone(request, instance, time_s)


def _slow_nodes(instance: Instance, order: Sequence[int], time_s: float) -> Iterator[str]:
    usual = Counter(instance.nic_s).most_common(1)[0][0]
    slow = [i for i, one in enumerate(instance.nic_s) if one > usual * (1 + _WORTH_FRAC)]
    if not slow or len(slow) == len(instance.nodes):
        return
    mended = replace(instance, nic_s=tuple(min(one, usual) for one in instance.nic_s))
    best_s = Loads(mended, order).total_s()
    lost = 1 - usual / max(instance.nic_s[i] for i in slow)
    names = fold_hosts(instance.nodes[i] for i in slow)
    saved = f" (saves up to {time_s - best_s:.2g} s a step)" if best_s < time_s else ""
    yield (
        f"--exclude={names}{saved}: up to {lost:.0%} of the bandwidth of other nodes is missing"
        f" there, as a rail or a NIC is down; {len(slow)} spare nodes would stand in"
    )


def _fewer_leaves(
    request: PlacementRequest, time_s: float, plugin: TopologyKind | None
) -> Iterator[str]:
    """An allocation on as few leaves, or blocks, as the cluster has for so many nodes."""
    count, largest = len(request.nodes), max(_sizes(request.locality).values(), default=1)
    segment = max(n for n in range(1, largest + 1) if count % n == 0)
    is_block = plugin is TopologyKind.BLOCK
    ideal = _ideal_nodes(request.locality, count, segment if is_block else count)
    if ideal is None:
        return
    nodes, leaves = ideal
    other = replace(request, nodes=nodes, slurm_order=None)
    grid = node_grid(request.mesh, request.ranks_per_node)
    wanted = instance_of(other)
    ideal_s = min(Loads(wanted, order).total_s() for order in packed_orders(wanted, grid))
    if ideal_s > time_s * (1 - _WORTH_FRAC):
        return
    saves = f"saves up to {time_s - ideal_s:.2g} s of {time_s:.2g} s a step"
    if is_block:
        spare = f", {largest - segment} of a block's {largest} spare" if segment < largest else ""
        yield f"--segment={segment}: whole segments in one block{spare}; {saves}"
    elif plugin is TopologyKind.FLAT:
        return
    else:
        yield f"--switches={leaves}@2:00:00: fewer leaves, if the job waits for it; {saves}"


def _alone(request: PlacementRequest, instance: Instance, time_s: float) -> Iterator[str]:
    """No other job on the leaves, where what leads out of them is what takes the time."""
    if time_s <= sum(instance.floor_s) * (1 + _WORTH_FRAC):
        return
    sizes = _sizes(request.locality)
    shared = sum(
        sizes[domain] > instance.capacity[domain]
        for domain in set(instance.levels[0])
        if domain < len(request.locality.domains)
    )
    if shared:
        yield (
            f"--exclusive=topo: other jobs' nodes are on {shared} of these leaves, and uplinks are"
            " what is busiest here (Slurm 24.05 and later)"
        )


def _sizes(locality: Locality) -> Counter[int]:
    return Counter(locality.domain_of.values())


def _ideal_nodes(locality: Locality, count: int, most: int) -> tuple[tuple[str, ...], int] | None:
    """So many nodes on the largest leaves, `most` on each at most; and how many leaves."""
    members: dict[int, list[str]] = {}
    for node, domain in locality.domain_of.items():
        members.setdefault(domain, []).append(node)
    found: list[str] = []
    ranked = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    for leaves, (_, nodes) in enumerate(ranked, start=1):
        found += sorted(nodes, key=natural_order)[:most]
        if len(found) >= count:
            return tuple(found[:count]), leaves
    return None
