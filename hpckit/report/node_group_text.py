"""Many nodes: which are alike, what is odd about the others, and who did not answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Finding, FindingGroup, group_findings
from hpckit.model.finding_group import sentence, subjects_shown
from hpckit.model.hostlist import fold_hosts
from hpckit.model.node_answer import AlikeNodes
from hpckit.model.node_title import node_title
from hpckit.model.node_words import visible
from hpckit.report.finding_lines import grouped_lines, next_lines
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.node_text import COMMAND

_MOST_HOSTS: Final = 60
_LONGEST: Final = 256


def group_lines(
    groups: Sequence[AlikeNodes], silent: Sequence[Finding] = (), *, width: int = 80
) -> list[Line]:
    """A sentence a group, the largest first; how the others differ, and what is odd, below each.

    `silent` are the findings of nodes that gave no answer. The last line is the command that shows
    the first node that differs.
    """
    parts = [_group(group, width) for group in groups]
    parts += [grouped_lines(silent, width, "")] if silent else []
    odd = next((group.nodes[0] for group in groups if group.differs), None)
    if odd is not None and visible(odd, _LONGEST) == odd:
        parts.append(next_lines([f"srun -w {shlex.quote(odd)} {COMMAND}"]))
    lines: list[Line] = []
    for part in parts:
        lines += [Line(text=""), *part] if lines else part
    return lines


def _group(group: AlikeNodes, width: int) -> list[Line]:
    style = Style.WARNING if group.differs else Style.TITLE
    lines = [Line(text=text, style=style) for text in _head(group, width)]
    for difference in group.differs:
        if not any(_says(one, difference) for one in group_findings(group.findings)):
            texts = wrapped(tuple(difference.split(" ")), width, first="  ", further="    ")
            lines += [Line(text=text, style=Style.WARNING) for text in texts]
    return [*lines, *grouped_lines(group.findings, width, "")]


def _says(finding: FindingGroup, difference: str) -> bool:
    """Whether a finding is of the subject of `GPU5: active NVLinks 17, not 18`, and says the 17.

    Another finding about GPU5 does not, and then both are worth a line.
    """
    subject, _, rest = difference.partition(": ")
    value = rest.partition(", not ")[0].rpartition(" ")[2]
    is_same = subject in {*finding.subjects, subjects_shown(finding.subjects)}
    words = re.split(r"[\s,;:()]+", sentence(finding))
    return is_same and value != "" and not {value, f"x{value}"}.isdisjoint(words)


def _head(group: AlikeNodes, width: int) -> list[str]:
    hosts = visible(fold_hosts(group.nodes), _MOST_HOSTS)
    count = len(group.nodes)
    if group.differs:
        return wrapped((hosts, f"{count} nodes differ" if count > 1 else "1 node differs"), width)
    about = node_title(group.topology)[1:]
    words = f"{count} nodes alike:" if count > 1 else "1 node:"
    parts = (f"{hosts} {words}", *(f"{part} ·" for part in about[:-1]), *about[-1:])
    return wrapped(parts, width, further="  ")
