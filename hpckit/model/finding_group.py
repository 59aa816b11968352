"""Findings that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hpckit.model.node_finding import NodeFinding, Severity
from hpckit.model.node_words import names_shown, numbers_shown, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """Findings that differ in their subject alone."""

    severity: Severity
    rule: str
    because: str
    remedy: str
    subjects: tuple[str, ...]


def group_findings(findings: Iterable[NodeFinding]) -> tuple[FindingGroup, ...]:
    """The gravest first, else in their order."""
    groups: dict[tuple[Severity, str, str, str], list[str]] = {}
    for one in findings:
        key = (one.severity, one.rule, one.because, one.remedy)
        groups.setdefault(key, []).append(one.subject)
    found = (
        FindingGroup(
            severity=severity, rule=rule, because=because, remedy=remedy, subjects=tuple(subjects)
        )
        for (severity, rule, because, remedy), subjects in groups.items()
    )
    gravest = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    return tuple(sorted(found, key=lambda one: gravest.index(one.severity)))


def sentence(group: FindingGroup) -> str:
    """What was found, beginning with what it is about, which most evidence does by itself."""
    subjects = subjects_shown(group.subjects)
    is_named = group.because.startswith(subjects)
    return group.because if is_named else f"{subjects}: {group.because}"


def subjects_shown(subjects: Iterable[str]) -> str:
    """What findings are about: `GPU0-3`, `mlx5_2 … mlx5_9`."""
    names = tuple(dict.fromkeys(subjects))
    if all(name.startswith("GPU") for name in names):
        return visible(numbers_shown(names), 60)
    return names_shown(names)
