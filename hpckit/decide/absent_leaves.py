"""Leaves that a regular grid of rails and groups should have, and what they would be called."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

from hpckit.decide.rail_grid import RailGrid
from hpckit.decide.rail_peers import RailPeers

_PARTS: Final = re.compile(r"[0-9]+|[^0-9]+", re.ASCII)
_HALF: Final = 0.5
_VOTERS: Final = 64


class Absent(NamedTuple):
    """A place of the grid without a leaf; `name` is what its neighbours' names say, or None."""

    group: int
    rail: int
    name: str | None


def absent_leaves(grid: RailGrid) -> list[Absent]:
    """The places without a leaf, of rails that at least half of the groups have.

    Nodes of a kind that has fewer NICs lack no leaf: it is one where their kind has that rail
    elsewhere, or where most other rails are there.
    """
    some: dict[int, str] = {}
    for node, home in grid.home.items():
        some.setdefault(home, node)
    has = {
        group: {grid.rail_of.get(leaf) for leaf in leaves}
        for group, leaves in enumerate(grid.groups)
        if group in some
    }
    if len(has) == 1 or all(len(rails) == len(grid.rails) for rails in has.values()):
        return []
    peers = RailPeers(grid)
    return [
        Absent(group, rail, _name(grid, group, rail))
        for group, rails in has.items()
        for rail, columns in enumerate(grid.rails)
        if rail not in rails
        and sum(rail in one for one in has.values()) >= _HALF * len(has)
        and (len(rails) > _HALF * len(grid.rails) or peers.are_usual(some[group], columns))
        and not _elsewhere(grid, group, rail)
    ]


def _elsewhere(grid: RailGrid, group: int, rail: int) -> bool:
    """Whether half of a group's nodes have the rail all the same, on another group's leaf."""
    nodes = [ports for node, ports in grid.nodes.items() if grid.home[node] == group]
    with_rail = sum(
        any(grid.rail_of_column(one.column) == rail for one in ports) for ports in nodes
    )
    return with_rail > _HALF * len(nodes)


def _name(grid: RailGrid, group: int, rail: int) -> str | None:
    """What the names of its row and column make of it, where all that can be asked agree."""
    taken = {leaf for leaves in grid.groups for leaf in leaves}
    votes: Counter[str] = Counter()
    for other in range(len(grid.groups)):
        beside = grid.cell(other, rail)
        for own_rail in range(len(grid.rails)):
            own, across = grid.cell(group, own_rail), grid.cell(other, own_rail)
            if len(own) == len(beside) == len(across) == 1:
                name = _fourth(across[0], own[0], beside[0])
                if name is not None and name not in taken:
                    votes[name] += 1
        if votes.total() >= _VOTERS:
            break
    best = votes.most_common(1)
    return best[0][0] if best and best[0][1] > _HALF * votes.total() else None


def _fourth(corner: str, same_group: str, same_rail: str) -> str | None:
    """The name that is to `same_group` as `same_rail` is to `corner`, a part at a time."""
    parts = [_PARTS.findall(name) for name in (corner, same_group, same_rail)]
    if len({len(one) for one in parts}) > 1:
        return None
    made = []
    for at_corner, of_group, of_rail in zip(*parts, strict=True):
        if at_corner == of_group:
            made.append(of_rail)
        elif at_corner == of_rail:
            made.append(of_group)
        else:
            return None
    return "".join(made)
