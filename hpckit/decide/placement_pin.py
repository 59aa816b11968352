"""Rank 0 on the first node of Slurm's list, where many programs look for it.

JAX, TensorFlow and many scripts take the first host of SLURM_JOB_NODELIST for the place to meet,
whatever the order of ranks is. Around a ring every node can be the first, and a chain can be turned
round, so this seldom costs anything. Pure Python: computed inside jobs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_packing import Grid
from hpckit.model.mesh import MeshAxis, Pattern


def turned(instance: Instance, grid: Grid, order: Sequence[int], first: int) -> list[int] | None:
    """The same order, turned so that node `first` is on position 0; None where that cannot be.

    Nodes of one leaf that are alike change places, which costs nothing. Nodes that nobody knows
    go back to the last positions, which may cost something.
    """
    alike = [
        position
        for position, node in enumerate(order)
        if instance.levels[0][node] == instance.levels[0][first]
        and instance.nic_s[node] == instance.nic_s[first]
    ]
    for position in sorted(alike, key=lambda at: order[at] != first):
        moved = _turned_to(instance, grid, position)
        if moved is not None:
            return _fixed_last(instance, swapped([order[at] for at in moved], first))
    return None


def renumbered(
    instance: Instance, grid: Grid, order: Sequence[int], first: int
) -> Iterator[list[int]]:
    """Orders with node `first` on position 0 that have the same groups of nodes as `order`.

    Along each axis coordinates change places, or go around: what is next to what in a group may be
    another, so the time may.
    """
    position = list(order).index(first)
    for goes_around in (False, True):
        moves, left = [], position
        for size, _ in grid:
            at, left = left % size, left // size
            if goes_around:
                moves.append([(at + i) % size for i in range(size)])
            else:
                moves.append(swapped(range(size), at))
        moved = _product(moves)
        if len(moved) == len(order):
            yield _fixed_last(instance, [order[at] for at in moved])


def swapped(order: Sequence[int], first: int) -> list[int]:
    """The order with node `first` on position 0, and what was there in its place."""
    found = list(order)
    there = found.index(first)
    found[0], found[there] = found[there], found[0]
    return found


def _fixed_last(instance: Instance, order: list[int]) -> list[int]:
    """The order with the nodes that nobody knows on the last positions again, but for the first."""
    free = len(order) - instance.fixed
    strayed = [at for at in range(1, free) if order[at] >= free]
    taken = [at for at in range(free, len(order)) if order[at] < free]
    for one, other in zip(strayed, taken, strict=False):
        order[one], order[other] = order[other], order[one]
    return order


def _turned_to(instance: Instance, grid: Grid, position: int) -> list[int] | None:
    """For each position the one whose node comes to it when `position` becomes 0."""
    split = {traffic.axis.splits for traffic in instance.traffic if traffic.axis.bytes_per_rank}
    moves: list[list[int]] = []
    for size, axis in grid:
        move = _move(axis, size, position % size, is_split=axis.name in split)
        if move is None:
            return None
        moves.append(move)
        position //= size
    found = _product(moves)
    return found if len(found) == len(instance.nodes) else None


def _move(axis: MeshAxis, size: int, at: int, *, is_split: bool) -> list[int] | None:
    """Coordinates of one axis in an order that begins with `at` and is worth the same."""
    if not is_split and (axis.pattern is not Pattern.CHAIN or not axis.bytes_per_rank):
        return [(at + i) % size for i in range(size)]
    if at == 0:
        return list(range(size))
    return list(range(size - 1, -1, -1)) if at == size - 1 else None


def _product(moves: Sequence[Sequence[int]]) -> list[int]:
    """Positions by the coordinates of each axis, the innermost first."""
    found, stride = [0], 1
    for move in moves:
        found = [base + stride * at for at in move for base in found]
        stride *= len(move)
    return found
