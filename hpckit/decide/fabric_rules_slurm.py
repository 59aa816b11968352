"""What is odd about what Slurm was told of: a tree has one way up from everything, blocks part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from hpckit.core.findings import Evidence
from hpckit.decide.fabric_rule import FabricView, hosts, listed
from hpckit.model.cluster import TopologyKind
from hpckit.model.words import counted


def switch_two_parents(view: FabricView) -> Iterator[Evidence]:
    """Rule `switch-two-parents`: switches that several others name below them."""
    if view.topology.plugin is not TopologyKind.TREE:
        return
    found = _several((link.lower, link.upper) for link in view.topology.links)
    for switch, above in found.items():
        yield Evidence(switch, f"it is below {listed(above)}, and has one place in a tree")


def node_multi_homed(view: FabricView) -> Iterator[Evidence]:
    """Rule `node-multi-homed`: nodes on several leaves, all of one set of leaves together."""
    if view.topology.plugin is not TopologyKind.TREE:
        return
    ends = ((port.node, port.switch) for port in view.topology.ports if port.node is not None)
    on: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, leaves in _several(ends).items():
        on[leaves].append(node)
    for leaves, nodes in on.items():
        yield Evidence(
            hosts(nodes),
            f"{counted(len(nodes), 'node')} on each of {listed(leaves)}; in a tree a node hangs on"
            " one leaf",
        )


def node_two_blocks(view: FabricView) -> Iterator[Evidence]:
    """Rule `node-two-blocks`: nodes in several blocks, all of one set of blocks together."""
    blocks = (block for block in view.topology.blocks if not block.is_aggregated)
    inside: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, names in _several((node, one.name) for one in blocks for node in one.nodes).items():
        inside[names].append(node)
    for names, nodes in inside.items():
        yield Evidence(
            hosts(nodes),
            f"{counted(len(nodes), 'node')} in each of {listed(names)}; a node is in one block",
        )


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """Those that stand with more than one other, with them in the order of the source."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for one, other in pairs:
        found[one][other] = None
    return {one: tuple(others) for one, others in found.items() if len(others) > 1}
