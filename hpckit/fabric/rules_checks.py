"""What is odd about a fabric: cables, leaves, who hangs where, and what Slurm was told of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hpckit.core.findings import Evidence
from hpckit.core.hostlist import natural_order
from hpckit.core.units import counted
from hpckit.fabric.ends import FEWEST_PEERS, by_node, name_shape, says_nothing, short_name
from hpckit.fabric.levels import Bundle, Pair, are_of_one_kind
from hpckit.fabric.rails import Absent
from hpckit.fabric.rule import FabricView, are, claimed, hidden, hosts, listed, rail_words, switches
from hpckit.fabric.topology import NODE_ENDS, EndKind, FabricSource, HostPort
from hpckit.node.rules.rule import have, most_common, named
from hpckit.slurm.values import TopologyKind

# --- Cables: missing, uneven, or not reaching a switch.
_HALF: Final = 0.5


def cables_missing(view: FabricView) -> Iterator[Evidence]:
    """Rule `cables-missing`: one finding for the switches of a level that are cabled alike."""
    by_level: defaultdict[int, list[int]] = defaultdict(list)
    for at, bundle in enumerate(view.bundles):
        if bundle.missing:
            by_level[bundle.level].append(at)
    for level, places in by_level.items():
        pairs = sorted(
            (pair for at in places for pair in view.bundles[at].missing),
            key=lambda pair: (natural_order(pair.lower), natural_order(pair.upper)),
        )
        alike = [bundle for bundle in view.bundles if bundle.level == level]
        cables = sum(bundle.cables for bundle in alike)
        expected = sum(bundle.expected for bundle in alike)
        between = f"{counted(len(pairs), 'pair')} of switches"
        upwards = f"uplinks of {f'level {level}' if level else 'leaves'}"
        yield Evidence(
            _subject_of(pairs, upwards),
            f"{cables} of {expected} {upwards} are up,"
            f" {are(expected - cables, 'cable')} missing between {between}:"
            f" {listed([_pair_words(pair) for pair in pairs])}",
        )


def uplinks_uneven(view: FabricView) -> Iterator[Evidence]:
    """Rule `uplinks-uneven`: cables that lead to other switches than they do elsewhere."""
    for bundle in view.bundles:
        if bundle.uneven:
            lowers = dict.fromkeys(pair.lower for pair in bundle.uneven)
            yield Evidence(
                named(lowers),
                f"uplinks differ from the others in a group of {switches(len(bundle.lowers))}:"
                f" {listed([_pair_words(pair) for pair in bundle.uneven])}",
            )
        for upper, cables, usual in bundle.weak:
            yield Evidence(
                upper,
                f"{counted(cables, 'cable')} from below; most of the {len(bundle.uppers)} switches"
                f" in its group have {usual}",
            )


def uplinks_fewer(view: FabricView) -> Iterator[Evidence]:
    """Rule `uplinks-fewer`: a whole pod or plane with fewer cables upwards than most others."""
    for bundle in view.bundles:
        alike = [
            one
            for one in view.bundles
            if one.level == bundle.level and are_of_one_kind(one, bundle)
        ]
        cables = _each(bundle)
        usual = most_common(map(_each, alike))
        if usual is not None and cables < usual:
            yield Evidence(
                named(bundle.lowers),
                f"{switches(len(bundle.lowers))} of level {bundle.level}"
                f" {have(len(bundle.lowers))} {counted(cables, 'uplink')} each, most of the"
                f" {len(alike)} similar groups {usual}: a switch above may be missing",
            )


def _each(bundle: Bundle) -> int:
    return bundle.expected // len(bundle.lowers)


def _pair_words(pair: Pair) -> str:
    return f"{pair.lower}–{pair.upper} {pair.cables} of {pair.expected}"


def _subject_of(pairs: Sequence[Pair], many: str) -> str:
    """What all pairs have in common."""
    if len(pairs) == 1:
        return f"{pairs[0].lower}–{pairs[0].upper}"
    for ends in ({pair.lower for pair in pairs}, {pair.upper for pair in pairs}):
        if len(ends) == 1:
            return ends.pop()
    return many


def switch_isolated(view: FabricView) -> Iterator[Evidence]:
    """Rule `switch-isolated`: no cable to another switch, where most of its like have some."""
    if view.topology.plugin is TopologyKind.TREE:
        return
    linked = view.topology.linked
    others = [leaf for leaf in view.leaves if leaf in linked]
    for switch in view.topology.switches:
        alone = switch.name not in linked
        if alone and others and len(others) > _HALF * len(view.leaves):
            nodes = _nodes_on(view, [switch.name])
            yield Evidence(
                switch.name,
                f"no cable to another switch, unlike {len(others)} other leaves;"
                f" {counted(len(nodes), 'node')} {have(len(nodes))} a NIC on it",
            )


def fabric_parted(view: FabricView) -> Iterator[Evidence]:
    """Rule `fabric-parted`: switches that reach the rest neither by cables nor through nodes.

    Planes are no such parts: the same nodes hang on each.
    """
    if view.topology.plugin is TopologyKind.TREE:
        return
    linked = view.topology.linked
    parts = [part for part in view.parts if not linked or linked.intersection(part)]
    together = _by_nodes([(part, _nodes_on(view, part)) for part in parts])
    biggest = max(together, key=lambda one: (len(one[1]), len(one[0])), default=None)
    for part in together:
        if part is not biggest and biggest is not None:
            names, nodes = part
            yield Evidence(
                named(names),
                f"{switches(len(names))} with {counted(len(nodes), 'node')}"
                f" {have(len(names))} no cable to the other {switches(len(biggest[0]))}"
                f" with {counted(len(biggest[1]), 'node')}"
                + (f": {hosts(nodes)}" if nodes else ""),
            )


def trees_separate(view: FabricView) -> Iterator[Evidence]:
    """Rule `trees-separate`: switches of Slurm's tree without one above them all.

    A topology.conf knows no cables, so this is what its writer meant, or forgot.
    """
    if view.topology.plugin is TopologyKind.TREE and len(view.parts) > 1:
        known = {switch.name: switch.level or 0 for switch in view.topology.switches}
        tops = [max(part, key=lambda name: known.get(name, 0)) for part in view.parts]
        yield Evidence(named(tops), f"{len(tops)} separate trees; no job spans two of them")


def _nodes_on(view: FabricView, names: Iterable[str]) -> set[str]:
    return {
        port.node
        for name in names
        for port in view.ends.get(name, ())
        if port.node is not None and port.kind is EndKind.COMPUTE
    }


def _by_nodes(parts: list[tuple[tuple[str, ...], set[str]]]) -> list[tuple[list[str], set[str]]]:
    """Parts joined where half of the nodes of one hang on the other too."""
    found: list[tuple[list[str], set[str]]] = []
    for part, nodes in sorted(parts, key=lambda one: -len(one[1])):
        same = (
            one
            for one in found
            if nodes and len(nodes & one[1]) >= _HALF * min(len(nodes), len(one[1]))
        )
        names, known = next(same, ([], set[str]()))
        if not names:
            found.append((names, known))
        names.extend(part)
        known.update(nodes)
    return found


# --- Leaves: absent ones, and ones on which no node hangs.
def leaf_absent(view: FabricView) -> Iterator[Evidence]:
    """Rule `leaf-absent`: a group of nodes lacks the leaf of a rail that other groups have."""
    groups, rails = _regular(view)
    present = sum(bool(view.grid.cell(group, rail)) for group in groups for rail in rails)
    for one in view.absent[len(empty_leaves(view)) :]:
        rail = rail_words(view, one.rail)
        beside = ", ".join(view.grid.groups[one.group])
        yield Evidence(
            one.name or f"leaf of {rail} next to {view.grid.groups[one.group][0]}",
            f"{len(groups)} groups of nodes have leaves for {len(rails)} rails;"
            f" the group with {beside} has none for {rail}"
            f" ({present} of {len(groups) * len(rails)} leaves found)"
            f"{f'; by the names of similar leaves it is {one.name}' if one.name else ''}"
            f"{_without(view, one)}",
        )


def _regular(view: FabricView) -> tuple[list[int], list[int]]:
    """The groups in which nodes are at home, and the rails that at least half of them have."""
    grid = view.grid
    groups = sorted({home for home in grid.home.values() if home >= 0})
    rails = [
        rail
        for rail in range(len(grid.rails))
        if 2 * sum(bool(grid.cell(group, rail)) for group in groups) >= len(groups)
    ]
    return groups, rails


def _without(view: FabricView, one: Absent) -> str:
    nodes = [node for node, home in view.grid.home.items() if home == one.group]
    rails = len({view.grid.rail_of[leaf] for leaf in view.grid.groups[one.group]})
    named = [node for node in nodes if not says_nothing(node)]
    also = [node for node in nodes if says_nothing(node)]
    ports, unknown = hidden(view, view.grid.groups[one.group], claimed(view))
    if ports:
        also.append(f"{counted(ports, 'anonymous port')} of about {counted(unknown, 'node')}")
    return (
        f"; {counted(len(named), 'named node')} therefore {have(len(named))} {rails} of"
        f" {len(_regular(view)[1])} rails: {hosts(named)}"
        + (f"; the same for {' and '.join(also)}" if also else "")
    )


def empty_leaves(view: FabricView) -> list[str]:
    """Leaves on which nothing computes that could be seen.

    One with other hosts alone is theirs, unless the leaf of a rail is absent, which it may be.
    """
    linked = view.topology.linked
    kinds = {leaf: {port.kind for port in view.ends.get(leaf, ())} for leaf in view.leaves}
    idle = [leaf for leaf, there in kinds.items() if leaf in linked and NODE_ENDS.isdisjoint(there)]
    bare = [leaf for leaf in idle if EndKind.OTHER not in kinds[leaf]]
    of_others = [leaf for leaf in idle if EndKind.OTHER in kinds[leaf]]
    return [*bare, *of_others[: max(0, len(view.absent) - len(bare))]]


def leaf_empty(view: FabricView) -> Iterator[Evidence]:
    """Rule `leaf-empty`: a switch that is cabled as leaves are, and no node hangs on it."""
    empty = empty_leaves(view)
    for at, leaf in enumerate(empty):
        why = ""
        if at < len(view.absent):
            one = view.absent[at]
            why = f"; it may be the leaf of {rail_words(view, one.rail)}{_without(view, one)}"
        others = len(view.leaves) - len(empty)
        yield Evidence(leaf, f"no node has a NIC on it, unlike {others} other leaves{why}")


# --- Who hangs there: names that say nothing, and what Slurm knows.
_WHERE: Final = {
    FabricSource.SCONTROL: "the cluster's topology.conf or topology.yaml",
    FabricSource.TOPOLOGY_CONF: "topology.conf",
    FabricSource.TOPOLOGY_YAML: "topology.yaml",
    FabricSource.TOPOLOGY_ADDR: "the cluster's topology.conf or topology.yaml",
}
"""The sources that Slurm wrote or reads, and where a node is added to each."""

_ADD: Final = (
    "add them to {where}, on their switch or block; until then Slurm places no job there that"
    " requests switches or blocks"
)


def name_says_nothing(view: FabricView) -> Iterator[Evidence]:
    """Rule `name-says-nothing`: nodes that were not given a name of their own."""
    for node, ports in by_node(view.topology.ports).items():
        if says_nothing(node):
            most = max(Counter(port.nic for port in ports).values())
            leaves = listed([f"{port.switch} port {port.switch_port}" for port in ports])
            yield Evidence(
                node,
                f"{counted(len(ports), 'port')} of at least {counted(most, 'node')}"
                f" {have(len(ports))} this name, which is not a node in Slurm: {leaves}",
            )


def name_twice(view: FabricView) -> Iterator[Evidence]:
    """Rule `name-twice`: a name with the same NIC more than once."""
    nodes = by_node(view.topology.ports)
    for node in view.grid.twice:
        if not says_nothing(node):
            count = Counter(port.nic for port in nodes[node])
            nics = [f"{nic} {seen} times" for nic, seen in count.items() if seen > 1 and nic]
            where = listed([f"{port.switch} port {port.switch_port}" for port in nodes[node]])
            yield Evidence(
                node,
                f"{counted(len(nodes[node]), 'port')} have this name, {listed(nics)}: at least"
                f" {max(count.values())} nodes have it; ports: {where}",
            )


def hosts_besides(view: FabricView) -> Iterator[Evidence]:
    """Rule `host-not-compute`: managers, storage, gateways where nodes hang."""
    ports = [port for port in view.topology.ports if port.kind is EndKind.OTHER]
    leaves = set(view.leaves)
    there = [port for port in ports if port.switch in leaves]
    if not there:
        return
    names = [port.node or port.description or "unnamed" for port in there]
    switches = dict.fromkeys(port.switch for port in there)
    count = len(set(names))
    yield Evidence(
        hosts(names) if all(port.node for port in there) else named(names),
        f"{counted(count, 'host')} with {counted(len(there), 'port')} on {named(switches)}"
        f" {'does' if count == 1 else 'do'} not look like compute nodes: names, and the number or"
        " names of ports, differ from those of the nodes there",
    )


def not_in_slurm(view: FabricView) -> Iterator[Evidence]:
    """Rule `not-in-slurm`: nodes that Slurm does not know, by any form of their name."""
    if view.slurm_nodes is None:
        return
    ours = _asked(view)
    missing = _unmatched(ours, view.slurm_nodes)
    if missing:
        yield Evidence(
            hosts(missing),
            f"{len(missing)} of {counted(len(ours), 'named node')} in the fabric"
            f" {'is' if len(missing) == 1 else 'are'} not among Slurm's {len(view.slurm_nodes)}"
            " (case and domain ignored)"
            + ("; these may be different clusters" if len(missing) == len(ours) else ""),
        )


def not_in_fabric(view: FabricView) -> Iterator[Evidence]:
    """Rule `not-in-fabric`: nodes of Slurm that have no port here."""
    if view.slurm_nodes is None:
        return
    # Every name in the fabric, be it a node's or a manager's.
    ends = (port.node for port in view.topology.ports if port.node)
    missing = _unmatched(view.slurm_nodes, [*ends, *view.topology.nodes])
    if not missing or len(missing) == len(set(view.slurm_nodes)):
        return
    count = f"{len(missing)} of Slurm's {len(set(view.slurm_nodes))} nodes"
    if view.topology.source in _WHERE:
        source = view.topology.source
        yield Evidence(
            hosts(missing),
            f"{count} {'is' if len(missing) == 1 else 'are'} not in {source}",
            _ADD.format(where=_WHERE[source]),
        )
        return
    hidden = sum(port.kind is EndKind.ANONYMOUS for port in view.topology.ports)
    nameless = sum(map(says_nothing, by_node(view.topology.ports)))
    maybe = [counted(hidden, "anonymous port")] if hidden else []
    maybe += [counted(nameless, "node") + " with a default name"] if nameless else []
    yield Evidence(
        hosts(missing),
        f"{count} {have(len(missing))} no port in the fabric"
        + (f"; they may be among the {' and '.join(maybe)}" if maybe else ""),
    )


def names_differ(view: FabricView) -> Iterator[Evidence]:
    """Rule `names-differ`: the same nodes with another case or domain."""
    if view.slurm_nodes is None:
        return
    exact = set(view.slurm_nodes)
    short: defaultdict[str, list[str]] = defaultdict(list)
    for node in exact:
        short[short_name(node)].append(node)
    pairs = [
        (node, short[short_name(node)][0])
        for node in _asked(view)
        if node not in exact and short.get(short_name(node))
    ]
    if pairs:
        ours, theirs = pairs[0]
        yield Evidence(
            hosts(one for one, _ in pairs),
            f"{counted(len(pairs), 'node')} {have(len(pairs))} another case or domain in Slurm and"
            f" {'is' if len(pairs) == 1 else 'are'} treated as the same: {ours} is {theirs} there",
        )


def _asked(view: FabricView) -> list[str]:
    return [node for node in view.topology.nodes if not says_nothing(node)]


def _unmatched(names: Iterable[str], known: Iterable[str]) -> list[str]:
    there = set(map(short_name, known))
    return list(dict.fromkeys(name for name in names if short_name(name) not in there))


_FEW: Final = 2


class _Stray(NamedTuple):
    """A NIC that hangs elsewhere than the others of its column in its group."""

    node: str
    port: HostPort
    rail: int
    leaves: tuple[str, ...]

    @property
    def words(self) -> str:
        """The node and the NIC, where that has a name."""
        return f"{self.node} {self.port.nic}" if self.port.nic else self.node


def _strays(view: FabricView) -> list[_Stray]:
    """The strays of kinds of nodes that follow the rails: most of a kind, and more than one NIC.

    A rail of which more than a quarter are astray follows no groups, as one for storage may not.
    """
    found = [
        one
        for one in _all_strays(view)
        if len(view.grid.nodes[one.node]) > 1 or one.node in view.lacking
    ]
    kinds = Counter(map(name_shape, view.grid.nodes))
    astray = Counter(map(name_shape, {one.node for one in found}))
    loose = {kind for kind, nodes in astray.items() if nodes > _HALF * kinds[kind]}
    of_rail = Counter(
        view.grid.rail_of_column(port.column)
        for ports in view.grid.nodes.values()
        for port in ports
    )
    strays = Counter(one.rail for one in found)
    free = {rail for rail, n in strays.items() if n > max(_FEW, 0.25 * of_rail[rail])}
    return [
        one
        for one in found
        if one.rail not in free
        and ((kind := name_shape(one.node)) not in loose or kinds[kind] < FEWEST_PEERS)
    ]


def _all_strays(view: FabricView) -> list[_Stray]:
    grid = view.grid
    found = []
    for node, ports in grid.nodes.items():
        for port, column in ports:
            rail = grid.rail_of_column(column)
            if rail is None or port.switch not in grid.rail_of:
                continue
            leaves = grid.cell(grid.home[node], rail)
            is_other_rail = grid.rail_of[port.switch] != rail
            if is_other_rail or (leaves and port.switch not in leaves):
                found.append(_Stray(node, port, rail, leaves))
    return found


def _swapped(strays: Iterable[_Stray]) -> list[list[_Stray]]:
    """The strays by node, and those of two nodes together that hang in each other's place."""
    of_node: defaultdict[str, list[_Stray]] = defaultdict(list)
    for one in strays:
        of_node[one.node].append(one)
    found = [group for group in of_node.values() if len(group) > 1]
    waiting: dict[tuple[str, str], list[_Stray]] = {}
    for group in of_node.values():
        if len(group) > 1:
            continue
        (one,) = group
        place = one.leaves[0] if one.leaves else ""
        twin = waiting.pop((place, one.port.switch), None)
        if twin is None:
            waiting[one.port.switch, place] = group
            found.append(group)
        else:
            twin.append(one)
    return found


