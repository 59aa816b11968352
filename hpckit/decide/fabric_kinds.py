"""What kind a switch is, by what hangs on it or below it: the rail, and the nodes by their names.

Cables are compared with those of their kind: a leaf for storage or for CPU nodes has the cables
upwards that its plan gave it, and they are none of a compute leaf's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from hpckit.decide.fabric_ends import name_shape
from hpckit.decide.rail_grid import RailGrid
from hpckit.model.fabric import ClusterTopology, EndKind


class LeafKind(NamedTuple):
    """The rail that a leaf carries, None where it is on none, and what its nodes are called."""

    rail: int | None
    nodes: str


Kinds = frozenset[LeafKind]
"""Of a leaf one kind, of a switch above all that are below it; of one that nothing tells, none."""


def switch_kinds(topology: ClusterTopology, grid: RailGrid) -> dict[str, Kinds]:
    """The kinds of all switches. A leaf's nodes are those that most on it are called like."""
    called = _called(topology)
    level = {switch.name: switch.level for switch in topology.switches}
    found = {
        name: frozenset({LeafKind(grid.rail_of.get(name), called[name])})
        if name in called and not at
        else Kinds()
        for name, at in level.items()
    }
    links = [
        (lower, link)
        for link in topology.links
        if (lower := level.get(link.lower)) is not None
        and (upper := level.get(link.upper)) is not None
        and lower < upper
    ]
    for _, link in sorted(links, key=lambda one: one[0]):
        found[link.upper] |= found[link.lower]
    return found


def _called(topology: ClusterTopology) -> Mapping[str, str]:
    """Switch → how most hosts on it are called, the compute nodes where there are any."""
    seen: dict[EndKind, defaultdict[str, Counter[str]]] = {
        EndKind.OTHER: defaultdict(Counter),
        EndKind.COMPUTE: defaultdict(Counter),
    }
    for port in topology.ports:
        if port.kind in seen and port.node is not None:
            seen[port.kind][port.switch][name_shape(port.node)] += 1
    return {
        switch: max(shapes, key=lambda shape: (shapes[shape], shape))
        for by_switch in seen.values()
        for switch, shapes in by_switch.items()
    }
