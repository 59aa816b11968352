"""Findings that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from hpckit.model.node_finding import NodeFinding, Severity
from hpckit.model.node_words import names_shown, numbers_shown, visible

_WHOLE_NODE: Final = ("GPUs",)
_PLURALS: Final = {"has": "have", "is": "are", "runs": "run", "had": "had"}


class FindingGroup(Struct, frozen=True, kw_only=True):
    """Findings that differ in their subject alone.

    `because` is the evidence of the first, which may begin with its subject.
    """

    severity: Severity
    rule: str
    because: str
    remedy: str
    subjects: tuple[str, ...]


def group_findings(findings: Iterable[NodeFinding]) -> tuple[FindingGroup, ...]:
    """The gravest first, else in their order."""
    groups: dict[tuple[object, ...], list[NodeFinding]] = {}
    for one in findings:
        said = _said(one.because, one.subject)
        key = (one.severity, one.rule, said or one.because, said is None, one.remedy)
        groups.setdefault(key, []).append(one)
    found = (
        FindingGroup(
            severity=alike[0].severity,
            rule=alike[0].rule,
            because=alike[0].because,
            remedy=alike[0].remedy,
            subjects=tuple(one.subject for one in alike),
        )
        for alike in groups.values()
    )
    return tuple(sorted(found, key=lambda one: -one.severity.rank))


def sentence(group: FindingGroup) -> str:
    """What was found, beginning with what it is about, which most evidence does by itself.

    Evidence about all GPUs of a node that names them needs no beginning.
    """
    shown = subjects_shown(group.subjects)
    said = _said(group.because, group.subjects[0])
    if said is not None and len(set(group.subjects)) > 1:
        verb, _, rest = said.partition(" ")
        return f"{shown} {_PLURALS[verb]} {rest}" if verb in _PLURALS else f"{shown}: {said}"
    is_of_node = group.subjects == _WHOLE_NODE and "GPU" in group.because
    is_named = is_of_node or group.because.startswith(f"{shown} ")
    return group.because if is_named else f"{shown}: {group.because}"


def _said(because: str, subject: str) -> str | None:
    """What evidence says of its subject, None where it does not begin with that."""
    return because.removeprefix(f"{subject} ") if because.startswith(f"{subject} ") else None


def subjects_shown(subjects: Iterable[str]) -> str:
    """What findings are about: `GPU0-3`, `mlx5_2 … mlx5_9`."""
    names = tuple(dict.fromkeys(subjects))
    if all(name.startswith("GPU") for name in names):
        return visible(numbers_shown(names), 60)
    return names_shown(names)