def rails_swapped(view: FabricView) -> Iterator[Evidence]:
    """Rule `rails-swapped`: NICs that hang in each other's place."""
    for group in _swapped(_strays(view)):
        if _is_exchange(group):
            nodes = dict.fromkeys(one.node for one in group)
            yield Evidence(
                hosts(nodes),
                f"{' and '.join(_hangs(view, one) for one in group)}: cabled to each other's leaf;"
                f" {_others(view, group)}",
            )


def nic_misplaced(view: FabricView) -> Iterator[Evidence]:
    """Rule `nic-misplaced`: a NIC on another leaf than its like, and none in its place."""
    for group in _swapped(_strays(view)):
        if not _is_exchange(group):
            for one in group:
                where = f"{one.leaves[0]}, " if one.leaves else ""
                yield Evidence(
                    one.words,
                    f"{_hangs(view, one)}; expected on {where}{rail_words(view, one.rail)};"
                    f" {_others(view, [one])}",
                )


def _is_exchange(group: list[_Stray]) -> bool:
    there = sorted(one.port.switch for one in group)
    own = sorted(next(iter(one.leaves), "") for one in group)
    return len(group) > 1 and there == own


def _hangs(view: FabricView, one: _Stray) -> str:
    rail = view.grid.rail_of[one.port.switch]
    port = f" port {one.port.switch_port}" if one.port.switch_port is not None else ""
    return f"{one.words} is on {one.port.switch}{port}, rail {rail}"


