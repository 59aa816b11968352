"""Findings of one rule that are alike on several nodes, as one: `GPU0-7 on c[1-4]`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpckit.model.account import JobReport
from hpckit.model.hostlist import fold_hosts
from hpckit.model.report_finding import ReportFinding

_FIGURE: Final = re.compile(r"(?<![\w.:,])\d+(?:-\d\d(?::\d\d){2}|(?:[.:,]\d+)*)", re.ASCII)
_MOST_APART: Final = 2.0
"""Of figures that are further apart each says something else."""


@dataclass(slots=True)
class _Group:
    """Findings that are alike, by their node."""

    first: ReportFinding
    by_node: dict[str, ReportFinding]


def nodes_of(report: JobReport) -> frozenset[str]:
    """The nodes of a job by which its findings may be grouped."""
    return frozenset([*(one.node for one in report.nodes), *(one.node for one in report.gpus)])


def grouped(findings: Iterable[ReportFinding], nodes: Collection[str]) -> tuple[ReportFinding, ...]:
    """The findings, those that differ in their node and little in their figures as one.

    A group stands where its first stands; its cost is the sum of theirs, its figures are from the
    least to the most. `nodes` are the job's.
    """
    groups: list[_Group] = []
    by_kind: dict[tuple[str, ...], list[_Group]] = {}
    for finding in findings:
        node = _node(finding.subject, nodes)
        if node is None:
            groups.append(_Group(first=finding, by_node={}))
            continue
        alike = by_kind.setdefault(_kind(finding, node), [])
        group = next((one for one in alike if _may_join(one, finding, node)), None)
        if group is None:
            group = _Group(first=finding, by_node={})
            groups.append(group)
            alike.append(group)
        group.by_node[node] = finding
    return tuple(_as_one(group) for group in groups)


def _node(subject: str, nodes: Collection[str]) -> str | None:
    """The node with whose name a subject ends."""
    last = subject.rpartition(" ")[2]
    return last if last in nodes else None


def _kind(finding: ReportFinding, node: str) -> tuple[str, ...]:
    """What findings of a group have in common."""
    return (
        finding.rule,
        finding.severity,
        finding.subject.removesuffix(node),
        finding.remedy,
        _FIGURE.sub("#", finding.because),
    )


def _may_join(group: _Group, finding: ReportFinding, node: str) -> bool:
    if node in group.by_node:
        return False
    because = group.first.because, finding.because
    pairs = zip(*(_FIGURE.findall(one) for one in because), strict=True)
    values = (sorted(map(_value, pair)) for pair in pairs)
    return all(most <= _MOST_APART * least for least, most in values)


def _as_one(group: _Group) -> ReportFinding:
    first, alike = group.first, tuple(group.by_node.values())
    if len(alike) <= 1:
        return first
    figures = zip(*(_FIGURE.findall(one.because) for one in alike), strict=True)
    shown = iter([_range(texts) for texts in figures])
    return replace(
        first,
        subject=first.subject.removesuffix(next(iter(group.by_node))) + fold_hosts(group.by_node),
        because=_FIGURE.sub(lambda _: next(shown), first.because),
        wasted_gpu_s=_sum([one.wasted_gpu_s for one in alike]),
        wasted_j=_sum([one.wasted_j for one in alike]),
    )


def _range(texts: Sequence[str]) -> str:
    least, most = min(texts, key=_value), max(texts, key=_value)
    return least if least == most else f"{least}–{most}"


def _value(figure: str) -> float:
    """A number that orders figures, times among them: 5:30 is 330."""
    value = 0.0
    for part in figure.replace(",", "").replace("-", ":").split(":"):
        value = 60 * value + float(part)
    return value


def _sum(values: Sequence[float | None]) -> float | None:
    """None where a part is not known."""
    known = [one for one in values if one is not None]
    return math.fsum(known) if len(known) == len(values) else None
