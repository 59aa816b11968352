"""On how many leaves the groups of an order lie. Pure Python: computed inside jobs too.

A leaf is the lowest domain that a source tells of: an NVLink domain for the nodes in one, the leaf
switch for those beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.decide.placement_instance import Instance
from hpckit.model.locality import ROOT


def spread(instance: Instance, order: Sequence[int], axis: int) -> list[int]:
    """On how many leaves each group of an axis lies, at least one.

    Nodes that nobody knows are on none.
    """
    homes = instance.homes
    leaf = [homes[node] for node in order]
    found = []
    for group in instance.traffic[axis].groups:
        leaves = {leaf[position] for position in group.nodes}
        leaves.discard(ROOT)
        found.append(max(1, len(leaves)))
    return found


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
