"""Which hosts of a fabric compute, and which are something else: managers, storage, gateways.

Only ibnetdiscover has to be asked: it sees all that is cabled. Slurm, clouds and snapshots list
nodes. A manager's name is unlike the others', and it has fewer ports than the nodes beside it, or
it hangs on a spine; a node that lost a port has the name of its kind.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hpckit.core.late import regex
from hpckit.fabric.topology import ClusterTopology, EndKind, FabricSource, HostPort
from hpckit.node.rules.rule import most_common

_NUMBER: Final = regex(r"[0-9]+", re.ASCII)
_LETTERS: Final = regex(r"[a-z]+", re.ASCII)
_SERVICES: Final = frozenset(
    """
    ufm opensm mgmt mgr manager mgmtnode storage nas lustre oss ost mds mgs nsd gpfs
    weka vast ddn login head gw gateway skyway router bastion
    """.split()  # noqa: SIM905  a word a line would fill the page
)
_NOTHING: Final = frozenset(
    """
    localhost linux ubuntu debian rocky centos rhel node host server default unknown
    none dgx livecd archiso buildroot
    """.split()  # noqa: SIM905  a word a line would fill the page
)
_MINOR_FRAC: Final = 0.25

FEWEST_PEERS: Final = 3
"""Nodes of one kind of name from which on they are compared with each other alone."""


def name_shape(node: str) -> str:
    """What names of one kind have in common: `A05-c12.x` is `a#-c#.x`."""
    return _NUMBER.sub("#", node.lower())


def short_name(node: str) -> str:
    """Return a node's name without its domain, in lower case."""
    return node.lower().partition(".")[0]


def says_nothing(node: str) -> bool:
    """Whether a name is what a system is called before it is given one."""
    return short_name(node) in _NOTHING


def by_node(ports: Iterable[HostPort]) -> dict[str, list[HostPort]]:
    """The ports that are a node's, of those that compute."""
    found: dict[str, list[HostPort]] = {}
    for port in ports:
        if port.kind is EndKind.COMPUTE and port.node is not None:
            found.setdefault(port.node, []).append(port)
    return found


def with_end_kinds(topology: ClusterTopology) -> ClusterTopology:
    """The topology in which hosts that are no compute nodes are of kind OTHER.

    Of another source than ibnetdiscover it is as it was: every host that those list computes.
    """
    if topology.source is not FabricSource.IBNETDISCOVER:
        return topology
    nodes = by_node(topology.ports)
    above = {switch.name for switch in topology.switches if switch.level}
    others = _others(nodes) | {
        node for node, ports in nodes.items() if all(port.switch in above for port in ports)
    }
    if not others:
        return topology
    ports = tuple(
        dataclasses.replace(port, kind=EndKind.OTHER)
        if port.kind is EndKind.COMPUTE and port.node in others
        else port
        for port in topology.ports
    )
    return dataclasses.replace(topology, ports=ports)


def _others(nodes: Mapping[str, list[HostPort]]) -> frozenset[str]:
    shapes = {node: name_shape(node) for node in nodes}
    count = Counter(shapes.values())
    rare = max(2, 0.05 * len(nodes))
    beside: defaultdict[str, list[str]] = defaultdict(list)
    for node, ports in nodes.items():
        for switch in {port.switch for port in ports}:
            beside[switch].append(node)
    found = set()
    for node, ports in nodes.items():
        mine = count[shapes[node]]
        is_minor = mine <= _MINOR_FRAC * len(nodes)
        if is_minor and _SERVICES.intersection(_LETTERS.findall(shapes[node])):
            found.add(node)
        elif mine <= rare and len(nodes) > mine:
            peers = {one for port in ports for one in beside[port.switch]} - {node}
            if _is_smaller(len(ports), [(shapes[one], len(nodes[one])) for one in peers]):
                found.add(node)
    return frozenset(found)


def _is_smaller(ports: int, peers: list[tuple[str, int]]) -> bool:
    """Whether most of its peers are of a kind, that is several, and have more ports."""
    usual = most_common(count for _, count in peers)
    kinds = Counter(shape for shape, _ in peers).most_common(1)
    return usual is not None and ports < usual and kinds[0][1] >= FEWEST_PEERS


def named_as(topology: ClusterTopology, nodes: Sequence[str]) -> ClusterTopology:
    """The topology in which nodes have the names of `nodes` where only case or domain differ.

    Names that several nodes have then, here or there, stay as they are.
    """
    names = _asked_names(topology, nodes)
    if not names:
        return topology
    return dataclasses.replace(
        topology,
        ports=tuple(
            dataclasses.replace(port, node=names.get(port.node or "", port.node))
            for port in topology.ports
        ),
        blocks=tuple(
            dataclasses.replace(block, nodes=tuple(names.get(node, node) for node in block.nodes))
            for block in topology.blocks
        ),
    )


def _asked_names(topology: ClusterTopology, nodes: Sequence[str]) -> Mapping[str, str]:
    """The name that is asked for, by the one that the topology has."""
    there = set(topology.nodes)
    lost = [node for node in nodes if node not in there]
    if not lost:
        return {}
    asked = Counter(map(short_name, nodes))
    ours: defaultdict[str, list[str]] = defaultdict(list)
    for node in topology.nodes:
        ours[short_name(node)].append(node)
    found = {}
    for node in lost:
        short = short_name(node)
        if asked[short] == 1 and len(ours[short]) == 1:
            found[ours[short][0]] = node
    return found
