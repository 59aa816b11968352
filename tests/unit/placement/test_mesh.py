"""The mesh of a job as patterns of communication."""

from __future__ import annotations

from hpckit.placement.order_plan import Pattern
from hpckit.placement.request import EQUAL_BYTES, mesh_of
from hpckit.spec.job import MeshAxis

ALL = {
    MeshAxis.TENSOR: 8,
    MeshAxis.CONTEXT: 2,
    MeshAxis.PIPELINE: 4,
    MeshAxis.DATA: 16,
    MeshAxis.EXPERT: 8,
}


def test_each_axis_has_its_pattern() -> None:
    """Stages hand on, experts send to all, all else reduces in a ring; experts split data."""
    axes = {axis.name: axis for axis in mesh_of(ALL, {}).axes}
    assert list(axes) == list(ALL)
    assert {name: axis.pattern for name, axis in axes.items()} == {
        "tensor": Pattern.RING,
        "context": Pattern.RING,
        "pipeline": Pattern.CHAIN,
        "data": Pattern.RING,
        "expert": Pattern.ALL_TO_ALL,
    }
    assert {name for name, axis in axes.items() if axis.splits} == {"expert"}
    assert {axis.bytes_per_rank for axis in axes.values()} == {EQUAL_BYTES}


def test_an_axis_without_a_volume_sends_nothing() -> None:
    """Once one has a volume."""
    axes = mesh_of(ALL, {MeshAxis.DATA: 4e9}).axes
    assert {axis.name: axis.bytes_per_rank for axis in axes if axis.bytes_per_rank} == {"data": 4e9}
