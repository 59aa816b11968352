"""The grid of a rail-optimised fabric: which leaf carries which rail for which group of nodes.

A group is what hangs on one leaf of each rail: a rack, a scalable unit. One node that is cabled
differently changes neither the rails nor the groups: what most do counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from hpckit.decide.fabric_ends import by_node
from hpckit.decide.rail_columns import NicKey, columns_of, nic_keys
from hpckit.model.fabric import ClusterTopology, HostPort
from hpckit.model.hostlist import natural_order

_OF_A_RAIL: Final = 0.5
_FEWEST_RAILS: Final = 2
_NEAR: Final = (-1, 1, -2, 2, -3, 3, -4, 4)


class NodePort(NamedTuple):
    """A port of a node, and the column of its NIC, None for a name of its own."""

    port: HostPort
    column: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RailGrid:
    """Rails, groups, and the nodes of each; without rails each leaf is a group of its own.

    `rails` are the columns of each rail. `twice` are the names that more than one node has; they
    are not in `nodes`.
    """

    nodes: Mapping[str, tuple[NodePort, ...]]
    twice: tuple[str, ...] = ()
    rails: tuple[frozenset[int], ...] = ()
    rail_of: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    group_of: Mapping[str, int] = field(default_factory=dict)
    home: Mapping[str, int] = field(default_factory=dict)

    rail_of_columns: Mapping[int | None, int] = field(default_factory=dict)
    cells: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def rail_of_column(self, column: int | None) -> int | None:
        """The rail of a NIC."""
        return self.rail_of_columns.get(column)

    def cell(self, group: int, rail: int) -> tuple[str, ...]:
        """The leaves of a group that carry a rail."""
        return self.cells.get((group, rail), ())


def rail_grid(topology: ClusterTopology) -> RailGrid:
    """What is regular in where NICs hang. Kinds of ends come first: `with_end_kinds`."""
    keyed = {node: (ports, nic_keys(ports)) for node, ports in by_node(topology.ports).items()}
    twice = [node for node, (_, keys) in keyed.items() if len(set(keys)) < len(keys)]
    for node in twice:
        del keyed[node]
    columns = columns_of({node: keys for node, (_, keys) in keyed.items()})
    nodes = {node: _placed(ports, keys, columns) for node, (ports, keys) in keyed.items()}
    on_leaf = _on_leaves(nodes)
    rails = _rails(on_leaf)
    found = {leaf: _rail(seen, rails) for leaf, seen in on_leaf.items()} if rails else {}
    rail_of = {leaf: rail for leaf, rail in found.items() if rail is not None}
    groups = _groups(nodes, rail_of) if rails else [(leaf,) for leaf in on_leaf]
    group_of = {leaf: at for at, leaves in enumerate(groups) for leaf in leaves}
    return RailGrid(
        nodes=nodes,
        twice=tuple(twice),
        rails=tuple(rails),
        rail_of=rail_of,
        groups=tuple(groups),
        group_of=group_of,
        home=_homes(nodes, group_of),
        rail_of_columns={column: rail for rail, columns in enumerate(rails) for column in columns},
        cells=_cells(groups, rail_of),
    )


def _cells(
    groups: Iterable[Iterable[str]], rail_of: Mapping[str, int]
) -> dict[tuple[int, int], tuple[str, ...]]:
    found: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for group, leaves in enumerate(groups):
        for leaf in leaves:
            if leaf in rail_of:
                found[group, rail_of[leaf]].append(leaf)
    return {place: tuple(leaves) for place, leaves in found.items()}


def _on_leaves(nodes: Mapping[str, tuple[NodePort, ...]]) -> dict[str, Seen]:
    found: defaultdict[str, dict[str, frozenset[int]]] = defaultdict(dict)
    for node, ports in nodes.items():
        for port, column in ports:
            if column is not None:
                on = found[port.switch]
                on[node] = on.get(node, frozenset()) | {column}
    return dict(found)


def _placed(
    ports: Iterable[HostPort], keys: Iterable[NicKey], columns: Mapping[NicKey, int]
) -> tuple[NodePort, ...]:
    pairs = zip(ports, keys, strict=True)
    return tuple(NodePort(port, columns.get(key)) for port, key in pairs)


Seen = Mapping[str, frozenset[int]]
"""Node → the columns that it has on a leaf."""


def _rails(on_leaf: Mapping[str, Seen]) -> list[frozenset[int]]:
    """The sets of columns that leaves carry, where they do not overlap and are more than one."""
    sets = Counter(_most_seen(seen) for seen in on_leaf.values())
    ordered = sorted(sets, key=lambda one: (-sets[one], len(one), sorted(one)))
    taken: list[frozenset[int]] = []
    for one in ordered:
        if all(one.isdisjoint(other) for other in taken):
            taken.append(one)
    covered = sum(sets[one] for one in taken)
    is_regular = len(taken) >= _FEWEST_RAILS and covered > _OF_A_RAIL * sets.total()
    return sorted(taken, key=sorted) if is_regular else []


def _most_seen(seen: Seen) -> frozenset[int]:
    """What most nodes have on a leaf; of equally many, what the first of them by name has."""
    count = Counter(seen.values())
    most = max(count.values())
    best = [columns for columns, nodes in count.items() if nodes == most]
    if len(best) == 1:
        return best[0]
    return next(seen[node] for node in sorted(seen, key=natural_order) if seen[node] in best)


def _rail(seen: Seen, rails: list[frozenset[int]]) -> int | None:
    """The rail with most of what most nodes have on a leaf."""
    columns = _most_seen(seen)
    best = max(range(len(rails)), key=lambda rail: len(rails[rail] & columns))
    return best if rails[best] & columns else None


def _groups(
    nodes: Mapping[str, tuple[NodePort, ...]], rail_of: Mapping[str, int]
) -> list[tuple[str, ...]]:
    """Leaves on which the same nodes hang.

    Two belong together where more than half of the nodes of each that have the other's rail have
    it there. So a leaf for storage, on which nodes of many groups hang, is of none of these.
    """
    count: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    with_rail: Counter[tuple[str, int | None]] = Counter()
    for ports in nodes.values():
        leaves = sorted({port.switch for port, _ in ports})
        count.update(leaves)
        shared.update((a, b) for at, a in enumerate(leaves) for b in leaves[at + 1 :])
        rails = {rail_of.get(leaf) for leaf in leaves}
        with_rail.update((leaf, rail) for leaf in leaves for rail in rails)
    root = {leaf: leaf for leaf in count}
    for (a, b), together in shared.items():
        least = max(with_rail[a, rail_of.get(b)], with_rail[b, rail_of.get(a)])
        if together > _OF_A_RAIL * least:
            _join(root, a, b)
    found: dict[str, list[str]] = {}
    for leaf in count:
        found.setdefault(_root(root, leaf), []).append(leaf)
    return [tuple(leaves) for leaves in found.values()]


def _root(root: dict[str, str], leaf: str) -> str:
    while root[leaf] != leaf:
        root[leaf] = root[root[leaf]]
        leaf = root[leaf]
    return leaf


def _join(root: dict[str, str], a: str, b: str) -> None:
    root[_root(root, a)] = _root(root, b)


def _homes(
    nodes: Mapping[str, tuple[NodePort, ...]], group_of: Mapping[str, int]
) -> dict[str, int]:
    """The group on which most ports of each node hang, -1 where there is none.

    Of groups with equally many it is that of the node nearest by name.
    """
    best = {node: _best_groups(ports, group_of) for node, ports in nodes.items()}
    if all(len(groups) <= 1 for groups in best.values()):
        return {node: next(iter(groups), -1) for node, groups in best.items()}
    ordered = sorted(nodes, key=natural_order)
    place = {node: at for at, node in enumerate(ordered)}
    found = {}
    for node, groups in best.items():
        at = place[node]
        near = (ordered[at + step] for step in _NEAR if 0 <= at + step < len(ordered))
        alike = [one for one in near if len(best[one]) == 1 and best[one][0] in groups]
        nearest = max(alike, key=partial(_common, node), default=None)
        found[node] = best[nearest][0] if nearest else next(iter(groups), -1)
    return found


def _common(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _best_groups(ports: Iterable[NodePort], group_of: Mapping[str, int]) -> list[int]:
    count = Counter(group_of[one.port.switch] for one in ports if one.port.switch in group_of)
    most = max(count.values(), default=0)
    return [group for group, seen in count.items() if seen == most]
