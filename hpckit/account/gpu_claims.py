"""GPUs that two nodes claim: a UUID is one GPU's, so a name is wrong, or a file is a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.account.fold import NodeFold
from hpckit.account.page.html import NodePicture
from hpckit.account.values import GpuAccount
from hpckit.node.answers import NodeAnswer, group_alike
from hpckit.node.picture.picture import node_svg
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology

_MOST_TOLD: Final = 4


def twice_named(gpus: Sequence[GpuAccount]) -> list[str]:
    """A sentence for the GPUs that count on the same nodes of one incarnation, of many the first.

    A node under two names has all of its GPUs twice: that is one thing to say, not eight.
    """
    nodes: dict[tuple[int, str], dict[str, None]] = {}
    for gpu in gpus:
        nodes.setdefault((gpu.restart, gpu.uuid), {})[gpu.node] = None
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for (restart, uuid), names in nodes.items():
        if len(names) > 1:
            alike.setdefault((restart, tuple(names)), []).append(uuid)
    told = [*alike.items()]
    sentences = [_sentence(uuids, *where) for where, uuids in told[:_MOST_TOLD]]
    rest = sum(len(uuids) for _, uuids in told[_MOST_TOLD:])
    return [*sentences, f"and {rest} more GPUs likewise"] if rest else sentences


def _sentence(uuids: Sequence[str], restart: int, names: Sequence[str]) -> str:
    where = f"named by {len(names)} nodes ({', '.join(names[:_MOST_TOLD])})"
    where += f" of restart {restart}" if restart else ""
    own = "is one GPU, or its UUID is not its own"
    if len(uuids) == 1:
        return f"GPU {uuids[0]} is {where} and counts on each: it {own}"
    return f"{len(uuids)} GPUs ({uuids[0]}, …) are {where} and count on each: each {own}"


def gpus_refused(folds: Sequence[NodeFold], asked: int | None) -> dict[str, str]:
    """The reason by node, of nodes on which no GPU was seen; none for a job that asked for none."""
    if asked == 0:
        return {}
    found = {fold.evidence.node: reason for fold in folds if (reason := _reason(fold))}
    seen = {fold.evidence.node for fold in folds if fold.gpus}
    return {node: reason for node, reason in found.items() if node not in seen}


def refusal_words(refused: dict[str, str]) -> str:
    """`NVML DriverNotLoaded on n1, n2`; the reason of the most nodes where they differ."""
    if not refused:
        return ""
    reasons = list(refused.values())
    reason = max(dict.fromkeys(reasons), key=reasons.count)
    return f"{reason} on {named_nodes([node for node in refused if refused[node] == reason])}"


def named_nodes(nodes: Sequence[str]) -> str:
    """`n1, n2, n3, n4 and 2 more nodes`."""
    more = f" and {len(nodes) - _MOST_TOLD} more nodes" if len(nodes) > _MOST_TOLD else ""
    return ", ".join(nodes[:_MOST_TOLD]) + more


def _reason(fold: NodeFold) -> str | None:
    """NVML's error by its name, or a sentence of the sampler's."""
    told = None if fold.meta is None else fold.meta.host_refused.get("nvidia")
    ranks = (life.start.nvml_refused for life in fold.evidence.lives)
    reason = told or next(filter(None, ranks), None)
    if reason is None or fold.gpus:
        return None
    return reason if " " in reason else f"NVML {reason}"


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
        for group in group_alike(answers)[:_MOST_TOLD]
    )
