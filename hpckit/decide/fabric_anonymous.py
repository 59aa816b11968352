"""Ports that do not say on which node they are, and how many nodes that may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpckit.core.findings import Evidence
from hpckit.decide.fabric_rule import FabricView, hosts, listed, switches
from hpckit.model.fabric import EndKind
from hpckit.model.words import counted

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
        may_be.append(f"{counted(len(lacking), 'NIC')} not seen of {hosts(lacking)}")
    words = Counter(port.description or "" for port in ports)
    one = len(ports) == 1
    yield Evidence(
        f"{ports[0].switch} port {ports[0].switch_port}" if one else f"{len(ports)} HCA ports",
        f"{counted(len(ports), 'HCA port')} on {switches(len({port.switch for port in ports}))}"
        f" {'does' if one else 'do'} not say on which node {'it is' if one else 'they are'}"
        f"{''.join(f', {words}' for words in may_be)}: {listed([repr(word) for word in words])}",
    )
