"""Orders by segments: on the nodes that Slurm grants so, no group crosses a block."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import prod

import pytest

from hpckit.fabric.domains import locality_of
from hpckit.fabric.topology import Block, ClusterTopology, FabricSource
from hpckit.placement.order import PlacementRequest, order_of
from hpckit.placement.place import speeds_of
from hpckit.placement.request import mesh_of
from hpckit.script.segment import group_nodes
from hpckit.spec.job import JOB_SCHEMA, JobSpec, LaunchRequest, MeshAxis, ResourceRequest
from tests.sizes import size

Mesh = Mapping[MeshAxis, int]


def cluster(blocks: int, nodes: int) -> ClusterTopology:
    """A cluster of so many blocks of so many nodes."""
    names = [[f"n{block:02}{node:02}" for node in range(nodes)] for block in range(blocks)]
    return ClusterTopology(
        source=FabricSource.SCONTROL,
        blocks=tuple(Block(name=f"b{at}", nodes=tuple(own)) for at, own in enumerate(names)),
    )


def random_mesh(rng: random.Random) -> Mesh:
    """A mesh whose tensor axis is the innermost, sometimes with experts."""
    mesh: dict[MeshAxis, int] = {MeshAxis.TENSOR: rng.choice([2, 4, 8, 16, 32])}
    if rng.random() < 0.3:
        mesh[MeshAxis.CONTEXT] = rng.choice([2, 4])
    rest = [(MeshAxis.DATA, rng.choice([1, 2, 3, 4, 8])),
            (MeshAxis.PIPELINE, rng.choice([1, 2, 4, 8]))]  # fmt: skip
    rng.shuffle(rest)
    mesh.update(rest)
    data = mesh[MeshAxis.DATA]
    if data > 1 and rng.random() < 0.4:
        mesh[MeshAxis.EXPERT] = rng.choice([n for n in range(2, data + 1) if data % n == 0])
    return mesh


def job(mesh: Mesh, per_node: int) -> JobSpec | None:
    """A job of this mesh, None where it does not fill whole nodes."""
    ranks = prod(count for axis, count in mesh.items() if axis is not MeshAxis.EXPERT)
    if ranks % per_node:
        return None
    return JobSpec(
        schema=JOB_SCHEMA, name="x", command=("x",), parallel=mesh,
        launch=LaunchRequest(kind="mpi"),
        resources=ResourceRequest(nodes=ranks // per_node, ntasks_per_node=per_node),
    )  # fmt: skip


def granted(rng: random.Random, topology: ClusterTopology, nodes: int, segment: int) -> list[str]:
    """Nodes as Slurm grants them: each segment in one block, any that has so many; none if full."""
    free = [rng.sample(block.nodes, len(block.nodes)) for block in topology.blocks]
    found: list[str] = []
    while len(found) < nodes:
        fitting = [own for own in free if len(own) >= segment]
        if not fitting:
            return []
        own = rng.choice(fitting)
        found += [own.pop() for _ in range(segment)]
    return found


def groups(mesh: Mesh, ranks: int) -> list[list[int]]:
    """The ranks of each tensor group and of each expert group."""
    stride, strides = 1, dict.fromkeys(mesh, 1)
    for axis, count in mesh.items():
        if axis is not MeshAxis.EXPERT:
            strides[axis] = stride
            stride *= count
    sizes: dict[MeshAxis, int] = {MeshAxis.TENSOR: mesh[MeshAxis.TENSOR]}
    strides[MeshAxis.EXPERT] = strides[MeshAxis.DATA]
    if MeshAxis.EXPERT in mesh:
        sizes[MeshAxis.EXPERT] = mesh[MeshAxis.EXPERT]
    return [
        [rank + strides[axis] * at for at in range(count)]
        for axis, count in sizes.items()
        for rank in range(ranks)
        if rank // strides[axis] % count == 0
    ]


def ordered(
    topology: ClusterTopology, nodes: Sequence[str], mesh: Mesh, per_node: int, segment: int
) -> Sequence[str]:
    """The nodes in the order of their ranks, as a job computes it."""
    listed = tuple(sorted(nodes))
    request = PlacementRequest(
        nodes=tuple(nodes), ranks_per_node=per_node, mesh=mesh_of(mesh, {}),
        locality=locality_of(topology), speeds=speeds_of(per_node), listed=listed,
        first=listed[0], segment=segment,
    )  # fmt: skip
    return order_of(request)


def test_no_group_crosses_a_block() -> None:
    """Of random meshes on random allocations; the order is one of the nodes, the first in front."""
    rng, tried = random.Random(20_261_128), 0  # noqa: S311
    while tried < size(quick=60, whole=500):
        per_node, mesh = rng.choice([1, 2, 4, 8]), random_mesh(rng)
        spec = job(mesh, per_node)
        group = None if spec is None else group_nodes(spec)
        topology = cluster(rng.randint(2, 12), rng.choice([4, 8, 16, 18]))
        if spec is None or group is None or spec.resources.nodes > 96:
            continue
        nodes = granted(rng, topology, spec.resources.nodes, group.nodes)
        if not nodes or spec.resources.nodes % group.nodes:
            continue
        tried += 1
        order = ordered(topology, nodes, mesh, per_node, group.nodes)
        assert sorted(order) == sorted(nodes)
        assert order[0] == min(nodes)
        block = [name[:3] for name in order for _ in range(per_node)]
        crossing = [one for one in groups(mesh, len(block)) if len({block[at] for at in one}) > 1]
        assert crossing == [], (mesh, per_node, group)


@pytest.mark.parametrize("segment", [1, 2])
def test_an_allocation_without_whole_segments_is_ordered_as_ever(segment: int) -> None:
    """Nodes that somebody named need not come by segments."""
    nodes = ["n0000", "n0001", "n0002", "n0100"]
    mesh = {MeshAxis.TENSOR: 4, MeshAxis.DATA: 2}
    order = ordered(cluster(2, 4), nodes, mesh, 2, segment)
    assert sorted(order) == nodes
