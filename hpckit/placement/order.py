"""The order of a job's nodes alone, as a job needs it. Pure Python: computed inside jobs too."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpckit.core.errors import PlanError
from hpckit.core.hostlist import natural_order, naturally_sorted
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.fabric.locality import ROOT, Locality
from hpckit.placement.instance import Instance, make_instance
from hpckit.placement.order_plan import Mesh, Speeds
from hpckit.placement.packing import node_grid
from hpckit.placement.search import Found, Search
from hpckit.placement.traffic import mesh_words, traffic_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What is to be placed: `nodes` of `ranks_per_node` ranks each.

    `slurm_order` is Slurm's own order of the nodes, None where it is not known. `listed` are the
    nodes as Slurm lists them, on the first of which a job of hpckit's has rank 0; None where nobody
    tells. `first` is the node that rank 0 is to be on, None where it may be on any. `segment` nodes
    one after the other are of one lowest domain if each domain has a multiple of them.
    """

    nodes: tuple[str, ...]
    ranks_per_node: int
    mesh: Mesh
    locality: Locality
    speeds: Speeds
    slurm_order: tuple[str, ...] | None = None
    listed: tuple[str, ...] | None = None
    first: str | None = None
    segment: int = 1


def instance_of(request: PlacementRequest) -> Instance:
    """The instance that is searched. Raises PlanError where mesh and nodes do not agree."""
    nodes = tuple(naturally_sorted({*request.nodes}))
    have = len(nodes) * request.ranks_per_node
    if request.mesh.ranks != have:
        need, rest = divmod(request.mesh.ranks, request.ranks_per_node)
        fix = f"change the mesh so that its sizes multiply to {have}"
        raise PlanError(
            "the mesh does not match the number of ranks",
            have=f"{counted(have, 'rank')} ({counted(len(nodes), 'node')}"
            f" × {request.ranks_per_node})",
            need=f"{request.mesh.ranks} ({mesh_words(request.mesh)})",
            hint=fix if rest else f"use {counted(need, 'node')}, or {fix}",
        )
    traffic = traffic_of(request.mesh, request.ranks_per_node)
    return make_instance(nodes, request.locality, traffic, request.speeds)


def order_of(request: PlacementRequest) -> tuple[str, ...]:
    """The order alone, as a job needs it: it begins with the request's first node.

    Raises PlanError.
    """
    segments = _segments(request) if request.segment > 1 else {}
    if segments:
        leads = order_of(_by_segment(request, segments)) if len(segments) > 1 else segments
        return tuple(node for lead in leads for node in segments[lead])
    instance = instance_of(request)
    free, pinned, _ = found_orders(instance, request, request.first)
    found = free if pinned is None else pinned
    return tuple(instance.nodes[node] for node in found.order)


def _segments(request: PlacementRequest) -> dict[str, list[str]]:
    """The nodes by the first of each segment; none where a domain does not hold whole ones."""
    nodes = sorted(
        dict.fromkeys(request.nodes), key=lambda node: (node != request.first, natural_order(node))
    )
    by_domain: dict[int, list[str]] = {}
    for node in nodes:
        by_domain.setdefault(request.locality.domain_of.get(node, ROOT), []).append(node)
    size = request.segment
    if ROOT in by_domain or any(len(own) % size for own in by_domain.values()):
        return {}
    return {
        own[at]: own[at : at + size]
        for own in by_domain.values()
        for at in range(0, len(own), size)
    }


def _by_segment(request: PlacementRequest, segments: Mapping[str, list[str]]) -> PlacementRequest:
    """The same with a segment as one node, which has all that its nodes have."""
    locality, size = request.locality, request.segment
    told = locality.nic_bytes_per_s
    return replace(
        request,
        nodes=tuple(segments),
        ranks_per_node=request.ranks_per_node * size,
        locality=replace(
            locality,
            domain_of={lead: locality.domain_of[lead] for lead in segments},
            nic_bytes_per_s={
                lead: sum(told[node] for node in own)
                for lead, own in segments.items()
                if told.keys() >= {*own}
            },
        ),
        speeds=replace(
            request.speeds,
            nic_bytes_per_s=request.speeds.nic_bytes_per_s * size,
            nvlink_bytes_per_s=request.speeds.nvlink_bytes_per_s * size,
        ),
        slurm_order=None,
        listed=tuple(segments),
        segment=1,
    )


def found_orders(
    instance: Instance, request: PlacementRequest, first: str | None
) -> tuple[Found, Found | None, float]:
    """The best order, the best of those that have `first` in front, and the least time of any.

    The second is None where `first` is. The two are one where nothing is better about any other,
    and `first` is a node that the network has: then a job has the order that is shown.
    """
    grid = node_grid(request.mesh, request.ranks_per_node)
    search = Search(instance, grid, _candidates(instance, request))
    free = search.free()
    if first is None:
        return free, None, search.bound_s
    at = instance.nodes.index(first)
    pinned = search.pinned(at)
    if at < len(instance.nodes) - instance.fixed and pinned.is_no_worse(free):
        free = replace(pinned, least_s=min(free.least_s, pinned.least_s))
    return free, pinned, search.bound_s


def given_orders(instance: Instance, request: PlacementRequest) -> list[list[int]]:
    """Host names in alphabetical order, a random order, and Slurm's where it is known."""
    shuffled = list(instance.nodes)
    random.Random(1).shuffle(shuffled)  # noqa: S311  an order to compare with
    orders = [sorted(instance.nodes), shuffled]
    if request.slurm_order is not None:
        orders.append(list(request.slurm_order))
    return [order_named(instance, order) for order in orders]


def _candidates(instance: Instance, request: PlacementRequest) -> list[list[int]]:
    """Orders that the one found is no worse than, those first that people expect.

    They are the same in a job, which does not know its Slurm's release: by leaf is what 26.05 does.
    """
    hostname, shuffled, *slurm = given_orders(instance, request)
    natural = list(range(len(instance.nodes)))
    listed = natural if request.listed is None else order_named(instance, request.listed)
    by_leaf = sorted(listed, key=lambda node: instance.levels[0][node])
    return [*slurm, listed, by_leaf, natural, hostname, shuffled]


def order_named(instance: Instance, names: Sequence[str]) -> list[int]:
    """The nodes of these names; those that nobody knows last, as in the order that is looked for.

    So bounds hold for it.
    """
    index = {node: i for i, node in enumerate(instance.nodes)}
    order = [index[node] for node in names]
    if not instance.fixed:
        return order
    known = len(instance.nodes) - instance.fixed
    return sorted(order, key=lambda node: max(0, node - known + 1))