def _others(view: FabricView, group: list[_Stray]) -> str:
    strays = {one.node for one in group}
    count = sum(
        view.grid.rail_of_column(port.column) == group[0].rail
        and view.grid.rail_of.get(port.port.switch) == group[0].rail
        for node, ports in view.grid.nodes.items()
        if node not in strays
        for port in ports
    )
    return f"{count} other NICs of {rail_words(view, group[0].rail)} are in place"


def rails_fewer(view: FabricView) -> Iterator[Evidence]:
    """Rule `rails-fewer`: a node without a NIC that its peers have; alike nodes are one finding.

    Where enough anonymous ports hang in these places, they are what is wrong.
    """
    hidden = {node for nodes in claimed(view).values() for node in nodes}
    found: defaultdict[tuple[int, frozenset[int]], list[str]] = defaultdict(list)
    for node, lacks in view.lacking.items():
        if node not in hidden:
            found[view.grid.home[node], lacks].append(node)
    for (group, lacks), nodes in found.items():
        ports = len(view.grid.nodes[nodes[0]])
        yield Evidence(
            hosts(nodes),
            f"{counted(len(nodes), 'node')} {have(len(nodes))} {ports} of the {ports + len(lacks)}"
            f" NICs that peers have; {_lacking(view, group, lacks)}",
        )


