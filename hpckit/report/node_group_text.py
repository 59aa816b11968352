"""Many nodes: which are alike, what is odd about the others, and who did not answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpckit.model.hostlist import fold_hosts
from hpckit.model.node_answer import AlikeNodes
from hpckit.model.node_finding import NodeFinding
from hpckit.model.node_title import node_title
from hpckit.model.node_words import visible
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.node_notes import finding_lines

_MOST_HOSTS = 60


def group_lines(
    groups: Sequence[AlikeNodes], silent: Sequence[NodeFinding] = (), *, width: int = 80
) -> list[Line]:
    """A sentence a group, the largest first; how the others differ, and what is odd, below each.

    `silent` are the findings of nodes that gave no answer.
    """
    lines: list[Line] = []
    for group in groups:
        style = Style.WARNING if group.differs else Style.TITLE
        lines += [Line(text=text, style=style) for text in _head(group, width)]
        for difference in group.differs:
            texts = wrapped(tuple(difference.split(" ")), width, first="  ", further="    ")
            lines += [Line(text=text, style=Style.WARNING) for text in texts]
        lines += _findings(group.findings, width)
    return [*lines, *finding_lines(silent, width)] if silent else lines


def _findings(findings: Sequence[NodeFinding], width: int) -> Iterator[Line]:
    return iter(finding_lines(findings, width)) if findings else iter(())


def _head(group: AlikeNodes, width: int) -> list[str]:
    hosts = visible(fold_hosts(group.nodes), _MOST_HOSTS)
    count = len(group.nodes)
    if group.differs:
        return wrapped((hosts, f"{count} nodes differ" if count > 1 else "1 node differs"), width)
    about = node_title(group.topology)[1:]
    words = f"{count} nodes alike:" if count > 1 else "1 node:"
    parts = (f"{hosts} {words}", *(f"{part} ·" for part in about[:-1]), *about[-1:])
    return wrapped(parts, width, further="  ")
