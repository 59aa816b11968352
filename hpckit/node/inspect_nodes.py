"""What many nodes look like: each is asked once, and the odd ones stand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import ConfigError
from hpckit.core.findings import Finding
from hpckit.core.hostlist import natural_order
from hpckit.node.answers import AlikeNodes, NodeAnswer, NodeQuestion, group_alike, silent_node
from hpckit.node.remote import words_about
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology
from hpckit.slurm.values import SlurmNode

if TYPE_CHECKING:
    from hpckit.node.remote import SrunProbe


# States in which Slurm starts no job step on a node. Source: sinfo(1), "NODE STATE CODES".
_GONE: Final = frozenset({"down", "error", "fail", "powered_down", "powering_down", "unknown"})
# ... and those in which it starts no new job on it either.
_CLOSED: Final = _GONE | {
    "drained", "draining", "failing", "future", "inval", "perfctrs", "power_down", "reboot",
    "reboot_issued",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSeen:
    """The nodes that answered, in groups that are alike, and a finding for each that did not."""

    groups: tuple[AlikeNodes, ...]
    silent: tuple[Finding, ...]
    words: tuple[str, ...] = ()


def inspect_nodes(
    probe: SrunProbe,
    question: NodeQuestion,
    nodelist: str | None,
    progress: Callable[[int, int], None],
) -> NodesSeen:
    """Ask the nodes of a list, or those of the question's job, what they are.

    `progress` is told how many of how many have answered. Nodes that Slurm itself cannot reach are
    not asked. Raises ConfigError for a list without nodes, AdapterError when nobody can be asked.
    """
    listed = probe.nodes(nodelist or probe.nodes_of_job(question.job_id or ""))
    if not listed:
        raise ConfigError(f"{nodelist!r} names no node", hint="such as c[1-4], or c1,c7")
    silent = [
        NodeAnswer(node=node.name, because=because)
        for node in listed
        if (because := _unreachable(node, in_job=question.job_id is not None)) is not None
    ]
    lost = {answer.node for answer in silent}
    asked = [node for node in listed if node.name not in lost]
    heard: dict[str, NodeAnswer] = {}

    def hear(answer: NodeAnswer) -> None:
        heard[answer.node] = answer
        progress(len(heard), len(asked))

    words: Sequence[str] = ()
    if asked:
        progress(0, len(asked))
        words = probe.ask(replace(question, nodes=tuple(one.name for one in asked)), hear)
    answers = [_judged(node, heard.get(node.name), question, words) for node in asked]
    silent += [answer for answer in answers if answer.topology is None]
    return NodesSeen(
        groups=group_alike(answers),
        silent=tuple(map(silent_node, sorted(silent, key=lambda one: natural_order(one.node)))),
        words=tuple(words),
    )


def _unreachable(node: SlurmNode, *, in_job: bool) -> str | None:
    if node.state is None:
        return "Slurm knows no node of this name"
    if not node.is_responding:
        return f"Slurm says that it does not respond ({node.state})"
    if node.is_powered_off and not in_job:
        return f"it is powered off ({node.state}), and a job would boot it"
    if node.state in (_GONE if in_job else _CLOSED):
        return f"Slurm starts nothing there: it is {node.state}"
    return None


def _judged(
    node: SlurmNode, answer: NodeAnswer | None, question: NodeQuestion, words: Sequence[str]
) -> NodeAnswer:
    if answer is None:
        said = words_about(node.name, words)
        reason = f" within {question.timeout_s:g} s" if said is None else f": {said}"
        return NodeAnswer(node=node.name, because=f"it gave no answer{reason}")
    if answer.topology is None:
        return answer
    findings = node_findings(
        answer.topology,
        expected_gpus=question.expected_gpus
        if question.expected_gpus is not None
        else _expected_gpus(node, answer.topology),
    )
    return replace(answer, findings=findings)


def _expected_gpus(node: SlurmNode, topology: NodeTopology) -> int | None:
    """What Slurm gives out on the node, unless it hides GPUs from who did not ask for them."""
    is_hiding = any(gpu.is_hidden for gpu in topology.gpus)
    is_whole = node.has_mig or len(topology.gpus) >= node.gpus
    if not node.gpus or (is_hiding and is_whole):
        return None
    return node.gpus
