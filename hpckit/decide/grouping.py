"""Which nodes are alike, and what sets the odd ones apart."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.decide.difference import differences, shape
from hpckit.model.node_answer import AlikeNodes, NodeAnswer
from hpckit.model.node_finding import NodeFinding, Severity


def group_alike(answers: Sequence[NodeAnswer]) -> tuple[AlikeNodes, ...]:
    """The answers in groups of the same shape and the same findings, the largest group first.

    Among groups of one size those with fewer findings come first, then in the order of the nodes.
    """
    groups: dict[object, list[NodeAnswer]] = {}
    for answer in answers:
        if answer.topology is not None:
            key = (shape(answer.topology), answer.findings)
            groups.setdefault(key, []).append(answer)
    ordered = sorted(groups.values(), key=lambda group: (-len(group), len(group[0].findings)))
    return tuple(_group(group, ordered[0][0]) for group in ordered)


def _group(group: Sequence[NodeAnswer], usual: NodeAnswer) -> AlikeNodes:
    first = group[0]
    if first.topology is None or usual.topology is None:
        raise AssertionError("only answers with a topology are grouped")
    return AlikeNodes(
        nodes=tuple(one.node for one in group),
        topology=first.topology,
        findings=first.findings,
        differs=() if first is usual else differences(usual.topology, first.topology),
    )


def silent_node(answer: NodeAnswer) -> NodeFinding:
    """The finding that a node is, which gave no answer."""
    return NodeFinding(
        rule="node-silent",
        severity=Severity.ERROR,
        subject=answer.node,
        because=answer.because or "it gave no answer",
        remedy=f"scontrol show node {answer.node}",
    )
