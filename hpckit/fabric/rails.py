"""Rails and planes of a fabric, from where NICs hang and which switches reach each other."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final, NamedTuple, TypeVar

from hpckit.core.hostlist import natural_order
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.fabric.ends import FEWEST_PEERS, by_node, name_shape, with_end_kinds
from hpckit.fabric.topology import ClusterTopology, HostPort, Rail
from hpckit.slurm.values import TopologyKind

# --- Which NICs of different nodes are each other's counterparts: `HCA-1`, `HCA-2` and `HCA-5` on
# one node are `mlx5_0`, `mlx5_1` and `mlx5_4` on another. Names of one kind are told by their
# numbers, two kinds by the steps between them.
_NUMBERED: Final = regex(r"(.*?)([0-9]{1,9})([^0-9]*)", re.ASCII | re.DOTALL)
_RARE: Final = 10
"""A NIC that a tenth of the nodes or fewer have is a name of its own, no column."""

Place = tuple[int, int]
"""The number in a NIC's name, and its port."""


class NicKey(NamedTuple):
    """A NIC's port by its name; `stem` is the name without its number."""

    stem: str
    place: Place


def nic_keys(ports: Iterable[HostPort]) -> list[NicKey]:
    """The keys of one node's ports; where NICs have no names they are told by their GUIDs."""
    listed = list(ports)
    unnamed = sorted(
        (port.guid or "", port.nic_port or 0, at)
        for at, port in enumerate(listed)
        if port.nic is None
    )
    order = {at: place for place, (_, _, at) in enumerate(unnamed)}
    return [_key(port, order.get(at, 0)) for at, port in enumerate(listed)]


def _key(port: HostPort, place: int) -> NicKey:
    if port.nic is None:
        return NicKey("", (place, 0))
    match = _NUMBERED.fullmatch(port.nic)
    if match is None:
        return NicKey(port.nic, (0, port.nic_port or 0))
    return NicKey(f"{match[1]}#{match[3]}", (int(match[2]), port.nic_port or 0))


def columns_of(nodes: Mapping[str, Iterable[NicKey]]) -> dict[NicKey, int]:
    """The column of each NIC that is not rare: the same for counterparts, from 0, in order."""
    kinds: dict[str, Counter[Place]] = {}
    for keys in nodes.values():
        for key in set(keys):
            kinds.setdefault(key.stem, Counter())[key.place] += 1
    usual = {
        stem: sorted(place for place, seen in count.items() if seen * _RARE > max(count.values()))
        for stem, count in kinds.items()
    }
    if not usual:
        return {}
    weight = {stem: (len(usual[stem]), count.total()) for stem, count in kinds.items()}
    first = max(usual, key=lambda stem: (weight[stem], stem))
    columns = {place: column for column, place in enumerate(usual[first])}
    return {
        NicKey(stem, place): column
        for stem, places in usual.items()
        for place, column in _aligned(places, columns).items()
    }


def _aligned(places: list[Place], columns: Mapping[Place, int]) -> dict[Place, int]:
    """The columns of NICs whose numbers may be counted from another start."""
    starts = sorted({number - places[0][0] for number, _ in columns}, key=abs)
    for start in starts:
        moved = [(number + start, port) for number, port in places]
        if all(place in columns for place in moved):
            return {place: columns[to] for place, to in zip(places, moved, strict=True)}
    return {place: column for column, place in enumerate(places)}


# --- The grid of a rail-optimised fabric. A group is what hangs on one leaf of each rail: a rack, a
# scalable unit. One node that is cabled differently changes neither the rails nor the groups.
_OF_A_RAIL: Final = 0.5
_FEWEST_RAILS: Final = 2
_NEAR: Final = (-1, 1, -2, 2, -3, 3, -4, 4)


Seen = Mapping[str, frozenset[int]]
"""Node → the columns that it has on a leaf."""


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
    nodes = {
        node: tuple(NodePort(port, columns.get(key)) for port, key in zip(ports, keys, strict=True))
        for node, (ports, keys) in keyed.items()
    }
    on_leaf = _on_leaves(nodes)
    rails = _rails_of_grid(on_leaf)
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


def _rails_of_grid(on_leaf: Mapping[str, Seen]) -> list[frozenset[int]]:
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
    joined = JoinedNames()
    for (a, b), together in shared.items():
        least = max(with_rail[a, rail_of.get(b)], with_rail[b, rail_of.get(a)])
        if together > _OF_A_RAIL * least:
            joined.join(a, b)
    return joined.sets(count)


class JoinedNames:
    """Names in sets that only grow together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the name that stands for the whole set."""
        above = self._above
        while name in above:
            after = above[name]
            if after in above:
                above[name] = above[after]
            name = after
        return name

    def join(self, one: str, other: str) -> None:
        """Make one set of those that two names are in."""
        first, second = self.find(one), self.find(other)
        if first != second:
            self._above[second] = first

    def sets(self, names: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the names in their sets, in order."""
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(self.find(name), []).append(name)
        return [tuple(together) for together in found.values()]


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
    joined = JoinedNames()
    for link in topology.links:
        joined.join(link.lower, link.upper)
    return joined.sets(switch.name for switch in topology.switches)


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


_HALF: Final = 0.5

Kind = TypeVar("Kind", bound=Hashable)
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
        self._kinds = _of_several(grid, kinds)
        self._all = {shape: self._kinds.get(shape, everybody) for shape in kinds}
        of_several = _of_several(grid, near)
        self._near = {kind: of_several.get(kind, beside[kind[0]]) for kind in near}

    def usual(self, node: str) -> frozenset[int]:
        """The columns that more than half of its kind have, and half of those beside it."""
        kind = self._grid.home[node], name_shape(node)
        if kind not in self._known:
            near = self._near[kind]
            self._known[kind] = frozenset(
                column
                for column, share in self._all[kind[1]].items()
                if share > _HALF and near.get(column, 0.0) >= _HALF
            )
        return self._known[kind]

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


def _of_several(grid: RailGrid, nodes: Mapping[Kind, Sequence[str]]) -> dict[Kind, Shares]:
    return {kind: _shares(grid.nodes, of) for kind, of in nodes.items() if len(of) >= FEWEST_PEERS}


def _shares(nodes: Mapping[str, tuple[NodePort, ...]], of: Iterable[str]) -> Shares:
    names = list(of)
    count = Counter(column for node in names for _, column in nodes[node] if column is not None)
    return {column: seen / len(names) for column, seen in count.items()}


_PARTS: Final = regex(r"[0-9]+|[^0-9]+", re.ASCII)


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
