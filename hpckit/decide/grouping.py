"""Which nodes are alike, and what sets the odd ones apart."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.core.findings import Finding, Severity
from hpckit.decide.difference import differences, shape
from hpckit.model.hardware import NodeTopology
from hpckit.model.node_answer import AlikeNodes, NodeAnswer

_Key = tuple[tuple[str, ...], tuple[Finding, ...]]


def group_alike(answers: Sequence[NodeAnswer]) -> tuple[AlikeNodes, ...]:
    """The answers in groups that are alike and have the same findings, the largest group first.

    Among groups of one size those with fewer findings come first, then in the order of the nodes.
    Nodes whose sizes of memory are close are alike, as `differences` says.
    """
    found = [(one, one.topology) for one in answers if one.topology is not None]
    shapes: dict[object, list[tuple[NodeAnswer, NodeTopology]]] = {}
    for answer, topology in found:
        shapes.setdefault((shape(topology), answer.findings), []).append((answer, topology))
    ordered = sorted(shapes.values(), key=lambda one: (-len(one), len(one[0][0].findings)))
    groups: dict[_Key, list[tuple[NodeAnswer, NodeTopology]]] = {}
    for one in ordered:
        answer, topology = one[0]
        differs = _differs(*ordered[0][0], topology)
        groups.setdefault((differs, answer.findings), []).extend(one)
    alike = [_group(one, differs) for (differs, _), one in groups.items()]
    return tuple(sorted(alike, key=lambda group: -len(group.nodes)))


def _differs(usual: NodeAnswer, as_usual: NodeTopology, topology: NodeTopology) -> tuple[str, ...]:
    """What is different, without what is odd about the usual node itself."""
    odd = tuple(f"{finding.subject}:" for finding in usual.findings)
    return tuple(one for one in differences(as_usual, topology) if not one.startswith(odd))


def _group(
    group: Sequence[tuple[NodeAnswer, NodeTopology]], differs: tuple[str, ...]
) -> AlikeNodes:
    answer, topology = group[0]
    return AlikeNodes(
        nodes=tuple(one.node for one, _ in group),
        topology=topology,
        findings=answer.findings,
        differs=differs,
    )


def silent_node(answer: NodeAnswer) -> Finding:
    """The finding that a node is, which gave no answer."""
    return Finding(
        rule="node-silent",
        severity=Severity.ERROR,
        subject=answer.node,
        because=answer.because or "it gave no answer",
        remedy=f"scontrol show node {answer.node}",
    )
