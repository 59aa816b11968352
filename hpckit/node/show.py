"""What is not known about a node and why, in the words of people and not of the JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.core.finding_lines import (
    LABEL,
    grouped_lines,
    labelled,
    next_lines,
    node_finding_lines,
    sentence,
    subjects_shown,
    words_of,
)
from hpckit.core.findings import Finding, FindingGroup, group_findings
from hpckit.core.hostlist import fold_hosts
from hpckit.core.late import regex
from hpckit.core.text import Line, Style, columns, numbers_shown, visible, wrapped
from hpckit.node.answers import AlikeNodes
from hpckit.node.pci_tree import is_nvswitch
from hpckit.node.title import node_title
from hpckit.node.topology import NodeTopology
from hpckit.node.tree_text import tree_lines
from hpckit.node.words import memory

_LONGEST_UNKNOWN: Final = 120
_UNIT: Final = regex(r"_(?:bytes_per_s|bytes|gt_per_s|w|c)$", re.ASCII)
_FIELD: Final = regex(r"[a-z0-9]+(?:[_.][a-z0-9]+)*", re.ASCII)
_NAMES: Final = {
    "allowed": "allowed CPUs",
    "class_code": "class",
    "cpus": "CPUs",
    "driver_version": "driver",
    "gpu_links": "links",
    "index": "order",
    "is_gdr": "GPUDirect RDMA",
    "is_mig": "MIG",
    "numa_index": "NUMA node",
    "numa_nodes": "NUMA nodes",
    "nvlinks": "NVLinks",
    "nvml_version": "NVML version",
    "own_numa_index": "NUMA node of the memory",
    "packages": "CPU packages",
    "parent": "bridges above",
    "pci": "PCI address",
    "platform": "place in the chassis",
    "uuid": "UUID",
}
_SWITCHED: Final = "whether NVLinks go through a switch"
_OF_GPUS_ALONE: Final = frozenset({"is_gdr", "driver_version", "nvml_version", "gpus"})


def _unknown_lines(topology: NodeTopology, width: int) -> list[Line]:
    """What is unknown: with its reason where all have one, else on one line.

    On a node without GPUs nothing about these.
    """
    whats: dict[str, list[str]] = {}
    reasons: set[str] = set()
    for one in topology.unknown:
        if topology.gpus or not topology.pci or one.what not in _OF_GPUS_ALONE:
            whats.setdefault(one.subject, []).append(one.what)
            reasons.add(one.because.replace("NVML: ", "NVIDIA driver not available: "))
    names = _known_by_none(whats)
    if len(reasons) == 1:
        words = (*words_of(", ".join(names)), "–", *words_of(reasons.pop()))
        return labelled("unknown", words, width, Style.FAINT)
    for count in range(len(names), -1 if names else 0, -1):
        rest = f"{len(names) - count} {'more' if count else 'facts'}"
        parts = names[:count] + ([rest] if count < len(names) else [])
        text = f"{'unknown':<{LABEL}}{', '.join(parts)} (why: --json)"
        if columns(text) <= width:
            return [Line(text=text, style=Style.FAINT)]
    return []


def _known_by_none(whats: Mapping[str, Sequence[str]]) -> list[str]:
    """Subjects of which the same is unknown together: `name and uuid of GPU0-7`."""
    together: dict[tuple[str, ...], list[str]] = {}
    for subject, properties in whats.items():
        words = tuple(_property(what, subject) for what in properties)
        together.setdefault(words, []).append(subject)
    return [_sentence(words, subjects) for words, subjects in together.items()]


def _sentence(words: Sequence[str], subjects: Sequence[str]) -> str:
    """`memory of GPU0-1`; what has its subject in it, or that of the whole node, is without."""
    text = ", ".join(words)
    if subjects == ["paths"]:
        return f"paths between {text}"
    if subjects == ["node"] or text in {*subjects, _SWITCHED}:
        return text
    return f"{text} of {subjects_shown(subjects)}"


def _property(what: str, subject: str) -> str:
    if what == "gpus" and subject == "GPUs":
        return "GPUs"
    if what == "is_switched":
        return _SWITCHED
    if what == "kind" and subject.startswith("NUMA node"):
        return "kind of memory"
    return visible(_FIELD.sub(lambda match: _name(match[0]), what), _LONGEST_UNKNOWN)


def _name(field: str) -> str:
    """A field without its unit: `memory_bytes` is memory, `gpu_links.bandwidth…` theirs."""
    *outer, last = field.split(".")
    name = _UNIT.sub("", last)
    words = _NAMES.get(name, name.removeprefix("is_").replace("_", " "))
    return " of ".join((words, *(_name(one) for one in reversed(outer))))


COMMAND: Final = "hpckit inspect"
_NARROWEST: Final = 40
_LONGEST_LINE: Final = 8192


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
    *parts, last = node_title(topology)
    texts = wrapped((*(f"{part} ·" for part in parts), last), width, further="  ")
    title = [Line(text=text, style=Style.TITLE) for text in texts]
    shown = command if command and visible(command, _LONGEST_LINE) == command else ""
    return [
        *title,
        *node_finding_lines(findings, width, shown),
        *tree_lines(topology, width),
        *_besides(topology, width),
        *_unknown_lines(topology, width),
        *_next(topology, shown),
    ]


def _next(topology: NodeTopology, command: str) -> list[Line]:
    if not command:
        return []
    options = ["--format matrix"] if topology.paths is not None else []
    return next_lines([f"{command} {option}" for option in (*options, "--format svg > node.svg")])


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


_MOST_HOSTS: Final = 60
_LONGEST_GROUP: Final = 256


def group_lines(
    groups: Sequence[AlikeNodes], silent: Sequence[Finding] = (), *, width: int = 80
) -> list[Line]:
    """A sentence a group, the largest first; how the others differ, and what is odd, below each.

    `silent` are the findings of nodes that gave no answer. The last line is the command that shows
    the first node that differs.
    """
    parts = [_group(group, width) for group in groups]
    parts += [grouped_lines(silent, width, "")] if silent else []
    odd = next((group.nodes[0] for group in groups if group.differs), None)
    if odd is not None and visible(odd, _LONGEST_GROUP) == odd:
        parts.append(next_lines([f"srun -w {shlex.quote(odd)} {COMMAND}"]))
    lines: list[Line] = []
    for part in parts:
        lines += [Line(text=""), *part] if lines else part
    return lines


def _group(group: AlikeNodes, width: int) -> list[Line]:
    style = Style.WARNING if group.differs else Style.TITLE
    lines = [Line(text=text, style=style) for text in _head(group, width)]
    for difference in group.differs:
        if not any(_says(one, difference) for one in group_findings(group.findings)):
            texts = wrapped(tuple(difference.split(" ")), width, first="  ", further="    ")
            lines += [Line(text=text, style=Style.WARNING) for text in texts]
    return [*lines, *grouped_lines(group.findings, width, "")]


def _says(finding: FindingGroup, difference: str) -> bool:
    """Whether a finding is of the subject of `GPU5: active NVLinks 17, not 18`, and says the 17.

    Another finding about GPU5 does not, and then both are worth a line.
    """
    subject, _, rest = difference.partition(": ")
    value = rest.partition(", not ")[0].rpartition(" ")[2]
    is_same = subject in {*finding.subjects, subjects_shown(finding.subjects)}
    words = re.split(r"[\s,;:()]+", sentence(finding))
    return is_same and value != "" and not {value, f"x{value}"}.isdisjoint(words)


def _head(group: AlikeNodes, width: int) -> list[str]:
    hosts = visible(fold_hosts(group.nodes), _MOST_HOSTS)
    count = len(group.nodes)
    if group.differs:
        return wrapped((hosts, f"{count} nodes differ" if count > 1 else "1 node differs"), width)
    about = node_title(group.topology)[1:]
    words = f"{count} identical nodes:" if count > 1 else "1 node:"
    parts = (f"{hosts} {words}", *(f"{part} ·" for part in about[:-1]), *about[-1:])
    return wrapped(parts, width, further="  ")
