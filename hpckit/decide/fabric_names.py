"""A fabric's nodes by the names that a job has for them: case and domain are often others."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from hpckit.model.fabric import ClusterTopology


def short_name(node: str) -> str:
    """What a node's name is without its domain, in lower case."""
    return node.lower().partition(".")[0]


def named_as(topology: ClusterTopology, nodes: Sequence[str]) -> ClusterTopology:
    """The topology in which nodes have the names of `nodes` where only case or domain differ.

    Names that several nodes have then, here or there, stay as they are.
    """
    names = _names(topology, nodes)
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


def _names(topology: ClusterTopology, nodes: Sequence[str]) -> Mapping[str, str]:
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
