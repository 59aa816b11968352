"""A mesh over nodes becomes traffic between positions, the places of nodes in the rank order.

Ring: of an all-reduce of v bytes among s ranks each sends 2(s-1)/s·v to the next (NCCL tuning.cc:
algBw = busBw·s / 2(s-1)). Pure Python: the order is computed inside a job too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

from hpckit.core.errors import PlanError
from hpckit.core.values import dataclass
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern

Edge = tuple[int, int, float]
"""From one position to another, bytes in a step."""


_MOST_PAIRS: Final = 300_000
"""Of nodes in an all-to-all: those of groups of 16 nodes in a job of 20,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """The positions of a group of ranks in the order of its ranks, each run of one node once.

    `times` counts the groups of ranks that have these nodes, `ranks` those of one group on each
    node, in the order of `nodes`.
    """

    nodes: tuple[int, ...]
    times: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTraffic:
    """What one axis sends between nodes; no groups where each stays on its node.

    `edges` are all that is sent, those of an all-to-all pair by pair.
    """

    axis: MeshAxis
    groups: tuple[NodeGroup, ...]
    edges: tuple[Edge, ...]

    @property
    def nodes_per_group(self) -> int:
        """Of the largest group; 1 where each stays on its node."""
        return max((len(set(group.nodes)) for group in self.groups), default=1)

    @property
    def steps(self) -> int:
        """How often a group waits for the network in one step of the job, one after the other.

        Steps between ranks of one node are not counted: NCCL's model has 2(nodes-1) in a ring.
        """
        waits = self.nodes_per_group - 1
        return 2 * waits if self.axis.pattern is Pattern.RING else waits

    def sent(self) -> dict[int, float]:
        """What the node on each position sends in a step."""
        found: dict[int, float] = {}
        for one, _, sent in self.edges:
            found[one] = found.get(one, 0.0) + sent
        return found

    def most_to_one(self) -> float:
        """The most that a node sends to one other in a ring or a chain; 0 in an all-to-all."""
        found: dict[tuple[int, int], float] = {}
        if self.axis.pattern is not Pattern.ALL_TO_ALL:
            for one, other, sent in self.edges:
                found[one, other] = found.get((one, other), 0.0) + sent
        return max(found.values(), default=0.0)


def hop_bytes_of(axis: MeshAxis) -> float:
    """What a rank sends to its neighbour in a step: in a ring around, in a chain one way."""
    if axis.pattern is Pattern.RING:
        return 2 * (axis.size - 1) / axis.size * axis.bytes_per_rank
    return axis.bytes_per_rank


def traffic_of(mesh: Mesh, ranks_per_node: int) -> tuple[AxisTraffic, ...]:
    """What each axis sends between the nodes, which carry `ranks_per_node` ranks each in order.

    Raises PlanError where the ranks do not fill the nodes, and for an all-to-all of too many pairs.
    """
    if mesh.ranks % ranks_per_node:
        raise PlanError(
            "the mesh does not fill whole nodes",
            have=f"{mesh.ranks} ranks ({mesh_words(mesh)})",
            need=f"a multiple of {ranks_per_node} ranks per node",
            hint="change the ranks per node, or the mesh",
        )
    return tuple(_traffic(mesh, axis, ranks_per_node) for axis in mesh.axes)


def _traffic(mesh: Mesh, axis: MeshAxis, ranks_per_node: int) -> AxisTraffic:
    groups = tuple(_groups(mesh, axis, ranks_per_node))
    sending = groups if axis.bytes_per_rank else ()
    pairs = sum(len(group.nodes) * (len(group.nodes) - 1) for group in sending)
    if axis.pattern is Pattern.ALL_TO_ALL and pairs > _MOST_PAIRS:
        raise PlanError(
            f"the all-to-all of {axis.name} spans too many nodes",
            have=f"{pairs} pairs of nodes",
            need=f"at most {_MOST_PAIRS}",
            hint=f"make the groups of {axis.name} smaller",
        )
    edges = tuple(edge for group in sending for edge in _edges(axis, group))
    return AxisTraffic(axis=axis, groups=groups, edges=edges)


def mesh_words(mesh: Mesh) -> str:
    """The mesh as people write it, such as `tensor 8 × data 16`."""
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)


def _groups(mesh: Mesh, axis: MeshAxis, ranks_per_node: int) -> Iterator[NodeGroup]:
    stride = mesh.stride(axis.name)
    span = stride * axis.size
    # Where a node's ranks differ in inner axes alone, they have the same groups of nodes.
    alike = ranks_per_node if stride % ranks_per_node == 0 else 1
    found: Counter[tuple[int, ...]] = Counter()
    for block in range(0, mesh.ranks, span):
        for base in range(block, block + stride, alike):
            found[tuple(range(base, base + span, stride))] += alike
    merged: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for ranks, times in found.items():
        key = _on_nodes(ranks, ranks_per_node)
        merged[key] = merged.get(key, 0) + times
    for (nodes, counts), times in merged.items():
        if len(nodes) > 1:
            yield NodeGroup(nodes=nodes, times=times, ranks=counts)


def _on_nodes(ranks: tuple[int, ...], per_node: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    runs = [(node, len(list(its))) for node, its in groupby(rank // per_node for rank in ranks)]
    return tuple(node for node, _ in runs), tuple(count for _, count in runs)


def _edges(axis: MeshAxis, group: NodeGroup) -> Iterator[Edge]:
    nodes = group.nodes
    if axis.pattern is Pattern.ALL_TO_ALL:
        between = axis.bytes_per_rank / axis.size * group.times
        for i, one in enumerate(nodes):
            for j, other in enumerate(nodes):
                if one != other:
                    yield one, other, between * group.ranks[i] * group.ranks[j]
        return
    sent = hop_bytes_of(axis) * group.times
    for one, other in pairwise(nodes):
        yield one, other, sent
        if axis.pattern is Pattern.CHAIN:
            yield other, one, sent
    if axis.pattern is Pattern.RING and nodes[-1] != nodes[0]:
        yield nodes[-1], nodes[0], sent
