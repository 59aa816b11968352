"""What kind a switch is, by what hangs on it or below it: the rail, and the nodes by their names.

Cables are compared with those of their kind: a leaf for storage or for CPU nodes has the cables
upwards that its plan gave it, and they are none of a compute leaf's.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hpckit.fabric.ends import name_shape, short_name
from hpckit.fabric.rails import RailGrid
from hpckit.fabric.topology import ClusterTopology, EndKind, SwitchLink


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
    for _, link in sorted(upward_links(topology), key=lambda pair: pair[0]):
        found[link.upper] |= found[link.lower]
    return found


def upward_links(topology: ClusterTopology) -> Iterator[tuple[int, SwitchLink]]:
    """Yield the links between switches of two known levels, each with the lower level."""
    level = {switch.name: switch.level for switch in topology.switches}
    for link in topology.links:
        lower, upper = level.get(link.lower), level.get(link.upper)
        if lower is not None and upper is not None and lower < upper:
            yield lower, link


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


def named_as(topology: ClusterTopology, nodes: Sequence[str]) -> ClusterTopology:
    """The topology in which nodes have the names of `nodes` where only case or domain differ.

    Names that several nodes have then, here or there, stay as they are.
    """
    names = _names(topology, nodes)
    if not names:
        return topology
    return dataclasses.replace(
        topology,
        ports=tuple(
            dataclasses.replace(port, node=names.get(port.node or "", port.node))
            for port in topology.ports
        ),
        blocks=tuple(
            dataclasses.replace(block, nodes=tuple(names.get(node, node) for node in block.nodes))
            for block in topology.blocks
        ),
    )


def _names(topology: ClusterTopology, nodes: Sequence[str]) -> Mapping[str, str]:
    """The name that is asked for, by the one that the topology has."""
    there = set(topology.nodes)
    lost = [node for node in nodes if node not in there]
    if not lost:
        return {}
    asked = Counter(map(short_name, nodes))
    ours: defaultdict[str, list[str]] = defaultdict(list)
    for node in topology.nodes:
        ours[short_name(node)].append(node)
    found = {}
    for node in lost:
        short = short_name(node)
        if asked[short] == 1 and len(ours[short]) == 1:
            found[ours[short][0]] = node
    return found
