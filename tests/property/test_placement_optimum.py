"""The order beside the exact optimum, which an enumeration finds that shares no code with it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hpckit.placement.compare import place
from hpckit.placement.instance import LEVEL_LATENCY_S, NET_LATENCY_S
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern
from hpckit.placement.request import TIME
from tests import sizes
from tests.fakes.fabrics import NIC_BYTES_PER_S, mesh, request, tree

INSTANCES = sizes.size(quick=6, whole=200)
MEAN_GAP, WORST_GAP = 0.005, 0.02
WORST_BOUND = 0.02
"""How much the optimum is over the bound, as a part of the bound."""
SHAPES = (
    *((2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (3, 3), (2, 5), (5, 2), (2, 6), (6, 2)),
    *((3, 4), (4, 3), (2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2)),
)
Edges = list[tuple[int, int, float]]


@dataclass(frozen=True)
class Instance:
    """Nodes on leaves, some leaves in pods, each with what leads out of it; a mesh over them."""

    pods: list[list[int]]
    leaf_uplinks: list[float]
    pod_uplinks: list[float]
    mesh: Mesh
    per_node: int
    seed: int


def instance(dice: random.Random) -> Instance:
    """A mesh of two or three axes on up to 12 nodes."""
    shape = dice.choice(SHAPES)
    nodes = int(np.prod(shape))
    per_node = dice.choice((1, 2, 8))
    axes: list[tuple[str, int, Pattern, float]] = [
        (f"axis{i}", size, dice.choice(list(Pattern)), 10 ** dice.uniform(6, 9))
        for i, size in enumerate(shape)
    ]
    if per_node > 1:
        axes.insert(0, ("tensor", per_node, Pattern.RING, 1e9))
    sizes = _sizes(dice, nodes)
    cut = dice.randint(1, len(sizes))
    pods = [part for part in (sizes[:cut], sizes[cut:]) if part]
    return Instance(
        pods=pods,
        leaf_uplinks=[dice.uniform(0.1, 1) * size * NIC_BYTES_PER_S for size in sizes],
        pod_uplinks=[dice.uniform(0.1, 0.6) * sum(pod) * NIC_BYTES_PER_S for pod in pods],
        mesh=mesh(*axes),
        per_node=per_node,
        seed=dice.randrange(1000),
    )


def _sizes(dice: random.Random, nodes: int) -> list[int]:
    cuts = sorted(dice.sample(range(1, nodes), min(nodes - 1, dice.randint(1, 3))))
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, nodes], strict=True)]


def _edges(axis: MeshAxis, stride: int, ranks: int, per_node: int) -> Edges:
    """What every rank sends to which node, rank by rank."""
    found: Edges = []
    for first in range(ranks):
        if first // stride % axis.size:
            continue
        nodes = [(first + i * stride) // per_node for i in range(axis.size)]
        sent = axis.bytes_per_rank
        if axis.pattern is Pattern.RING:
            hop = 2 * (axis.size - 1) / axis.size * sent
            found += [(a, b, hop) for a, b in zip(nodes, nodes[1:] + nodes[:1], strict=True)]
        elif axis.pattern is Pattern.CHAIN:
            steps = list(pairwise(nodes))
            found += [(a, b, sent) for a, b in steps] + [(b, a, sent) for a, b in steps]
        else:
            found += [(a, b, sent / axis.size) for a in nodes for b in nodes]
    return [edge for edge in found if edge[0] != edge[1]]


def _assignments(sizes: list[int]) -> Any:
    """Every way to put the positions on the leaves: a row of leaves for each."""
    rows: list[tuple[int, ...]] = []
    left = list(sizes)

    def put(row: tuple[int, ...]) -> None:
        if len(row) == sum(sizes):
            rows.append(row)
            return
        for leaf, free in enumerate(left):
            if free:
                left[leaf] -= 1
                put((*row, leaf))
                left[leaf] += 1

    put(())
    return np.array(rows, dtype=np.int8)


def least_s(one: Instance) -> float:
    """The least time of any order, of all there are."""
    sizes = [size for pod in one.pods for size in pod]
    on_leaf = _assignments(sizes)
    pod_of_leaf = np.array([i for i, pod in enumerate(one.pods) for _ in pod])
    layers = [(on_leaf, one.leaf_uplinks)]
    if len(one.pods) > 1:
        layers.append((pod_of_leaf[on_leaf], one.pod_uplinks))
    total = np.zeros(len(on_leaf))
    for axis in one.mesh.axes:
        edges = _edges(axis, one.mesh.stride(axis.name), one.mesh.ranks, one.per_node)
        if edges:
            stride = one.mesh.stride(axis.name)
            hosts = len({i * stride // one.per_node for i in range(axis.size)})
            total += _axis_s(axis, hosts, edges, layers)
    return float(total.min())


def _axis_s(axis: MeshAxis, hosts: int, edges: Edges, layers: list[tuple[Any, list[float]]]) -> Any:
    sent: dict[int, float] = {}
    for node, _, size in edges:
        sent[node] = sent.get(node, 0.0) + size
    busy = np.full(len(layers[0][0]), max(sent.values()) / NIC_BYTES_PER_S)
    crossed = np.zeros(len(busy))
    for level, (place_of, uplinks) in enumerate(layers, start=1):
        for domain, speed in enumerate(uplinks):
            inside = place_of == domain
            out, into = np.zeros(len(busy)), np.zeros(len(busy))
            for a, b, size in edges:
                out += size * (inside[:, a] & ~inside[:, b])
                into += size * (inside[:, b] & ~inside[:, a])
            busy = np.maximum(busy, np.maximum(out, into) / speed)
        for a, b, _ in edges:
            crossed = np.maximum(crossed, level * (place_of[:, a] != place_of[:, b]))
    steps = (2 if axis.pattern is Pattern.RING else 1) * (hosts - 1)
    return busy + steps * (NET_LATENCY_S + crossed * LEVEL_LATENCY_S)


def test_the_order_is_near_the_optimum() -> None:
    """On up to 12 nodes, of two and three axes, and the printed bound is near to it too."""
    dice = random.Random(2026)  # noqa: S311  draws that can be repeated
    gaps, above = [], []
    for _ in range(INSTANCES):
        one = instance(dice)
        locality = tree(
            one.pods, leaf_uplinks=one.leaf_uplinks, pod_uplinks=one.pod_uplinks, seed=one.seed
        )
        found = place(request(locality, one.mesh, per_node=one.per_node)).objectives[TIME]
        optimum_s = least_s(one)
        assert found.lower_bound is not None
        assert found.lower_bound <= optimum_s * (1 + 1e-9), one
        assert found.placed >= optimum_s * (1 - 1e-9), one
        gaps.append(found.placed / optimum_s - 1)
        above.append(optimum_s / found.lower_bound - 1)
    assert sum(gaps) / len(gaps) <= MEAN_GAP
    assert max(gaps) <= WORST_GAP
    assert max(above) <= WORST_BOUND
    print(f"mean gap {sum(gaps) / len(gaps):.3%}, worst {max(gaps):.3%}")
