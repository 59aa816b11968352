"""What is odd about a node, what is not known about it, and what to ask next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.model.hardware import Unknown
from hpckit.model.node_finding import NodeFinding, Severity
from hpckit.model.node_words import names_shown, numbers_shown, visible
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


def subjects_shown(subjects: Iterable[str]) -> str:
    """What findings are about: `GPU0-3`, `mlx5_2 … mlx5_9`."""
    names = tuple(dict.fromkeys(subjects))
    if all(name.startswith("GPU") for name in names):
        return visible(numbers_shown(names), 60)
    return names_shown(names)


def finding_lines(findings: Sequence[NodeFinding], width: int) -> list[Line]:
    """Findings, the gravest first; those that differ in their subject alone are one."""
    groups: dict[tuple[Severity, str, str, str], list[str]] = {}
    gravest = list(_WORDS)
    for one in sorted(findings, key=lambda one: gravest.index(one.severity)):
        key = (one.severity, one.rule, one.because, one.remedy)
        groups.setdefault(key, []).append(one.subject)
    lines = [Line(text=f"findings {len(findings)}", style=Style.TITLE)] if findings else []
    for (severity, _, because, remedy), subjects in list(groups.items())[:_MOST_FINDINGS]:
        words = (f"{subjects_shown(subjects)}:", *_words(because))
        lines += labelled(_WORDS[severity], words, width, _STYLES[severity])
        lines += labelled("", _words(remedy), width, Style.FAINT)
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
