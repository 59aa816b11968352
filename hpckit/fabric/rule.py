"""What the rules about a fabric see, and those about adapters without a name and slow cables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpckit.core.findings import Evidence
from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.units import and_more, counted
from hpckit.core.values import dataclass
from hpckit.fabric.ends import name_shape
from hpckit.fabric.levels import Bundle, Kinds, bundles, switch_kinds
from hpckit.fabric.rails import Absent, RailGrid, RailPeers, absent_leaves, components, with_grid
from hpckit.fabric.topology import NODE_ENDS, ClusterTopology, EndKind, HostPort
from hpckit.node.rules.rule import most_common
from hpckit.node.words import bit_rate

_MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricView:
    """A fabric with its rails, and what is regular in it.

    `kinds` are those of each switch, `ends` the ports on it, `parts` the switches that reach each
    other, `lacking` the columns of NICs that nodes lack.
    """

    topology: ClusterTopology
    grid: RailGrid
    kinds: Mapping[str, Kinds]
    bundles: Sequence[Bundle]
    parts: Sequence[tuple[str, ...]]
    absent: Sequence[Absent]
    lacking: Mapping[str, frozenset[int]]
    ends: Mapping[str, Sequence[HostPort]]
    slurm_nodes: Sequence[str] | None = None

    def anonymous(self, leaf: str) -> int:
        """How many ports on a leaf do not say whose they are."""
        return sum(port.kind is EndKind.ANONYMOUS for port in self.ends.get(leaf, ()))

    @property
    def leaves(self) -> list[str]:
        """The switches where nodes hang, or would."""
        return [
            switch.name
            for switch in self.topology.switches
            if switch.level == 0
            or (
                switch.level is None
                and any(port.kind in NODE_ENDS for port in self.ends.get(switch.name, ()))
            )
        ]


def fabric_view(topology: ClusterTopology, slurm_nodes: Sequence[str] | None = None) -> FabricView:
    """What the rules see of a fabric."""
    known, grid = with_grid(topology)
    ends: defaultdict[str, list[HostPort]] = defaultdict(list)
    for port in known.ports:
        ends[port.switch].append(port)
    kinds = switch_kinds(known, grid)
    return FabricView(
        topology=known,
        grid=grid,
        kinds=kinds,
        bundles=bundles(known, kinds),
        parts=components(known),
        absent=absent_leaves(grid),
        lacking=RailPeers(grid).lacking(),
        ends=dict(ends),
        slurm_nodes=slurm_nodes,
    )


def rail_words(view: FabricView, rail: int) -> str:
    """`rail 2 (HCA-5, mlx5_4)`."""
    nics = view.topology.rails[rail].nics if rail < len(view.topology.rails) else ()
    return f"rail {rail} ({', '.join(nics[:3])})" if nics else f"rail {rail}"


def hosts(names: Iterable[str]) -> str:
    """Host names in Slurm's form, in natural order."""
    listed = sorted(set(names), key=natural_order)
    more = len(listed) - _MOST_NODES
    return fold_hosts(listed[:_MOST_NODES]) + (f" and {more} more" if more > 0 else "")


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence; of many the rest are counted."""
    return and_more(parts, 32)


def are(count: int, noun: str) -> str:
    """`1 cable is`, `2 cables are`."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def switches(count: int) -> str:
    """`1 switch`, `2 switches`."""
    return "1 switch" if count == 1 else f"{count} switches"


# --- Adapters that do not say on which node they are.
Claimed = Mapping[str, Sequence[str]]
"""Leaf → named nodes that lack a NIC there, where it may be an anonymous one."""


def claimed(view: FabricView) -> Claimed:
    """The nodes that lack one rail alone, by leaf, where as many anonymous ports hang on it."""
    by_leaf: defaultdict[str, list[str]] = defaultdict(list)
    for node, lacks in view.lacking.items():
        rails = {view.grid.rail_of_column(column) for column in lacks}
        leaves = [
            leaf
            for rail in rails
            if rail is not None
            for leaf in view.grid.cell(view.grid.home[node], rail)
        ]
        if len(leaves) == 1:
            by_leaf[leaves[0]].append(node)
    return {leaf: nodes for leaf, nodes in by_leaf.items() if view.anonymous(leaf) >= len(nodes)}


