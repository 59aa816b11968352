"""A node on one screen: what it is, where its devices sit, what is odd about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Finding
from hpckit.model.gpu_ids import is_nvswitch
from hpckit.model.hardware import NodeTopology
from hpckit.model.node_title import node_title
from hpckit.model.node_words import memory, numbers_shown, visible
from hpckit.report.finding_lines import next_lines, node_finding_lines
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.node_tree import tree_lines
from hpckit.report.node_unknown import unknown_lines

COMMAND: Final = "hpckit inspect"
_NARROWEST: Final = 40
_LONGEST: Final = 8192


def node_lines(
    topology: NodeTopology,
    findings: Sequence[Finding] = (),
    *,
    width: int = 80,
    command: str | None = COMMAND,
) -> list[Line]:
    """The default screen of `hpckit inspect`, in lines of at most `width` columns (40 or more).

    `command` is what showed it; the last lines say what it can show besides, whole and to be
    copied, however long. Without a command (standard input) there are none; nor is one shown that
    holds what a terminal hides, as it would not work once escaped.
    """
    width = max(width, _NARROWEST)
    title = [Line(text=text, style=Style.TITLE) for text in title_texts(topology, width)]
    shown = command if command and visible(command, _LONGEST) == command else ""
    notes = [
        *unknown_lines(topology, width, shown),
        *node_finding_lines(findings, width, shown),
    ]
    return [
        *title,
        Line(text=""),
        *tree_lines(topology, width),
        *_besides(topology, width),
        Line(text=""),
        *notes,
        *_next(topology, shown),
    ]


def _next(topology: NodeTopology, command: str) -> list[Line]:
    if not command:
        return []
    options = ["--format matrix"] if topology.paths is not None else []
    return next_lines([f"{command} {option}" for option in (*options, "--format svg > node.svg")])


def title_texts(topology: NodeTopology, width: int) -> list[str]:
    """The sentence about a node, in as many lines as it takes."""
    parts = node_title(topology)
    joined = (*(f"{part} ·" for part in parts[:-1]), parts[-1])
    return wrapped(joined, width, further="  ")


def _besides(topology: NodeTopology, width: int) -> list[Line]:
    """What is in no place of the tree: NVSwitches, memory without CPUs."""
    parts = []
    switches = sum(map(is_nvswitch, topology.pci))
    if switches:
        parts.append(f"{switches} NVSwitches" if switches > 1 else "1 NVSwitch")
    kinds: dict[str, list[str]] = {}
    for numa in topology.numa_nodes:
        if numa.cpus == "":
            kind = "" if numa.kind is None else f"{numa.kind.upper()} "
            size = "" if numa.memory_bytes is None else f" of {memory(numa.memory_bytes)}"
            kinds.setdefault(f"{kind}memory{size}", []).append(f"NUMA {numa.index}")
    parts += [f"{numbers_shown(names)}: {what}" for what, names in kinds.items()]
    return [Line(text=text) for text in wrapped(tuple(parts), width, between=" · ")]
