"""Which node carries which ranks of a job, before or while it has its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpckit.decide.locality import locality_of
from hpckit.decide.mesh import EQUAL_BYTES, mesh_of
from hpckit.decide.placement import place
from hpckit.decide.placement_instance import Speeds
from hpckit.decide.placement_request import PlacementRequest
from hpckit.decide.slurm_order import slurm_order, table_order
from hpckit.errors import PlanError
from hpckit.model.cluster import SlurmVersion
from hpckit.model.fabric import ClusterTopology, FabricSource
from hpckit.model.job import MeshAxis
from hpckit.model.locality import Locality
from hpckit.model.mesh import Mesh
from hpckit.model.placement import Placement
from hpckit.model.words import counted

GPU_NIC_BYTES_PER_S = 50e9
"""400 Gb/s for each GPU, as on DGX H100 and alike: taken where nobody tells."""
GPU_NVLINK_BYTES_PER_S = 450e9
"""NVLink of the fourth generation, one direction."""
OVERSUBSCRIPTION = 2.0
"""Taken where a fabric does not tell what its uplinks carry."""


_WHOLE: Final = frozenset(
    {
        FabricSource.SCONTROL,
        FabricSource.TOPOLOGY_CONF,
        FabricSource.TOPOLOGY_YAML,
        FabricSource.IBNETDISCOVER,
    }
)
"""Those that tell of every switch; of others the top is often left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceQuestion:
    """What is asked: the nodes, what runs on them, and what the caller knows of the network.

    `gpus` are those of a node, as many as its ranks unless told. `node_bytes_per_s` is what a
    node's NICs carry together in one direction. None is not told. `is_job`: hpckit starts the job,
    which keeps rank 0 on the first node of Slurm's list.
    """

    nodes: tuple[str, ...]
    ranks_per_node: int
    sizes: Mapping[MeshAxis, int]
    volumes: Mapping[MeshAxis, float]
    version: SlurmVersion | None = None
    gpus: int | None = None
    node_bytes_per_s: float | None = None
    oversubscription: float | None = None
    is_job: bool = False


def place_on(question: PlaceQuestion, topology: ClusterTopology) -> Placement:
    """The placement on a fabric, with what was assumed. Raises PlanError."""
    mesh = mesh_of(question.sizes, question.volumes)
    locality = locality_of(topology)
    if topology.source in _WHOLE:
        _refuse_parted(question.nodes, locality, str(topology.source))
    listed = tuple(sorted(question.nodes, key=table_order))
    request = PlacementRequest(
        nodes=question.nodes,
        ranks_per_node=question.ranks_per_node,
        mesh=mesh,
        locality=locality,
        speeds=speeds_of(
            question.gpus or question.ranks_per_node,
            question.node_bytes_per_s,
            question.oversubscription,
        ),
        slurm_order=slurm_order(question.nodes, question.version, topology),
        listed=listed,
        first=listed[0] if question.is_job and listed else None,
    )
    found = place(request, topology.plugin)
    return replace(
        found,
        assumed=tuple(_assumed(question, mesh, locality)),
        notes=(*found.notes, *_cut_off(question.nodes, locality)),
    )


def speeds_of(
    gpus: int,
    node_bytes_per_s: float | None = None,
    oversubscription: float | None = None,
) -> Speeds:
    """What is taken where a fabric does not tell; what the caller says stands over it."""
    return Speeds(
        nic_bytes_per_s=node_bytes_per_s or gpus * GPU_NIC_BYTES_PER_S,
        nvlink_bytes_per_s=gpus * GPU_NVLINK_BYTES_PER_S,
        oversubscription=oversubscription or OVERSUBSCRIPTION,
    )


def _refuse_parted(nodes: Sequence[str], locality: Locality, source: str) -> None:
    """Raise PlanError where nothing joins the switches of these nodes: Slurm starts no such job."""
    parts: dict[int, list[str]] = {}
    for node in nodes:
        path = locality.path(node)
        if path:
            parts.setdefault(path[-1], []).append(node)
    if len(parts) < 2:  # noqa: PLR2004  one network
        return
    told = [f"{len(ends)} under {locality.domains[top].name[:60]}" for top, ends in parts.items()]
    raise PlanError(
        f"{source} has no way between all nodes of the job",
        have=f"{len(parts)} networks of their own: {', '.join(told[:4])}",
        need="one switch above them all",
        hint="name nodes of one network, or a topology whose switches are joined",
    )


def _cut_off(nodes: Sequence[str], locality: Locality) -> Iterator[str]:
    """Domains that some of the nodes are in and others are not, and out of which no cable works."""
    inside = Counter(domain for node in nodes for domain in locality.path(node))
    for at, count in sorted(inside.items()):
        domain = locality.domains[at]
        if domain.uplink_bytes_per_s == 0 and count < len(nodes):
            yield (
                f"no cable out of {domain.name[:60]} works: its {counted(count, 'node')} of this"
                " job cannot reach the others; the order takes it for one that works"
            )


def _assumed(question: PlaceQuestion, mesh: Mesh, locality: Locality) -> list[str]:
    found = []
    if not question.volumes:
        found.append(f"every axis sends {EQUAL_BYTES / 1e9:g} GB a rank and step (--volume)")
    else:
        silent = [axis.name for axis in mesh.axes if not axis.bytes_per_rank]
        if silent:
            found.append(f"nothing is sent along {', '.join(silent)} (--volume)")
    told = locality.nic_bytes_per_s
    if question.node_bytes_per_s is None and any(node not in told for node in question.nodes):
        gpus = question.gpus or question.ranks_per_node
        gbits = gpus * GPU_NIC_BYTES_PER_S * 8 / 1e9
        found.append(f"{gbits:g} Gb/s out of each node, 400 a GPU (--node-gbits)")
    used = {domain for node in question.nodes for domain in locality.path(node)}
    if question.oversubscription is None and any(
        not locality.domains[i].uplink_bytes_per_s and locality.domains[i].parent != -1
        for i in used
    ):
        found.append(f"{OVERSUBSCRIPTION:g}:1 out of each leaf and above (--oversubscription)")
    return found
