"""The order of a job's nodes alone, as a job needs it. Pure Python: computed inside jobs too."""

from __future__ import annotations

import random
from typing import Final

from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_packing import node_grid
from hpckit.decide.placement_request import PlacementRequest, instance_of
from hpckit.decide.placement_search import best_order, pinned_order

_RANDOM_SEED: Final = 1


def order_of(request: PlacementRequest) -> tuple[str, ...]:
    """The order alone, as a job needs it: it begins with the request's first node.

    Raises PlanError.
    """
    instance = instance_of(request)
    given = given_orders(instance, request)
    grid = node_grid(request.mesh, request.ranks_per_node)
    found = best_order(instance, grid, given)
    first = first_index(instance, request)
    if first is not None:
        found = pinned_order(instance, grid, given, found, first)
    return tuple(instance.nodes[node] for node in found)


def first_index(instance: Instance, request: PlacementRequest) -> int | None:
    """The node that rank 0 is to be on; None where that is any, or one that nobody knows."""
    if request.first is None:
        return None
    found = instance.nodes.index(request.first)
    return found if found < len(instance.nodes) - instance.fixed else None


def given_orders(instance: Instance, request: PlacementRequest) -> list[list[int]]:
    """Host names in alphabetical order, a random order, and Slurm's where it is known.

    In each the nodes that nobody knows come last, as they do in the order that is looked for.
    """
    index = {node: i for i, node in enumerate(instance.nodes)}
    shuffled = list(range(len(instance.nodes)))
    random.Random(_RANDOM_SEED).shuffle(shuffled)  # noqa: S311  an order to compare with
    orders = [[index[node] for node in sorted(instance.nodes)], shuffled]
    if request.slurm_order is not None:
        orders.append([index[node] for node in request.slurm_order])
    known = len(instance.nodes) - instance.fixed
    return [sorted(order, key=lambda node: max(0, node - known + 1)) for order in orders]
