"""Findings of one rule that are alike on several nodes, as one: `GPU0-7 on c[1-4]`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, structs

from hpckit.model.report_finding import Clause, Figure, ReportFinding, sentence

_MOST_APART: Final = 2.0
"""Of figures that are further apart each says something else."""


class _Group(Struct):
    """Findings that are alike, and the nodes that they are about."""

    findings: list[ReportFinding]
    nodes: set[str]


def grouped(findings: Iterable[ReportFinding]) -> tuple[ReportFinding, ...]:
    """The findings, those that differ in nodes and ranks, and little in figures, as one.

    A group stands where its first stands; its cost is the sum of theirs, its figures are from the
    least to the most.
    """
    groups: list[_Group] = []
    by_kind: dict[tuple[object, ...], list[_Group]] = {}
    for finding in findings:
        is_of_nodes = finding.about.nodes and finding.evidence
        alike = by_kind.setdefault(_kind(finding), []) if is_of_nodes else []
        group = next((one for one in alike if _may_join(one, finding)), None)
        if group is None:
            group = _Group(findings=[], nodes=set())
            groups.append(group)
            alike.append(group)
        group.findings.append(finding)
        group.nodes.update(finding.about.nodes)
    return tuple(_as_one(group) for group in groups)


def _kind(finding: ReportFinding) -> tuple[object, ...]:
    """What findings of a group have in common; ranks have other numbers on each node."""
    return (
        finding.rule,
        finding.severity,
        structs.replace(finding.about, nodes=(), ranks=()),
        bool(finding.about.ranks),
        finding.remedy,
        tuple(clause.kind for clause in finding.evidence),
    )


def _figures(finding: ReportFinding) -> list[Figure]:
    return [figure for clause in finding.evidence for figure in clause.figures]


def _may_join(group: _Group, finding: ReportFinding) -> bool:
    """Whether it is of other nodes, and its figures are near those of the first."""
    if not group.nodes.isdisjoint(finding.about.nodes):
        return False
    pairs = zip(_figures(group.findings[0]), _figures(finding), strict=True)
    return all(_is_near(*pair) for pair in pairs)


def _is_near(one: Figure, other: Figure) -> bool:
    least, most = sorted((one.value, other.value))
    return most <= _MOST_APART * least or str(one) == str(other)


def _as_one(group: _Group) -> ReportFinding:
    first, alike = group.findings[0], group.findings
    if len(alike) == 1:
        return first
    ranks = sorted({rank for one in alike for rank in one.about.ranks})
    about = structs.replace(first.about, nodes=tuple(sorted(group.nodes)), ranks=tuple(ranks))
    clauses = zip(*(one.evidence for one in alike), strict=True)
    return replace(
        first,
        about=about,
        subject=str(about),
        because=sentence(map(_with_ranges, clauses)),
        wasted_gpu_s=_sum([one.wasted_gpu_s for one in alike]),
        wasted_j=_sum([one.wasted_j for one in alike]),
    )


def _with_ranges(clauses: Sequence[Clause]) -> str:
    """Clauses of one kind in words."""
    return clauses[0].told(map(_range, zip(*(one.figures for one in clauses), strict=True)))


def _range(figures: Sequence[Figure]) -> str:
    """`9–12 %`; a unit that both ends have is said once."""
    ends = (min, max)
    least, most = (str(end(figures, key=lambda one: one.value)) for end in ends)
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least}–{most}"


def _sum(values: Sequence[float | None]) -> float | None:
    """None where a part is not known."""
    known = [one for one in values if one is not None]
    return math.fsum(known) if len(known) == len(values) else None
