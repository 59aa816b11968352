"""The mesh of a job becomes patterns of communication, axis by axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.errors import PlanError
from hpckit.model.job import MeshAxis as AxisName
from hpckit.model.mesh import Mesh, MeshAxis, Pattern

_PATTERNS: Final = {
    AxisName.TENSOR: Pattern.RING,
    AxisName.CONTEXT: Pattern.RING,
    AxisName.DATA: Pattern.RING,
    AxisName.PIPELINE: Pattern.CHAIN,
    AxisName.EXPERT: Pattern.ALL_TO_ALL,
}
EQUAL_BYTES: Final = 1e9
"""What every axis is taken to send where nobody says anything: then they count alike."""


def mesh_of(sizes: Mapping[AxisName, int], volumes: Mapping[AxisName, float]) -> Mesh:
    """The mesh, innermost axis first, with bytes per rank and step.

    Without any volume all axes count alike; with some, those that are not named send nothing.
    Raises PlanError where experts do not divide the data axis, or a volume has no axis.
    """
    for axis in volumes:
        if axis not in sizes:
            raise PlanError(
                f"a volume is given for the axis {axis}",
                have=f"a mesh of {', '.join(sizes)}" if sizes else "no mesh",
                need="a mesh with that axis",
                hint=f"leave {axis} out of the volumes, or give the mesh that axis",
            )
    splits = None
    if AxisName.EXPERT in sizes and AxisName.DATA in sizes:
        splits = str(AxisName.DATA)
        if sizes[AxisName.DATA] % sizes[AxisName.EXPERT]:
            raise PlanError(
                "experts split the data axis",
                have=f"data {sizes[AxisName.DATA]}",
                need=f"a multiple of the {sizes[AxisName.EXPERT]} experts",
                hint="set expert to a divisor of data",
            )
    return Mesh(
        axes=tuple(
            MeshAxis(
                name=str(axis),
                size=size,
                pattern=_PATTERNS[axis],
                bytes_per_rank=volumes.get(axis, 0.0) if volumes else EQUAL_BYTES,
                splits=splits if axis is AxisName.EXPERT else None,
            )
            for axis, size in sizes.items()
        )
    )
