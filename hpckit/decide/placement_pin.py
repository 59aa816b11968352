"""Rank 0 on the first node of Slurm's list, where many programs look for it.

JAX, TensorFlow and many scripts take the first host of SLURM_JOB_NODELIST for the place to meet,
whatever the order of ranks is. Around a ring every node can be the first, and a chain can be turned
round, so this seldom costs anything. Pure Python: computed inside jobs too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_packing import Grid
from hpckit.model.mesh import Pattern


def turned(instance: Instance, grid: Grid, order: Sequence[int], first: int) -> list[int] | None:
    """The same order, turned so that node `first` is on position 0; None where that cannot be.

    Nodes of one leaf that are alike change places, which costs nothing. Nodes that nobody knows
    stay on the last positions, so with them nothing is turned.
    """
    if instance.fixed:
        return None
    alike = [
        position
        for position, node in enumerate(order)
        if instance.levels[0][node] == instance.levels[0][first]
        and instance.nic_s[node] == instance.nic_s[first]
    ]
    for position in sorted(alike, key=lambda at: order[at] != first):
        moved = _turned_to(instance, grid, position)
        if moved is not None:
            found = [order[at] for at in moved]
            there = found.index(first)
            found[0], found[there] = found[there], found[0]
            return found
    return None


def swapped(order: Sequence[int], first: int) -> list[int]:
    """The order with node `first` on position 0, and what was there in its place."""
    found = list(order)
    there = found.index(first)
    found[0], found[there] = found[there], found[0]
    return found


def _turned_to(instance: Instance, grid: Grid, position: int) -> list[int] | None:
    """For each position the one whose node comes to it when `position` becomes 0."""
    split = {traffic.axis.splits for traffic in instance.traffic if traffic.axis.bytes_per_rank}
    moves: list[list[int]] = []
    for size, axis in grid:
        at = position % size
        position //= size
        is_ring = axis.pattern is not Pattern.CHAIN and axis.name not in split
        if is_ring or (not axis.bytes_per_rank and axis.name not in split):
            moves.append([(at + i) % size for i in range(size)])
        elif at == 0:
            moves.append(list(range(size)))
        elif at == size - 1:
            moves.append(list(range(size - 1, -1, -1)))
        else:
            return None
    found, stride = [0], 1
    for move in moves:
        found = [base + stride * at for at in move for base in found]
        stride *= len(move)
    return found if len(found) == len(instance.nodes) else None
