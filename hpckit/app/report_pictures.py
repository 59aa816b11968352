"""The kinds of nodes that a job ran on, each drawn once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.decide.findings import node_findings
from hpckit.decide.grouping import group_alike
from hpckit.draw.node import node_svg
from hpckit.model.hardware import NodeTopology
from hpckit.model.node_answer import NodeAnswer
from hpckit.model.report_page import NodePicture

_MOST: Final = 4


def node_pictures(topologies: Mapping[str, NodeTopology]) -> tuple[NodePicture, ...]:
    """A picture of each kind of node, by the names of the nodes; the largest kinds, at most four.

    Odd findings of a node are marked in it as `hpckit inspect` marks them.
    """
    answers = [
        NodeAnswer(node=node, topology=topology, findings=tuple(node_findings(topology)))
        for node, topology in topologies.items()
    ]
    return tuple(
        NodePicture(nodes=group.nodes, svg=node_svg(group.topology, group.findings))
        for group in group_alike(answers)[:_MOST]
    )