def _lacking(view: FabricView, group: int, lacks: frozenset[int]) -> str:
    grid = view.grid
    rails = {rail for column in lacks if (rail := grid.rail_of_column(column)) is not None}
    if not rails:
        return f"{counted(len(lacks), 'NIC')} of theirs {have(len(lacks))} no link here"
    leaves = [leaf for rail in sorted(rails) for leaf in grid.cell(group, rail)]
    words = f"none on {', '.join(rail_words(view, rail) for rail in sorted(rails))}"
    hidden = sum(map(view.anonymous, leaves))
    maybe = f"; it may be among the {hidden} anonymous ports there" if hidden else ""
    return f"{words}: {', '.join(leaves)}{maybe}"


# --- What Slurm was told of: a tree has one way up from everything, blocks part.


def switch_two_parents(view: FabricView) -> Iterator[Evidence]:
    """Rule `switch-two-parents`: switches that several others name below them."""
    if view.topology.plugin is TopologyKind.TREE:
        pairs = ((link.lower, link.upper) for link in view.topology.links)
        for above, switches in _in_several(pairs):
            for switch in switches:
                yield Evidence(switch, f"it is below {listed(above)}; a tree allows one parent")


def node_multi_homed(view: FabricView) -> Iterator[Evidence]:
    """Rule `node-multi-homed`: nodes on several leaves, all of one set of leaves together."""
    if view.topology.plugin is TopologyKind.TREE:
        ends = ((port.node, port.switch) for port in view.topology.ports if port.node is not None)
        for leaves, nodes in _in_several(ends):
            yield Evidence(
                hosts(nodes),
                f"{counted(len(nodes), 'node')} on each of {listed(leaves)}; a tree allows one leaf"
                " per node",
            )


def node_two_blocks(view: FabricView) -> Iterator[Evidence]:
    """Rule `node-two-blocks`: nodes in several blocks, all of one set of blocks together."""
    blocks = (block for block in view.topology.blocks if not block.is_aggregated)
    for names, nodes in _in_several((node, one.name) for one in blocks for node in one.nodes):
        yield Evidence(
            hosts(nodes),
            f"{counted(len(nodes), 'node')} in each of {listed(names)}; a node has one block",
        )


def _in_several(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[tuple[str, ...], list[str]]]:
    """Sets of several places in the order of the source, and what is in all of these."""
    places: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for name, place in pairs:
        places[name][place] = None
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, of_name in places.items():
        if len(of_name) > 1:
            found[tuple(of_name)].append(name)
    return found.items()
