"""Answers of nodes, as `hpckit inspect --nodes` gets them."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.node.answers import AlikeNodes, NodeAnswer, group_alike
from hpckit.node.topology import NodeTopology


def grouped(nodes: Sequence[tuple[str, NodeTopology]]) -> tuple[AlikeNodes, ...]:
    """These nodes in groups that are alike, without findings."""
    return group_alike([NodeAnswer(node=name, topology=topology) for name, topology in nodes])
