"""What is odd about a node, and what to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.finding_group import group_findings, sentence
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
_LONGEST: Final = 400


def finding_lines(findings: Sequence[NodeFinding], width: int, command: str) -> list[Line]:
    """How many findings there are as `found_lines` has them, and these; nothing of none."""
    count = len(group_findings(findings))
    lines = [Line(text=f"findings {count}", style=Style.TITLE)] if findings else []
    return [*lines, *found_lines(findings, width, command)]


def found_lines(findings: Sequence[NodeFinding], width: int, command: str) -> list[Line]:
    """Findings, the gravest first; those that differ in their subject alone are one.

    `command` shows them all with --json; it may be empty.
    """
    groups = group_findings(findings)
    lines: list[Line] = []
    for one in groups[:_MOST_FINDINGS]:
        words = words_of(sentence(one))
        lines += labelled(_WORDS[one.severity], words, width, _STYLES[one.severity])
        lines += labelled("", words_of(one.remedy), width, Style.FAINT)
    left = len(groups) - _MOST_FINDINGS
    return [*lines, *left_lines(left, command)]


def left_lines(left: int, command: str) -> list[Line]:
    """That so many are not shown, and what shows them; not broken, as it is there to be copied."""
    how = f"{command} --json" if command else "--json has them all"
    return [Line(text=f"{'':{LABEL}}… {left} more: {how}", style=Style.FAINT)] if left > 0 else []


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, for `labelled`."""
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
