"""What is to be placed, as it is asked."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.decide.placement_instance import Instance, Speeds, make_instance
from hpckit.decide.traffic import mesh_words, traffic_of
from hpckit.errors import PlanError
from hpckit.model.hostlist import natural_order
from hpckit.model.locality import Locality
from hpckit.model.mesh import Mesh
from hpckit.model.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What is to be placed: `nodes` of `ranks_per_node` ranks each.

    `slurm_order` is Slurm's own order of the nodes, None where it is not known. `listed` are the
    nodes as Slurm lists them, on the first of which a job of hpckit's has rank 0; None where nobody
    tells. `first` is the node that rank 0 is to be on, None where it may be on any.
    """

    nodes: tuple[str, ...]
    ranks_per_node: int
    mesh: Mesh
    locality: Locality
    speeds: Speeds
    slurm_order: tuple[str, ...] | None = None
    listed: tuple[str, ...] | None = None
    first: str | None = None


def instance_of(request: PlacementRequest) -> Instance:
    """The instance that is searched. Raises PlanError where mesh and nodes do not agree."""
    nodes = tuple(sorted(dict.fromkeys(request.nodes), key=natural_order))
    have = len(nodes) * request.ranks_per_node
    if request.mesh.ranks != have:
        raise PlanError(
            "the mesh is not the size of the job",
            have=f"{counted(have, 'rank')} ({counted(len(nodes), 'node')}"
            f" × {request.ranks_per_node})",
            need=f"{request.mesh.ranks} ({mesh_words(request.mesh)})",
            hint=_fix(request, len(nodes)),
        )
    traffic = traffic_of(request.mesh, request.ranks_per_node)
    return make_instance(nodes, request.locality, traffic, request.speeds)


def _fix(request: PlacementRequest, nodes: int) -> str:
    need, rest = divmod(request.mesh.ranks, request.ranks_per_node)
    product = f"set the mesh so that its product is {nodes * request.ranks_per_node}"
    return product if rest else f"name {counted(need, 'node')}, or {product}"
