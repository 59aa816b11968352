"""Findings for a terminal, the same on every screen, and what to ask next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.core.findings import Finding, FindingGroup, Severity, group_findings, without_subject
from hpckit.core.text import Line, Style, names_shown, numbers_shown, visible, wrapped
from hpckit.core.units import counted

_WHOLE_NODE: Final = ("GPUs",)
_PLURALS: Final = {"has": "have", "is": "are", "runs": "run", "had": "had"}


def sentence(group: FindingGroup) -> str:
    """Return what was seen, beginning with what it is about, which most evidence does by itself.

    Evidence about all GPUs of a node that names them needs no beginning.
    """
    shown = subjects_shown(group.subjects)
    rest = without_subject(group.because, group.subjects[0])
    if rest is not None and len(set(group.subjects)) > 1:
        verb, _, words = rest.partition(" ")
        return f"{shown} {_PLURALS[verb]} {words}" if verb in _PLURALS else f"{shown}: {rest}"
    is_of_node = group.subjects == _WHOLE_NODE and "GPU" in group.because
    is_named = is_of_node or group.because.startswith(f"{shown} ")
    return group.because if is_named else f"{shown}: {group.because}"


def subjects_shown(subjects: Iterable[str]) -> str:
    """Return what findings are about: `GPU0-3`, `mlx5_2 … mlx5_9`."""
    names = tuple(dict.fromkeys(subjects))
    if all(name.startswith("GPU") for name in names):
        return visible(numbers_shown(names), 60)
    return names_shown(names)


SEVERITY_WORDS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warn",
    Severity.NOTE: "note",
}
SEVERITY_STYLES: Final = {severity: Style(severity) for severity in Severity}
LABEL: Final = 9
_MOST_GROUPS: Final = 10
_LONGEST: Final = 400


def verdict(findings: Iterable[Finding], nothing: str) -> str:
    """Return how many findings there are: `1 error, 2 notes`; `nothing` of none."""
    severities = [finding.severity for finding in findings]
    counts = ((severity, severities.count(severity)) for severity in reversed(Severity))
    return ", ".join(counted(count, severity) for severity, count in counts if count) or nothing


def finding_lines(
    severity: Severity, head: tuple[str, ...], *below: tuple[str, ...], width: int
) -> list[Line]:
    """Return the words of a finding behind its severity, and below it evidence and remedy.

    The remedy is the last, and faint.
    """
    lines = labelled(SEVERITY_WORDS[severity], head, width, SEVERITY_STYLES[severity])
    for at, words in enumerate(below, start=1):
        lines += labelled("", words, width, Style.FAINT if at == len(below) else Style.PLAIN)
    return lines


def more_lines(left: int) -> list[Line]:
    """Return that so many findings are not shown; nothing of none."""
    return [Line(text=f"… {left} more: --json shows all", style=Style.FAINT)] if left > 0 else []


def node_finding_lines(findings: Sequence[Finding], width: int, command: str) -> list[Line]:
    """Return how many findings there are, and these as groups; nothing of none."""
    count = len(group_findings(findings))
    lines = [Line(text=f"findings {count}", style=Style.TITLE)] if findings else []
    return [*lines, *grouped_lines(findings, width, command)]


def grouped_lines(findings: Sequence[Finding], width: int, command: str) -> list[Line]:
    """Return findings, the gravest first; those that differ in their subject alone are one.

    `command` shows them all with --json; it may be empty.
    """
    groups = group_findings(findings)
    lines: list[Line] = []
    for group in groups[:_MOST_GROUPS]:
        head, remedy = words_of(sentence(group)), words_of(group.remedy)
        lines += finding_lines(group.severity, head, remedy, width=width)
    return [*lines, *left_lines(len(groups) - _MOST_GROUPS, command)]


def left_lines(left: int, command: str) -> list[Line]:
    """That so many are not shown, and what shows them; not broken, as it is there to be copied."""
    how = f"{command} --json" if command else "--json shows all"
    return [Line(text=f"{'':{LABEL}}… {left} more: {how}", style=Style.FAINT)] if left > 0 else []


def words_of(text: str, most: int = _LONGEST) -> tuple[str, ...]:
    """The words of a text of at most `most` characters, for `labelled`."""
    return tuple(visible(text, most).split(" "))


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
