"""What is odd about a node, what is not known about it, and what to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.finding_group import group_findings, subjects_shown
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


def finding_lines(findings: Sequence[NodeFinding], width: int) -> list[Line]:
    """Findings, the gravest first; those that differ in their subject alone are one."""
    groups = group_findings(findings)
    lines = [Line(text=f"findings {len(findings)}", style=Style.TITLE)] if findings else []
    for one in groups[:_MOST_FINDINGS]:
        words = (f"{subjects_shown(one.subjects)}:", *_words(one.because))
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


def unknown_lines(unknown: Sequence[Unknown], width: int) -> list[Line]:
    """What is not known and why, a line a reason."""
    groups: dict[str, dict[str, list[str]]] = {}
    for one in unknown:
        groups.setdefault(one.because, {}).setdefault(one.what, []).append(one.subject)
    lines: list[Line] = []
    for because, whats in list(groups.items())[:_MOST_UNKNOWN]:
        known = ", ".join(_of(what, subjects) for what, subjects in whats.items())
        words = (*_words(known), "–", *_words(because))
        lines += labelled("" if lines else "unknown", words, width, Style.FAINT)
    left = len(groups) - _MOST_UNKNOWN
    if left > 0:
        lines += labelled("", (f"… {left} more: hpckit inspect --json",), width, Style.FAINT)
    return lines


def _of(what: str, subjects: Sequence[str]) -> str:
    return f"{visible(what, 30).replace('_', ' ')} of {subjects_shown(subjects)}"