def hidden(view: FabricView, leaves: Iterable[str], known: Claimed) -> tuple[int, int]:
    """The anonymous ports on the leaves of a group, and about how many unknown nodes that is.

    On a rail it is as many as there are ports, elsewhere as many as have the usual number of NICs.
    """
    by_rail: Counter[int] = Counter()
    ports = loose = 0
    for leaf in leaves:
        rail = view.grid.rail_of.get(leaf)
        count = view.anonymous(leaf)
        ports += count
        if rail is None:
            loose += count
        else:
            by_rail[rail] += count - len(known.get(leaf, ()))
    each = Counter(len(ports) for ports in view.grid.nodes.values())
    usual = each.most_common(1)[0][0] if each else None
    of_rails = [-(-count // len(view.grid.rails[rail])) for rail, count in by_rail.items()]
    return ports, max(of_rails, default=0) + (-(-loose // usual) if usual else 0)


def nics_anonymous(view: FabricView) -> Iterator[Evidence]:
    """Rule `nics-anonymous`: ports that do not say on which node they are."""
    ports = [port for port in view.topology.ports if port.kind is EndKind.ANONYMOUS]
    if not ports:
        return
    known = claimed(view)
    grouped = {leaf for leaves in view.grid.groups for leaf in leaves}
    apart = dict.fromkeys(port.switch for port in ports if port.switch not in grouped)
    nodes = sum(hidden(view, leaves, known)[1] for leaves in (*view.grid.groups, tuple(apart)))
    may_be = [f"about {counted(nodes, 'node')}"] if nodes else []
    lacking = [node for there in known.values() for node in there]
    if lacking:
        may_be.append(f"{counted(len(lacking), 'NIC')} missing on {hosts(lacking)}")
    words = Counter(port.description or "" for port in ports)
    one = len(ports) == 1
    yield Evidence(
        f"{ports[0].switch} port {ports[0].switch_port}" if one else f"{len(ports)} HCA ports",
        f"{counted(len(ports), 'HCA port')} on {switches(len({port.switch for port in ports}))}"
        f" {'does not name its node' if one else 'do not name their nodes'}"
        f"{f' ({listed(may_be)})' if may_be else ''}: {listed([repr(word) for word in words])}",
    )


# --- Which cables run slower than those of their kind. A node's cable is compared with those of the
# same NIC of nodes that are called alike, a cable between switches with those between switches of
# the same kinds.
_MAJOR: Final = 2
_FEW: Final = 2
_WHOLE: Final = 0.75
_LEAST_WHOLE: Final = 4
"""Where three quarters of a switch's cables, four or more, are as slow, the switch is so."""


class _Link(NamedTuple):
    """A cable by its name and rate; what it is compared with: `wide`, and the narrower `kind`.

    `places` are the switches at its ends, each with which of its cables are meant.
    """

    name: str
    wide: Hashable
    kind: Hashable
    places: tuple[Hashable, ...]
    speed: str | None
    bytes_per_s: float


class _Rates:
    def __init__(self, links: Iterable[_Link]) -> None:
        self._of: defaultdict[Hashable, Counter[float]] = defaultdict(Counter)
        for link in links:
            for key in (("wide", link.wide), ("kind", link.kind), *link.places):
                self._of[key][link.bytes_per_s] += 1
        self._usual = {key: most_common(rates.elements()) for key, rates in self._of.items()}

    def usual(self, link: _Link) -> float | None:
        """The rate of more than half of a kind; of two unlike ones the higher, if it is usual."""
        own, wide = self._of["kind", link.kind], self._usual["wide", link.wide]
        if own.total() > _FEW or len(own) == 1:
            return self._usual["kind", link.kind]
        return None if wide is None else min(max(own), wide)

    def is_of_switch(self, link: _Link) -> bool:
        """Whether nearly all cables of a switch at its end are as slow or slower."""
        for place in link.places:
            rates = self._of[place]
            slow = sum(count for rate, count in rates.items() if rate <= link.bytes_per_s)
            if rates.total() >= _LEAST_WHOLE and slow >= _WHOLE * rates.total():
                return True
        return False


def links_slow(view: FabricView) -> Iterator[Evidence]:
    """Rule `link-slow`: below the rate of more than half of the cables of its kind."""
    yield from _slow("between switches", list(_between(view)))
    yield from _slow("to nodes", list(_of_nodes(view)))


def _slow(what: str, links: Sequence[_Link]) -> Iterator[Evidence]:
    """One finding for the cables that should have one rate and are compared with each other."""
    rates = _Rates(links)
    alike: defaultdict[tuple[Hashable, float], list[_Link]] = defaultdict(list)
    for link in links:
        usual = rates.usual(link)
        if usual is not None:
            alike[link.wide, usual].append(link)
    for (_, usual), group in alike.items():
        slow = [one for one in group if one.bytes_per_s < usual and not rates.is_of_switch(one)]
        if not slow:
            continue
        count = sum(one.bytes_per_s == usual for one in group)
        names = [f"{one.name} {one.speed}" for one in slow]
        yield Evidence(
            slow[0].name if len(slow) == 1 else f"{len(slow)} cables {what}",
            f"{are(len(slow), 'cable')} slower than {bit_rate(usual)}, the rate of {count} of"
            f" {len(group)} similar cables {what}: {listed(names)}",
        )


def _between(view: FabricView) -> Iterator[_Link]:
    level = {switch.name: switch.level for switch in view.topology.switches}
    for link in view.topology.links:
        wide = (level.get(link.lower), level.get(link.upper))
        kind = (wide, view.kinds.get(link.lower), view.kinds.get(link.upper))
        places = (("up", link.lower), ("down", link.upper))
        for cable in link.cables or ():
            if cable.bytes_per_s is not None:
                port = f" port {cable.lower_port}" if len(link.cables or ()) > 1 else ""
                name = f"{link.lower}–{link.upper}{port}"
                yield _Link(name, wide, kind, places, cable.speed, cable.bytes_per_s)


def _of_nodes(view: FabricView) -> Iterator[_Link]:
    shapes = Counter(name_shape(node) for node in view.grid.nodes)
    columns = {port: col for ports in view.grid.nodes.values() for port, col in ports}
    for port in view.topology.ports:
        wide: Hashable = None
        kind: Hashable = view.kinds.get(port.switch)
        name = f"{port.switch} port {port.switch_port}"
        if port.kind is EndKind.COMPUTE and port.node is not None:
            shape = name_shape(port.node)
            wide = shape if shapes[shape] >= _MAJOR else ""
            column = columns.get(port)
            kind = port.nic if column is None else column
            name = f"{port.node} {port.nic}" if port.nic else port.node
        elif port.kind is not EndKind.ANONYMOUS:
            continue
        if port.bytes_per_s is not None:
            places = (("nodes", port.switch),)
            yield _Link(name, wide, (wide, kind), places, port.speed, port.bytes_per_s)
