"""Rails and planes of a fabric, from where NICs hang and which switches reach each other."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from hpckit.decide.fabric_ends import with_end_kinds
from hpckit.decide.rail_grid import RailGrid, rail_grid
from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, Rail
from hpckit.model.hostlist import natural_order


def with_rails(topology: ClusterTopology) -> ClusterTopology:
    """The topology with `rails`, `planes`, and hosts that do not compute told as OTHER.

    Rails are counted from 0 in the order of NICs. There are none where nodes have one NIC, or all
    NICs of a node lead to one leaf, or in Slurm's tree; there are no planes where the switches are
    all connected.
    """
    return with_grid(topology)[0]


def with_grid(topology: ClusterTopology) -> tuple[ClusterTopology, RailGrid]:
    """The same, and the grid that the rails are of."""
    sorted_out = with_end_kinds(topology)
    # Slurm's tree knows no NICs: a node that it has on two leaves is a mistake, and no rails.
    is_tree = sorted_out.plugin is TopologyKind.TREE
    grid = rail_grid(dataclasses.replace(sorted_out, ports=()) if is_tree else sorted_out)
    found = components(sorted_out)
    planes = tuple(found) if len(found) > 1 else ()
    return dataclasses.replace(sorted_out, rails=_rails(grid), planes=planes), grid


def components(topology: ClusterTopology) -> list[tuple[str, ...]]:
    """The sets of switches that reach each other by cables, in the order of the switches."""
    beside: defaultdict[str, list[str]] = defaultdict(list)
    for link in topology.links:
        beside[link.lower].append(link.upper)
        beside[link.upper].append(link.lower)
    place = {switch.name: at for at, switch in enumerate(topology.switches)}
    seen: set[str] = set()
    found = []
    for name in place:
        if name in seen:
            continue
        seen.add(name)
        reached, edge = [name], [name]
        while edge:
            further = dict.fromkeys(other for one in edge for other in beside[one])
            edge = [one for one in further if one not in seen]
            seen.update(edge)
            reached += edge
        found.append(tuple(sorted(reached, key=lambda one: place.get(one, len(place)))))
    return found


def _rails(grid: RailGrid) -> tuple[Rail, ...]:
    leaves: defaultdict[int, list[str]] = defaultdict(list)
    for leaf, rail in grid.rail_of.items():
        leaves[rail].append(leaf)
    nics: defaultdict[int, set[str]] = defaultdict(set)
    for ports in grid.nodes.values():
        for port, column in ports:
            at = grid.rail_of_column(column)
            if at is not None and port.nic is not None:
                nics[at].add(port.nic)
    return tuple(
        Rail(
            index=rail,
            switches=tuple(sorted(leaves[rail], key=natural_order)),
            nics=tuple(sorted(nics[rail], key=natural_order)),
        )
        for rail in range(len(grid.rails))
    )
