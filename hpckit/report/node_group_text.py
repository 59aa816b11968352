"""Many nodes: which are alike, and what is different about the odd ones."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.model.node_group import NodeGroup
from hpckit.model.node_title import node_title
from hpckit.model.node_words import bracketed
from hpckit.report.line import Line, Style, wrapped


def group_lines(groups: Sequence[NodeGroup], *, width: int = 80) -> list[Line]:
    """A sentence a group, the largest as given; each way in which an odd one differs is a line."""
    lines: list[Line] = []
    for group in groups:
        style = Style.WARNING if group.differs else Style.TITLE
        lines += [Line(text=text, style=style) for text in _head(group, width)]
        for difference in group.differs:
            texts = wrapped(tuple(difference.split(" ")), width, first="  ", further="    ")
            lines += [Line(text=text, style=Style.WARNING) for text in texts]
    return lines


def _head(group: NodeGroup, width: int) -> list[str]:
    hosts = bracketed(group.hosts)
    count = len(group.hosts)
    if group.differs:
        return wrapped((hosts, f"{count} nodes differ" if count > 1 else "1 node differs"), width)
    about = node_title(group.topology)[1:]
    words = f"{count} nodes alike:" if count > 1 else "1 node:"
    parts = (f"{hosts} {words}", *(f"{part} ·" for part in about[:-1]), *about[-1:])
    return wrapped(parts, width, further="  ")
