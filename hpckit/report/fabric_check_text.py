"""What is odd about a fabric, for a terminal: the answer first, then each finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Finding
from hpckit.model.fabric import ClusterTopology
from hpckit.model.fabric_unchecked import not_checked
from hpckit.model.node_words import visible
from hpckit.report.finding_lines import (
    finding_lines,
    more_lines,
    next_lines,
    verdict,
    words_of,
)
from hpckit.report.line import Line, Style, wrapped

COMMAND: Final = "hpckit fabric check"
_NARROWEST: Final = 40
_MOST_SHOWN: Final = 20
_LONGEST: Final = 4000


def fabric_check_lines(
    topology: ClusterTopology,
    findings: Sequence[Finding],
    *,
    width: int = 80,
    command: str | None = COMMAND,
) -> list[Line]:
    """The screen of `hpckit fabric check`, in lines of at most `width` columns (40 or more).

    `command` is what showed it; the last line says what it can show besides. Without one (standard
    input), or where it holds what a terminal hides, there is no such line.
    """
    width = max(width, _NARROWEST)
    style = Style.TITLE
    title = wrapped(
        (verdict(findings, "nothing odd"), *_seen(topology)), width, further="  ", between=" · "
    )
    lines = [Line(text=text, style=style) for text in title]
    lines += [Line(text=text) for text in wrapped(_unchecked(topology), width, further="  ")]
    for finding in findings[:_MOST_SHOWN]:
        head = (f"{finding.rule}:", *_words(finding.subject))
        below = _words(finding.because), _words(finding.remedy)
        lines += [Line(text=""), *finding_lines(finding.severity, head, *below, width=width)]
    left = more_lines(len(findings) - _MOST_SHOWN)
    lines += [Line(text=""), *left] if left else []
    shown = command if command and visible(command, _LONGEST) == command else ""
    if shown and findings:
        lines += [Line(text=""), *next_lines([f"{shown} --json"])]
    return lines


def _unchecked(topology: ClusterTopology) -> tuple[str, ...]:
    """What the verdict says nothing about."""
    what = not_checked(topology)
    if not what:
        return ()
    *first, last = what
    named = f"{', '.join(first)} and {last}" if first else last
    return tuple(f"not checked: {named}; {topology.source} does not tell them".split(" "))


def _seen(topology: ClusterTopology) -> tuple[str, ...]:
    """How much was looked at."""
    cables = sum(len(link.cables or ()) for link in topology.links)
    counts = (
        (len(topology.switches), "switch", "switches"),
        (cables, "cable between them", "cables between them"),
        (len(topology.nodes), "node with a name", "nodes with a name"),
        (len(topology.rails), "rail", "rails"),
        (len(topology.planes), "plane", "planes"),
    )
    return tuple(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def _words(text: str) -> tuple[str, ...]:
    return words_of(text, _LONGEST)
