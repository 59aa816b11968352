"""What is wrong with settings of communication, for a terminal: the count first, then each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.comm_lint import LintFinding
from hpckit.model.node_finding import Severity
from hpckit.model.node_words import visible
from hpckit.model.words import counted
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.node_notes import labelled, next_lines

_NARROWEST: Final = 40
_MOST_SHOWN: Final = 30
_LONGEST: Final = 400
_LABELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warn", Severity.NOTE: "note"}
_STYLES: Final = {
    Severity.ERROR: Style.ERROR,
    Severity.WARNING: Style.WARNING,
    Severity.NOTE: Style.NOTE,
}


def comm_lint_lines(
    findings: Sequence[LintFinding], *, name: str, width: int = 80, command: str | None = None
) -> list[Line]:
    """The screen of `hpckit tune --lint`, in lines of at most `width` columns (40 or more).

    `name` is the file, `command` what shows more; the last line says it, and is left out
    without a command. The gravest come first, then by line.
    """
    width = max(width, _NARROWEST)
    shown_name = visible(name, _LONGEST)
    title = wrapped((f"{shown_name}:", *_verdict(findings).split(" ")), width, further="  ")
    lines = [Line(text=text, style=Style.TITLE) for text in title]
    ordered = sorted(findings, key=lambda one: (-one.severity.rank, one.line))
    for one in ordered[:_MOST_SHOWN]:
        lines += _finding_lines(one, width)
    left = len(findings) - _MOST_SHOWN
    if left > 0:
        lines.append(Line(text=f"… {left} more: --json has them all", style=Style.FAINT))
    return lines + _next(findings, command)


def _verdict(findings: Sequence[LintFinding]) -> str:
    parts = [
        counted(count, severity.value)
        for severity in sorted(Severity, key=lambda one: -one.rank)
        if (count := sum(one.severity is severity for one in findings))
    ]
    return ", ".join(parts) or "nothing to change"


def _next(findings: Sequence[LintFinding], command: str | None) -> list[Line]:
    if not findings or not command or visible(command, _LONGEST) != command:
        return []
    return next_lines([command])


def _finding_lines(one: LintFinding, width: int) -> list[Line]:
    style = _STYLES[one.severity]
    head = (f"line {one.line}", f"{visible(one.name, _LONGEST)}:", *_words(one.because))
    return [
        *labelled(_LABELS[one.severity], head, width, style),
        *labelled("", ("fix:", *_words(one.fix)), width, Style.FAINT),
    ]


def _words(text: str) -> tuple[str, ...]:
    return tuple(visible(text, _LONGEST).split(" "))
