"""What is wrong with settings of communication, for a terminal: the count first, then each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import gravest_first
from hpckit.model.comm_lint import LintFinding
from hpckit.model.node_words import visible
from hpckit.report.finding_lines import finding_lines, more_lines, next_lines, verdict, words_of
from hpckit.report.line import Line, Style, wrapped

_NARROWEST: Final = 40
_MOST_SHOWN: Final = 30
_LONGEST: Final = 400


def comm_lint_lines(
    findings: Sequence[LintFinding], *, name: str, width: int = 80, command: str | None = None
) -> list[Line]:
    """The screen of `hpckit tune --lint`, in lines of at most `width` columns (40 or more).

    `name` is the file, `command` what shows more; the last line says it, and is left out
    without a command. The gravest come first, then by line.
    """
    width = max(width, _NARROWEST)
    counts = verdict(findings, "nothing to change").split(" ")
    title = wrapped((f"{visible(name, _LONGEST)}:", *counts), width, further="  ")
    lines = [Line(text=text, style=Style.TITLE) for text in title]
    by_line = sorted(findings, key=lambda finding: finding.line_no or 0)
    for finding in gravest_first(by_line)[:_MOST_SHOWN]:
        subject = f"{visible(finding.subject, _LONGEST)}:"
        head = (f"line {finding.line_no}", subject, *words_of(finding.because))
        remedy = ("fix:", *words_of(finding.remedy))
        lines += finding_lines(finding.severity, head, remedy, width=width)
    lines += more_lines(len(findings) - _MOST_SHOWN)
    is_shown = findings and command and visible(command, _LONGEST) == command
    return [*lines, *next_lines([command])] if is_shown and command else lines
