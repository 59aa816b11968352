"""Which node carries which ranks of a job, before or while it has its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.hostlist import named
from hpckit.core.text import Line, visible
from hpckit.core.units import counted, short_bytes
from hpckit.core.values import dataclass
from hpckit.fabric.domain_names import short_names, where_words
from hpckit.fabric.domains import locality_of
from hpckit.fabric.ends import named_as
from hpckit.fabric.locality import ROOT, Locality
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.placement.compare import place
from hpckit.placement.order import PlacementRequest
from hpckit.placement.order_plan import Mesh, Speeds
from hpckit.placement.request import EQUAL_BYTES, Placement, mesh_of, slurm_order, table_order
from hpckit.placement.traffic import AxisTraffic, mesh_words, traffic_of
from hpckit.slurm.values import SlurmVersion
from hpckit.spec.job import MeshAxis

GPU_NIC_BYTES_PER_S = 50e9
"""400 Gb/s for each GPU, as on DGX H100 and alike: taken where nobody tells."""
GPU_NVLINK_BYTES_PER_S = 450e9
"""NVLink of the fourth generation, one direction."""
OVERSUBSCRIPTION = 2.0
"""Taken where a fabric does not tell what its uplinks carry."""
_LONGEST: Final = 100
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
    node's NICs carry together in one direction. `order` is to be judged in place of the best. None
    is not told. `is_job`: hpckit starts the job, which keeps rank 0 on the first node of Slurm's
    list. `is_even`: nobody told how many ranks a node has, and they are dealt evenly.
    """

    nodes: tuple[str, ...]
    ranks_per_node: int
    sizes: Mapping[MeshAxis, int]
    volumes: Mapping[MeshAxis, float]
    version: SlurmVersion | None = None
    order: tuple[str, ...] | None = None
    gpus: int | None = None
    node_bytes_per_s: float | None = None
    oversubscription: float | None = None
    is_job: bool = False
    is_even: bool = False


def order_of_lines(text: str, nodes: Sequence[str], source: str) -> tuple[str, ...]:
    """Return the order that a file has, one host a line: each of the nodes once.

    Raises ConfigError.
    """
    order = tuple(line.strip() for line in text.splitlines() if line.strip())
    counts = Counter(order)
    job = {*nodes}
    for wrong, found in (
        ("has hosts that are not nodes of the job", [name for name in counts if name not in job]),
        ("has hosts more than once", [name for name, count in counts.items() if count > 1]),
        ("lacks nodes of the job", [name for name in nodes if name not in counts]),
    ):
        if found:
            raise ConfigError(
                f"{wrong}: {named(map(visible, found))}",
                source=source,
                hint="write each node of the job on one line, in the order of ranks",
            )
    return order


def even_ranks(sizes: Mapping[MeshAxis, int], nodes: int) -> int:
    """How many ranks each node has where a mesh is dealt evenly. Raises PlanError."""
    mesh = mesh_of(sizes, {})
    each, rest = divmod(mesh.ranks, nodes)
    if rest:
        raise PlanError(
            "the ranks of the mesh do not divide evenly over the nodes",
            have=f"{counted(mesh.ranks, 'rank')} ({mesh_words(mesh)}) for {counted(nodes, 'node')}",
            need=f"a multiple of {nodes} ranks",
            hint=f"use a number of nodes that divides {mesh.ranks}, or set --gpus-per-node",
        )
    return each


def fabric_for(nodes: Sequence[str], topology: ClusterTopology) -> ClusterTopology:
    """The topology with the job's own names where they differ only by case or domain.

    Raises PlanError where it knows none of the nodes.
    """
    found = named_as(topology, nodes)
    there = found.nodes
    if not nodes or not set(nodes).isdisjoint(there):
        return found
    own = short_names(there, _LONGEST) or "no named node"
    raise PlanError(
        f"{topology.source} has none of the job's {counted(len(nodes), 'node')}",
        have=short_names(nodes, _LONGEST),
        need="names in it",
        hint=f"it has {own}: use these nodes, or the fabric of the job's nodes (--fabric)",
    )


