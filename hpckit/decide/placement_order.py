"""The order of a job's nodes alone, as a job needs it. Pure Python: computed inside jobs too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_packing import node_grid
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.decide.placement_search import Found, Search

_RANDOM_SEED: Final = 1


def order_of(request: PlacementRequest) -> tuple[str, ...]:
    """The order alone, as a job needs it: it begins with the request's first node.

    Raises PlanError.
    """
    instance = instance_of(request)
    free, pinned = found_orders(instance, request, request.first)
    found = free if pinned is None else pinned
    return tuple(instance.nodes[node] for node in found.order)


def found_orders(
    instance: Instance, request: PlacementRequest, first: str | None
) -> tuple[Found, Found | None]:
    """The best order, and the best of those that have `first` in front; None where that is None.

    They are one where nothing is better about any other, and `first` is a node that the network
    has: then a job has the order that is shown.
    """
    grid = node_grid(request.mesh, request.ranks_per_node)
    search = Search(instance, grid, _candidates(instance, request))
    free = search.free()
    if first is None:
        return free, None
    at = instance.nodes.index(first)
    pinned = search.pinned(at)
    if at < len(instance.nodes) - instance.fixed and pinned.is_no_worse(free):
        free = replace(pinned, least_s=min(free.least_s, pinned.least_s))
    return free, pinned


def given_orders(instance: Instance, request: PlacementRequest) -> list[list[int]]:
    """Host names in alphabetical order, a random order, and Slurm's where it is known.

    In each the nodes that nobody knows come last, as they do in the order that is looked for.
    """
    shuffled = list(range(len(instance.nodes)))
    random.Random(_RANDOM_SEED).shuffle(shuffled)  # noqa: S311  an order to compare with
    orders = [_indices(instance, sorted(instance.nodes)), shuffled]
    if request.slurm_order is not None:
        orders.append(_indices(instance, request.slurm_order))
    return [_fixed_last(instance, order) for order in orders]


def _candidates(instance: Instance, request: PlacementRequest) -> list[list[int]]:
    """Orders that the one found is no worse than, those first that people expect.

    They are the same in a job, which does not know its Slurm's release: by leaf is what 26.05 does.
    """
    hostname, shuffled, *slurm = given_orders(instance, request)
    natural = list(range(len(instance.nodes)))
    listed = natural if request.listed is None else _indices(instance, request.listed)
    listed = _fixed_last(instance, listed)
    by_leaf = sorted(listed, key=lambda node: instance.levels[0][node])
    return [*slurm, listed, by_leaf, natural, hostname, shuffled]


def _indices(instance: Instance, names: Sequence[str]) -> list[int]:
    index = {node: i for i, node in enumerate(instance.nodes)}
    return [index[node] for node in names]


def _fixed_last(instance: Instance, order: Sequence[int]) -> list[int]:
    known = len(instance.nodes) - instance.fixed
    return sorted(order, key=lambda node: max(0, node - known + 1))
