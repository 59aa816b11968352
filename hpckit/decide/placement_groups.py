"""On how many leaves the groups of an order lie. Pure Python: computed inside jobs too."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.decide.placement_instance import Instance


def spread(instance: Instance, order: Sequence[int], axis: int) -> list[int]:
    """On how many leaves each group of an axis lies."""
    leaf = [instance.levels[0][node] for node in order]
    return [
        len({leaf[position] for position in group.nodes}) for group in instance.traffic[axis].groups
    ]


def straddling(instance: Instance, order: Sequence[int], axis: int) -> int:
    """How many groups of an axis are on more than one leaf."""
    return sum(count > 1 for count in spread(instance, order, axis))


def sending_axes(instance: Instance) -> list[int]:
    """The axes that send anything between nodes; all of them where none does."""
    found = [
        i
        for i, traffic in enumerate(instance.traffic)
        if traffic.groups and traffic.axis.bytes_per_rank
    ]
    return found or list(range(len(instance.traffic)))
