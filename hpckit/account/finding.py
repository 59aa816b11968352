"""What is worth knowing of a job: fields, and the sentences that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from hpckit.core.findings import Finding, Severity
from hpckit.core.hostlist import fold_hosts
from hpckit.core.quantities import whole_sum
from hpckit.core.units import format_duration, format_indices
from hpckit.core.values import dataclass

_ROUNDED_OFF = 0.05
"""Percent of which a decimal shows nothing."""


class Unit(StrEnum):
    """What a figure is in; `frac` is a share of 0 to 1, `count` a number of things."""

    SECONDS = "s"
    FRAC = "frac"
    MHZ = "MHz"
    WATTS = "W"
    CELSIUS = "°C"
    COUNT = "count"


class Figure(Struct, frozen=True):
    """A figure of a sentence, as it was measured."""

    value: float
    unit: Unit

    def __str__(self) -> str:
        """The figure with its unit, as it is told."""
        if self.unit is Unit.SECONDS:
            return format_duration(self.value)
        if self.unit is Unit.FRAC:
            return _percent(self.value)
        number = f"{self.value:.0f}"
        return number if self.unit is Unit.COUNT else f"{number} {self.unit}"


def _percent(frac: float) -> str:
    """`9 %`; a small share that is not 0 does not read 0."""
    shown = frac * 100
    if 0 < shown < _ROUNDED_OFF:
        return "<0.1 %"
    return f"{shown:.0f} %" if shown == 0 or shown >= 1 else f"{shown:.1f} %"


def seconds(value_s: float) -> Figure:
    """A duration."""
    return Figure(value_s, Unit.SECONDS)


def share(frac: float) -> Figure:
    """A share of 0 to 1."""
    return Figure(frac, Unit.FRAC)


def count(number: float) -> Figure:
    """A number of things."""
    return Figure(number, Unit.COUNT)


class Clause(Struct, frozen=True, kw_only=True):
    """A part of a sentence: `words` around `figures`, of which there is one less.

    `rule` names the rule that finds the same by itself, and has its own remedy for it.
    """

    words: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    rule: str = ""

    def __post_init__(self) -> None:
        """Refuse figures that have no place among the words."""
        if len(self.words) != len(self.figures) + 1:
            raise ValueError(f"{len(self.words)} words cannot hold {len(self.figures)} figures")

    @property
    def kind(self) -> tuple[object, ...]:
        """What it has in common with clauses that differ in the values of figures alone."""
        return self.words, tuple(figure.unit for figure in self.figures), self.rule

    def told(self, figures: Iterable[object]) -> str:
        """The clause with these for its figures."""
        first, *rest = self.words
        return first + "".join(f"{one}{word}" for one, word in zip(figures, rest, strict=True))

    def __str__(self) -> str:
        """The clause in words."""
        return self.told(self.figures)


def said(template: str, *parts: Figure | str, rule: str = "") -> tuple[Clause]:
    """A clause by its words, in which each `{}` is the place of a figure or of a text."""
    first, *rest = template.split("{}")
    words, figures = [first], []
    for part, after in zip(parts, rest, strict=True):
        if isinstance(part, Figure):
            figures.append(part)
            words.append(after)
        else:
            words[-1] += part + after
    return (Clause(words=tuple(words), figures=tuple(figures), rule=rule),)


def report_sentence(clauses: Iterable[Clause | str]) -> str:
    """Clauses as one text."""
    return "; ".join(map(str, clauses))


class Subject(Struct, frozen=True, kw_only=True):
    """What a finding is about: a thing on nodes, nodes, or, without nodes, something of the job.

    `what` is such as `GPU0-3`, and `ranks` are those that had it. `restart` is the incarnation: a
    job may have a node again after a requeue.
    """

    what: str = ""
    nodes: tuple[str, ...] = ()
    restart: int = 0
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        """`rank 3, GPU3 on n013`, `n[012-013] (restart 1)`, `time limit`."""
        return self.told()

    def told(self, longest: int | None = None) -> str:
        """In words; of nodes or ranks whose list has more letters than `longest` the number."""
        ranks = f"{'rank' if len(self.ranks) == 1 else 'ranks'} {format_indices(self.ranks)}"
        ranks = _short(ranks if self.ranks else "", len(self.ranks), "ranks", longest)
        what = ", ".join(part for part in (ranks, self.what) if part)
        if not self.nodes:
            return what
        where = _short(fold_hosts(self.nodes), len(self.nodes), "nodes", longest)
        where += f" (restart {self.restart})" if self.restart else ""
        return f"{what} on {where}" if what else where

    def is_of(self, other: Subject) -> bool:
        """Whether it is the other's thing, or one of the nodes on which that is."""
        is_there = bool(self.nodes) and set(other.nodes) <= set(self.nodes)
        return is_there and self.restart == other.restart and self.what in ("", other.what)


def _short(names: str, number: int, noun: str, longest: int | None) -> str:
    is_long = number > 1 and longest is not None and len(names) > longest
    return f"{number:,} {noun}" if is_long else names


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFinding(Finding):
    """One thing worth knowing of a job: `because` is the evidence, `remedy` what to do.

    `subject` is such as `GPU3 on n013` or `time limit`. What `subject` and `because` say, `about`
    and `evidence` have as fields.
    """

    wasted_gpu_s: float | None = None
    wasted_j: float | None = None
    about: Subject = field(default_factory=Subject)
    evidence: tuple[Clause, ...] = ()


def finding(
    rule: str,
    severity: Severity,
    about: Subject,
    evidence: tuple[Clause, ...],
    remedy: str = "",
    *,
    wasted_gpu_s: float | None = None,
    wasted_j: float | None = None,
) -> ReportFinding:
    """A finding with the words for what it is about and for its evidence."""
    return ReportFinding(
        rule=rule,
        severity=severity,
        subject=str(about),
        because=report_sentence(evidence),
        remedy=remedy,
        wasted_gpu_s=wasted_gpu_s,
        wasted_j=wasted_j,
        about=about,
        evidence=evidence,
    )


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
    return tuple(map(_as_one, groups))


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
    for pair in zip(_figures(group.findings[0]), _figures(finding), strict=True):
        least, most = sorted(figure.value for figure in pair)
        if most > _MOST_APART * least and str(pair[0]) != str(pair[1]):
            return False
    return True


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
        because=report_sentence(
            alike[0].told(map(_range, zip(*(clause.figures for clause in alike), strict=True)))
            for alike in clauses
        ),
        wasted_gpu_s=whole_sum(one.wasted_gpu_s for one in alike),
        wasted_j=whole_sum(one.wasted_j for one in alike),
    )


def _range(figures: Sequence[Figure]) -> str:
    """`9–12 %`; a unit that both ends have is said once."""
    ends = (min, max)
    least, most = (str(end(figures, key=lambda one: one.value)) for end in ends)
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least}–{most}"
