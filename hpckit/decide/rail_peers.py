"""What NICs a node's peers have, and which of them it lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from hpckit.decide.fabric_ends import FEWEST_PEERS, name_shape
from hpckit.decide.rail_grid import NodePort, RailGrid

_HALF: Final = 0.5

Shares = Mapping[int, float]
"""Column → the share of nodes that have a NIC of it."""


class RailPeers:
    """Which columns nodes of each kind of name and group have; a kind of few is held to all."""

    def __init__(self, grid: RailGrid) -> None:
        self._grid = grid
        kinds: defaultdict[str, list[str]] = defaultdict(list)
        near: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        whole: defaultdict[int, list[str]] = defaultdict(list)
        for node, home in grid.home.items():
            shape = name_shape(node)
            kinds[shape].append(node)
            near[home, shape].append(node)
            whole[home].append(node)
        self._known: dict[tuple[int, str], frozenset[int]] = {}
        everybody = _shares(grid.nodes, grid.nodes)
        beside = {group: _shares(grid.nodes, nodes) for group, nodes in whole.items()}
        self._kinds = {
            shape: _shares(grid.nodes, nodes)
            for shape, nodes in kinds.items()
            if len(nodes) >= FEWEST_PEERS
        }
        self._all = {shape: self._kinds.get(shape, everybody) for shape in kinds}
        self._near = {
            (group, shape): _shares(grid.nodes, nodes)
            if len(nodes) >= FEWEST_PEERS
            else beside[group]
            for (group, shape), nodes in near.items()
        }

    def usual(self, node: str) -> frozenset[int]:
        """The columns that more than half of its kind have, and half of those beside it."""
        return self._usual_of(self._grid.home[node], name_shape(node))

    def _usual_of(self, group: int, shape: str) -> frozenset[int]:
        known = self._known.get((group, shape))
        if known is not None:
            return known
        near = self._near[group, shape]
        found = frozenset(
            column
            for column, share in self._all[shape].items()
            if share > _HALF and near.get(column, 0.0) >= _HALF
        )
        return self._known.setdefault((group, shape), found)

    def are_usual(self, node: str, columns: frozenset[int]) -> bool:
        """Whether more than half of its kind have one of these; no for a kind of few."""
        shares = self._kinds.get(name_shape(node), {})
        return any(shares.get(column, 0.0) > _HALF for column in columns)

    def lacking(self) -> dict[str, frozenset[int]]:
        """The columns that nodes lack, of those that lack any."""
        found = {}
        for node, ports in self._grid.nodes.items():
            lacks = self.usual(node) - {one.column for one in ports if one.column is not None}
            if lacks:
                found[node] = lacks
        return found


def _shares(nodes: Mapping[str, tuple[NodePort, ...]], of: Iterable[str]) -> Shares:
    names = list(of)
    count = Counter(column for node in names for _, column in nodes[node] if column is not None)
    return {column: seen / len(names) for column, seen in count.items()}
