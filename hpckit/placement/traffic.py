"""A mesh over nodes becomes traffic between positions, the places of nodes in the rank order.

Ring: of an all-reduce of v bytes among s ranks each sends 2(s-1)/s·v to the next (NCCL tuning.cc:
algBw = busBw·s / 2(s-1)). Pure Python: the order is computed inside a job too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Final

from hpckit.core.errors import PlanError
from hpckit.core.values import dataclass
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern

Lane = tuple[float, list[int], list[int]]
"""Bytes in a step, the positions that send as many, and to which position each does."""


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

    `nodes_per_group` is that of the largest group, 1 where each stays on its node. `lanes` are all
    that is sent, that of an all-to-all pair by pair. As much enters any set of
    positions as leaves it: a ring is closed, and the other patterns send both ways.
    """

    axis: MeshAxis
    groups: tuple[NodeGroup, ...]
    nodes_per_group: int
    lanes: tuple[Lane, ...]

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
        for sent, senders, _ in self.lanes:
            for one, count in Counter(senders).items():
                found[one] = found.get(one, 0.0) + count * sent
        return found

    def most_to_one(self) -> float:
        """The most that a node sends to one other in a ring or a chain; 0 in an all-to-all."""
        found: dict[tuple[int, int], float] = {}
        if self.axis.pattern is not Pattern.ALL_TO_ALL:
            for sent, senders, receivers in self.lanes:
                for pair, count in Counter(zip(senders, receivers, strict=True)).items():
                    found[pair] = found.get(pair, 0.0) + count * sent
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
    lanes: dict[float, tuple[list[int], list[int]]] = {}
    for group in sending:
        for sent, one, other in _sends(axis, group):
            senders, receivers = lanes.setdefault(sent, ([], []))
            senders += one
            receivers += other
    return AxisTraffic(
        axis=axis,
        groups=groups,
        nodes_per_group=max((len(set(group.nodes)) for group in groups), default=1),
        lanes=tuple((sent, *ends) for sent, ends in lanes.items()),
    )


def mesh_words(mesh: Mesh) -> str:
    """The mesh as people write it, such as `tensor 8 × data 16`."""
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)


def _groups(mesh: Mesh, axis: MeshAxis, ranks_per_node: int) -> Iterator[NodeGroup]:
    stride = mesh.stride(axis.name)
    span = stride * axis.size
    if axis.size == 1 or ranks_per_node % span == 0:
        return
    if stride % ranks_per_node == 0:
        # A node's ranks differ in inner axes alone, and have the same groups of nodes.
        step, apart = stride // ranks_per_node, span // ranks_per_node
        alone = (1,) * axis.size
        for first in _firsts(mesh.ranks // ranks_per_node, step, apart):
            nodes = tuple(range(first, first + apart, step))
            yield NodeGroup(nodes=nodes, times=ranks_per_node, ranks=alone)
        return
    merged: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for first in _firsts(mesh.ranks, stride, span):
        merged[_on_nodes(range(first, first + span, stride), ranks_per_node)] += 1
    for (nodes, counts), times in merged.items():
        if len(nodes) > 1:
            yield NodeGroup(nodes=nodes, times=times, ranks=counts)


def _firsts(count: int, stride: int, span: int) -> Iterator[int]:
    """Yield the first of each group of an axis."""
    return chain.from_iterable(range(at, at + stride) for at in range(0, count, span))


def _on_nodes(ranks: Sequence[int], per_node: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    runs = [(node, len(list(its))) for node, its in groupby(rank // per_node for rank in ranks)]
    return tuple(node for node, _ in runs), tuple(count for _, count in runs)


def _sends(
    axis: MeshAxis, group: NodeGroup
) -> Iterator[tuple[float, Sequence[int], Sequence[int]]]:
    """Yield what nodes of a group send, in parts of as many bytes each."""
    nodes = group.nodes
    if axis.pattern is Pattern.ALL_TO_ALL:
        between = axis.bytes_per_rank / axis.size * group.times
        for i, one in enumerate(nodes):
            for j, other in enumerate(nodes):
                if one != other:
                    yield between * group.ranks[i] * group.ranks[j], (one,), (other,)
        return
    sent = hop_bytes_of(axis) * group.times
    yield sent, nodes[:-1], nodes[1:]
    if axis.pattern is Pattern.CHAIN:
        yield sent, nodes[1:], nodes[:-1]
    elif nodes[-1] != nodes[0]:
        yield sent, nodes[-1:], nodes[:1]
