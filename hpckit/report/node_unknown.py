"""What is not known about a node and why, in the words of people and not of the JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.model.finding_group import subjects_shown
from hpckit.model.hardware import NodeTopology, Unknown
from hpckit.model.node_words import visible
from hpckit.report.finding_lines import labelled, left_lines, words_of
from hpckit.report.line import Line, Style

_MOST_UNKNOWN: Final = 5
_LONGEST: Final = 120
_UNIT: Final = re.compile(r"_(?:bytes_per_s|bytes|gt_per_s|w|c)$", re.ASCII)
_FIELD: Final = re.compile(r"[a-z0-9]+(?:[_.][a-z0-9]+)*", re.ASCII)
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
    "nvml_version": "version of NVML",
    "own_numa_index": "NUMA node of the memory",
    "packages": "CPU packages",
    "parent": "bridges above",
    "pci": "PCI address",
    "platform": "place in the chassis",
    "uuid": "UUID",
}
_SWITCHED: Final = "whether NVLinks go through a switch"
_OF_GPUS_ALONE: Final = frozenset({"is_gdr", "driver_version", "nvml_version", "gpus"})


def unknown_lines(topology: NodeTopology, width: int, command: str) -> list[Line]:
    """What is not known and why, a line a reason; on a node without GPUs nothing about these.

    `command` shows all of it with --json; it may be empty.
    """
    reasons: dict[str, dict[str, list[str]]] = {}
    for one in topology.unknown:
        if topology.gpus or not topology.pci or one.what not in _OF_GPUS_ALONE:
            whats = reasons.setdefault(_because(one), {})
            whats.setdefault(one.subject, []).append(one.what)
    lines: list[Line] = []
    for because, whats in list(reasons.items())[:_MOST_UNKNOWN]:
        words = (*words_of(", ".join(_known_by_none(whats))), "–", *words_of(because))
        lines += labelled("" if lines else "unknown", words, width, Style.FAINT)
    left = len(reasons) - _MOST_UNKNOWN
    return [*lines, *left_lines(left, command)]


def _because(one: Unknown) -> str:
    reason = one.because.removeprefix("NVML: ")
    if one.what == "gpus" and reason != one.because:
        return f"no driver of NVIDIA answers: {reason}"
    return one.because


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
    """The words for a field's name, or for several with words between."""
    if what == "gpus" and subject == "GPUs":
        return "GPUs"
    if what == "is_switched":
        return _SWITCHED
    if what == "kind" and subject.startswith("NUMA node"):
        return "kind of memory"
    return visible(_FIELD.sub(lambda match: _name(match[0]), what), _LONGEST)


def _name(field: str) -> str:
    """A field without its unit: `memory_bytes` is memory, `gpu_links.bandwidth…` theirs."""
    *outer, last = field.split(".")
    name = _UNIT.sub("", last)
    words = _NAMES.get(name, name.removeprefix("is_").replace("_", " "))
    return " of ".join((words, *(_name(one) for one in reversed(outer))))
