"""What `hpckit inspect` shows a person, of one node or of many."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from hpckit.cli import output
from hpckit.core.findings import Severity
from hpckit.report.line import Line, Style

if TYPE_CHECKING:
    from hpckit.app.inspect_nodes import NodesSeen
    from hpckit.core.findings import Finding
    from hpckit.model.hardware import NodeTopology

_STYLES: Final[dict[Style, dict[str, Any]]] = {
    Style.TITLE: {"bold": True},
    Style.FAINT: {"dim": True},
    Style.WARNING: {"fg": "yellow"},
    Style.ERROR: {"fg": "red"},
}
_WIDEST: Final = 120


def say_node(
    topology: NodeTopology,
    findings: Sequence[Finding],
    file: str | None = None,
    machine: int | None = None,
) -> None:
    """Print one node, this one or that of a file; standard input cannot be asked once more."""
    import shlex

    from hpckit.report.node_text import COMMAND, node_lines

    words = [COMMAND]
    words += [] if file is None else [shlex.quote(file)]
    words += [] if machine is None else [f"--machine {machine}"]
    command = None if file == "-" else " ".join(words)
    say(node_lines(topology, findings, width=screen_width(), command=command))


def say_nodes(seen: NodesSeen) -> None:
    """Print the groups of nodes that are alike, what is odd, and who did not answer."""
    from hpckit.report.node_group_text import group_lines

    say(group_lines(seen.groups, seen.silent, width=screen_width()))


def fail_code(findings: Sequence[Finding], fail_on: str | None) -> int:
    """1 for a finding that is at least as severe as `fail_on`, else 0."""
    if fail_on is None:
        return 0
    least = Severity(fail_on).rank
    return int(any(one.severity.rank >= least for one in findings))


def screen_width() -> int:
    """How wide what is printed may be."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def say(lines: Iterable[Line]) -> None:
    """Print lines, each in its style."""
    for line in lines:
        style = _STYLES.get(line.style)
        output.result(click.style(line.text, **style) if style and line.text else line.text)
