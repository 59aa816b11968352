"""What is odd about a node, what is not known about it, and what to ask next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.model.finding_group import group_findings, sentence, subjects_shown
from hpckit.model.hardware import Unknown
from hpckit.model.node_finding import NodeFinding, Severity
from hpckit.model.node_words import visible
from hpckit.report.line import Line, Style, wrapped

_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warn", Severity.NOTE: "note"}
_STYLES: Final = {
    Severity.ERROR: Style.ERROR,
    Severity.WARNING: Style.WARNING,
    Severity.NOTE: Style.NOTE,
}
LABEL: Final = 9
_MOST_FINDINGS: Final = 10
_MOST_UNKNOWN: Final = 5
_LONGEST: Final = 400
_UNIT: Final = re.compile(r"_(?:bytes_per_s|bytes|gt_per_s|w|c)\b", re.ASCII)


def finding_lines(findings: Sequence[NodeFinding], width: int) -> list[Line]:
    """Findings, the gravest first; those that differ in their subject alone are one."""
    groups = group_findings(findings)
    lines = [Line(text=f"findings {len(findings)}", style=Style.TITLE)] if findings else []
    for one in groups[:_MOST_FINDINGS]:
        words = _words(sentence(one))
        lines += labelled(_WORDS[one.severity], words, width, _STYLES[one.severity])
        lines += labelled("", _words(one.remedy), width, Style.FAINT)
    left = len(groups) - _MOST_FINDINGS
    if left > 0:
        lines += labelled("", (f"… {left} more: hpckit inspect --json",), width, Style.FAINT)
    return lines


def _words(text: str) -> tuple[str, ...]:
    return tuple(visible(text, _LONGEST).split(" "))


def labelled(label: str, words: tuple[str, ...], width: int, style: Style) -> list[Line]:
    """Words behind a label, in as many lines as they take."""
    indent = " " * LABEL
    texts = wrapped(words, width, first=f"{label:<{LABEL}}", further=indent)
    return [Line(text=text, style=style) for text in texts]


def next_lines(commands: Sequence[str]) -> list[Line]:
    """What to ask next, a line a command, none broken: they are there to be copied."""
    labels = ("next", *("" for _ in commands[1:]))
    return [
        Line(text=f"{label:<6}{command}", style=Style.FAINT)
        for label, command in zip(labels, commands, strict=False)
    ]


def unknown_lines(unknown: Sequence[Unknown], width: int) -> list[Line]:
    """What is not known and why, a line a reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for one in unknown:
        reasons.setdefault(one.because, {}).setdefault(one.subject, []).append(_property(one.what))
    lines: list[Line] = []
    for because, whats in list(reasons.items())[:_MOST_UNKNOWN]:
        words = (*_words(", ".join(_known_by_none(whats))), "–", *_words(because))
        lines += labelled("" if lines else "unknown", words, width, Style.FAINT)
    left = len(reasons) - _MOST_UNKNOWN
    if left > 0:
        lines += labelled("", (f"… {left} more: hpckit inspect --json",), width, Style.FAINT)
    return lines


def _property(what: str) -> str:
    """A field's name as words, without its unit: `memory_bytes` is memory."""
    return visible(_UNIT.sub("", what).replace("_", " ").replace(".", " "), 48)


def _known_by_none(whats: Mapping[str, Sequence[str]]) -> list[str]:
    """Subjects of which the same is unknown together: `name and uuid of GPU0-7`."""
    together: dict[tuple[str, ...], list[str]] = {}
    for subject, properties in whats.items():
        together.setdefault(tuple(properties), []).append(subject)
    return [
        f"{', '.join(properties)} of {subjects_shown(subjects)}"
        for properties, subjects in together.items()
    ]