def place_on(question: PlaceQuestion, topology: ClusterTopology) -> Placement:
    """The placement on a fabric, with what was given and assumed. Raises PlanError."""
    mesh = mesh_of(question.sizes, question.volumes)
    topology = fabric_for(question.nodes, topology)
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
    found = place(request, topology.plugin, question.order)
    return replace(
        found,
        given=tuple(_given(question, mesh, locality)),
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
    held = locality.held(nodes).items()
    parts = {at: count for at, count in held if locality.domains[at].parent == ROOT}
    if len(parts) < 2:  # noqa: PLR2004  one network
        return
    told = [f"{count} under {locality.domains[top].name[:60]}" for top, count in parts.items()]
    raise PlanError(
        f"{source} does not connect all nodes of the job",
        have=f"{len(parts)} separate networks: {', '.join(told[:4])}",
        need="one switch above all of them",
        hint="use nodes of one network, or a topology that connects the switches",
    )


def _cut_off(nodes: Sequence[str], locality: Locality) -> Iterator[str]:
    """Domains that some of the nodes are in and others are not, and out of which no cable works."""
    for at, count in sorted(locality.held(nodes).items()):
        domain = locality.domains[at]
        if domain.uplink_bytes_per_s == 0 and count < len(nodes):
            yield (
                f"{domain.name[:60]} has no working uplink: its {counted(count, 'node')} of this"
                " job cannot reach the others; the order assumes that it has one"
            )


def _given(question: PlaceQuestion, mesh: Mesh, locality: Locality) -> Iterator[str]:
    """What the caller said of traffic and network, also where the fabric leaves it no say."""
    sent = [f"{axis.name} {short_bytes(axis.bytes_per_rank)}" for axis in mesh.axes
            if axis.bytes_per_rank]  # fmt: skip
    if question.volumes and sent:
        yield f"{', '.join(sent)} per rank and step"
    unused = ", ignored: the fabric has its own figures"
    if question.node_bytes_per_s is not None:
        gbits = question.node_bytes_per_s * 8 / 1e9
        yield f"{gbits:g} Gb/s per node" + ("" if _lacks_nics(question, locality) else unused)
    if question.oversubscription is not None:
        yield f"{question.oversubscription:g}:1 oversubscription at each leaf" + (
            "" if _lacks_uplinks(question, locality) else unused
        )


def _assumed(question: PlaceQuestion, mesh: Mesh, locality: Locality) -> Iterator[str]:
    if question.is_even:
        ranks, nodes = counted(mesh.ranks, "rank"), counted(len(question.nodes), "node")
        yield f"{ranks} on {nodes}: {question.ranks_per_node} each (--gpus-per-node)"
    if not question.volumes:
        yield f"{EQUAL_BYTES / 1e9:g} GB per rank and step on every axis (--volume)"
    else:
        silent = [axis.name for axis in mesh.axes if not axis.bytes_per_rank]
        if silent:
            yield f"no traffic on {', '.join(silent)} (--volume)"
    if question.node_bytes_per_s is None and _lacks_nics(question, locality):
        gpus = question.gpus or question.ranks_per_node
        gbits = gpus * GPU_NIC_BYTES_PER_S * 8 / 1e9
        yield f"{gbits:g} Gb/s per node, 400 per GPU (--node-gbits)"
    if question.oversubscription is None and _lacks_uplinks(question, locality):
        yield f"{OVERSUBSCRIPTION:g}:1 oversubscription at leaves and above (--oversubscription)"
    if question.version is None:
        yield "no Slurm release, so Slurm's own order is unknown (--slurm-version)"


def _lacks_nics(question: PlaceQuestion, locality: Locality) -> bool:
    return any(node not in locality.nic_bytes_per_s for node in question.nodes)


def _lacks_uplinks(question: PlaceQuestion, locality: Locality) -> bool:
    """Whether traffic may leave a domain of which nobody tells what leads out of it."""
    inside = locality.held(question.nodes)
    return any(
        count < len(question.nodes)
        and not locality.domains[at].uplink_bytes_per_s
        and not locality.domains[at].is_nvlink
        for at, count in inside.items()
    )


def placed_text(
    question: PlaceQuestion, topology: ClusterTopology, placement: Placement, width: int
) -> Iterator[Line]:
    """Return the table of a placement, and the reasons, in lines of at most `width` columns."""
    from hpckit.placement.show import placement_lines

    return placement_lines(
        placement,
        mesh_of(question.sizes, question.volumes),
        where=where_words(locality_of(topology), question.nodes),
        source=str(topology.source),
        width=width,
    )


def placed_picture(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    axis: str | None = None,
    *,
    source: str | None = None,
) -> str:
    """Return the SVG with the colours of an axis's groups, else of that which the order changes.

    `source` is what told of the network, in words.
    """
    from hpckit.placement.picture import placement_svg
    from hpckit.placement.show import headline

    mesh = mesh_of(question.sizes, question.volumes)
    axes = {one.axis.name: one for one in traffic_of(mesh, question.ranks_per_node)}
    shown = axes[axis or _most_changed(axes, placement)]
    time = placement.objectives["step_comm_time_s"]
    locality = locality_of(topology)
    nodes = f"{counted(len(question.nodes), 'node')} {where_words(locality, question.nodes)}"
    return placement_svg(
        locality,
        (placement.orders.placed, placement.orders.hostname),
        [group.nodes for group in shown.groups],
        axis=shown.axis.name,
        ranks_per_node=question.ranks_per_node,
        title=headline(time) or nodes,
        facts=(
            (f"{nodes} ({source or topology.source})", f"mesh {mesh_words(mesh)}"),
            (time.placed, time.hostname),
        ),
    )


def _most_changed(axes: dict[str, AxisTraffic], placement: Placement) -> str:
    """The axis whose time the order changes most; else whose split groups, else the slowest.

    Of those that cross nodes where there are some.
    """

    def worth(name: str) -> tuple[float, ...]:
        found = placement.groups[name]
        split, time_s = found.straddling, found.time_s
        saved_ms = round(1e3 * abs(time_s.placed - time_s.hostname))
        return saved_ms, abs(split.placed - split.hostname), time_s.placed

    crossing = [name for name, one in axes.items() if one.groups] or list(axes)
    return max(crossing, key=worth)
