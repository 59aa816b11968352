"""What is odd about who hangs on a fabric: names that say nothing, and what Slurm knows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from hpckit.core.findings import Evidence
from hpckit.decide.fabric_ends import by_node, says_nothing
from hpckit.decide.fabric_rule import FabricView, hosts, listed
from hpckit.decide.finding_rule import have, named
from hpckit.model.fabric import EndKind, FabricSource
from hpckit.model.words import counted

_WHERE: Final = {
    FabricSource.SCONTROL: "the cluster's topology.conf or topology.yaml",
    FabricSource.TOPOLOGY_CONF: "topology.conf",
    FabricSource.TOPOLOGY_YAML: "topology.yaml",
    FabricSource.TOPOLOGY_ADDR: "the cluster's topology.conf or topology.yaml",
}
"""The sources that Slurm wrote or reads, and where a node is added to each."""

_ADD: Final = (
    "add them to {where}, on the switch or block that they hang on; Slurm places no job there that"
    " asks for switches or blocks"
)


def name_says_nothing(view: FabricView) -> Iterator[Evidence]:
    """Rule `name-says-nothing`: nodes that were not given a name of their own."""
    for node, ports in by_node(view.topology.ports).items():
        if says_nothing(node):
            most = max(Counter(port.nic for port in ports).values())
            leaves = listed([f"{port.switch} port {port.switch_port}" for port in ports])
            yield Evidence(
                node,
                f"{counted(len(ports), 'port')} of {counted(most, 'node')} or more"
                f" {have(len(ports))} this name, which Slurm cannot know: {leaves}",
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
                f" {max(count.values())} nodes are called so; they hang on {where}",
            )


def hosts_besides(view: FabricView) -> Iterator[Evidence]:
    """Rule `host-not-compute`: managers, storage, gateways where nodes hang."""
    ports = [port for port in view.topology.ports if port.kind is EndKind.OTHER]
    leaves = set(view.leaves)
    there = [port for port in ports if port.switch in leaves]
    if not there:
        return
    names = [port.node or port.description or "without a name" for port in there]
    switches = dict.fromkeys(port.switch for port in there)
    count = len(set(names))
    yield Evidence(
        hosts(names) if all(port.node for port in there) else named(names),
        f"{counted(count, 'host')} with {counted(len(there), 'port')} on {named(switches)}"
        f" {'is' if count == 1 else 'are'} taken for no compute node: unlike the nodes there by"
        f" name, and by the number of ports or what they are called",
    )


def not_in_slurm(view: FabricView) -> Iterator[Evidence]:
    """Rule `not-in-slurm`: nodes that Slurm does not know, by any form of their name."""
    if view.slurm_nodes is None:
        return
    ours = _asked(view)
    missing = _unmatched(ours, view.slurm_nodes)
    if missing:
        none = "none" if len(missing) == len(ours) else f"{len(missing)}"
        yield Evidence(
            hosts(missing),
            f"{len(missing)} of the {len(ours)} nodes with a name in the fabric are not among the"
            f" {len(view.slurm_nodes)} of Slurm, whatever their case or domain"
            + ("; the two may be different clusters" if none == "none" else ""),
        )


def not_in_fabric(view: FabricView) -> Iterator[Evidence]:
    """Rule `not-in-fabric`: nodes of Slurm that have no port here."""
    if view.slurm_nodes is None:
        return
    missing = _unmatched(view.slurm_nodes, _present(view))
    if not missing or len(missing) == len(set(view.slurm_nodes)):
        return
    count = f"{len(missing)} of the {len(set(view.slurm_nodes))} nodes of Slurm"
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
    maybe += [counted(nameless, "node") + " whose name says nothing"] if nameless else []
    yield Evidence(
        hosts(missing),
        f"{count} have no port in the fabric"
        + (f"; they may be among the {' and '.join(maybe)}" if maybe else ""),
    )


def names_differ(view: FabricView) -> Iterator[Evidence]:
    """Rule `names-differ`: the same nodes with another case or domain."""
    if view.slurm_nodes is None:
        return
    exact = set(view.slurm_nodes)
    short: defaultdict[str, list[str]] = defaultdict(list)
    for node in exact:
        short[_short(node)].append(node)
    pairs = [
        (node, short[_short(node)][0])
        for node in _asked(view)
        if node not in exact and short.get(_short(node))
    ]
    if pairs:
        ours, theirs = pairs[0]
        yield Evidence(
            hosts(one for one, _ in pairs),
            f"{counted(len(pairs), 'node')} {have(len(pairs))} another case or domain in Slurm and"
            f" {'is' if len(pairs) == 1 else 'are'} taken for the same: {ours} is {theirs} there",
        )


def _present(view: FabricView) -> list[str]:
    """Every name in the fabric, be it a node's or a manager's."""
    ends = [port.node for port in view.topology.ports if port.node]
    return list(dict.fromkeys([*ends, *view.topology.nodes]))


def _asked(view: FabricView) -> list[str]:
    """The names of nodes that Slurm should know."""
    return [node for node in view.topology.nodes if not says_nothing(node)]


def _short(node: str) -> str:
    return node.lower().partition(".")[0]


def _unmatched(names: Iterable[str], known: Iterable[str]) -> list[str]:
    there = set(map(_short, known))
    return list(dict.fromkeys(name for name in names if _short(name) not in there))
