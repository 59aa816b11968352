"""The one frame of all rules that find something: a row of data, what it saw, what is told of it.

Each capability has its own rows, and the facts that their `when` sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hpckit.core.values import dataclass

Facts = TypeVar("Facts")
When = TypeVar("When")


class Severity(StrEnum):
    """How a finding bears on a job."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Its place among them, the gravest highest."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every rule has: `because` is its reason, `source` the document that it stands on.

    `date` is when that was read or published (`2026-06`), empty where it does not matter.
    """

    name: str
    because: str
    source: str
    date: str = ""

    @property
    def dated_source(self) -> str:
        """The source with its date in brackets."""
        return f"{self.source} ({self.date})" if self.date else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Row, Generic[When]):
    """One thing that may be odd: `when` it is so, and what to do about it.

    In `remedy`, `{subject}` stands for what a finding is about, `{index}` for the number at its
    end.
    """

    severity: Severity
    when: When
    remedy: str

    def remedy_for(self, subject: str) -> str:
        """Return what to do about a subject, such as `GPU5`."""
        index = re.search(r"[0-9]+$", subject)
        return self.remedy.format(subject=subject, index=index[0] if index else "INDEX")


class Evidence(NamedTuple):
    """What a rule is about, such as `GPU5`, and what was seen there.

    `severity` and `remedy` stand in for those of the rule where they are not None; `line_no` is
    the first line of a file that shows it.
    """

    subject: str
    because: str
    remedy: str | None = None
    severity: Severity | None = None
    line_no: int | None = None


Check = Callable[[Facts], Iterable[Evidence]]
"""The `when` of rules about facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is odd: `because` is the evidence, `remedy` what to do about it.

    `rule` is the name of the rule in docs/reference, `subject` what it is about, such as `GPU5`,
    `mlx5_3` or `leaf03-spine04`.
    """

    rule: str
    severity: Severity
    subject: str
    because: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedFinding(Finding):
    """A finding with the document that its rule stands on, and the line of the file it is about."""

    source: str
    line_no: int | None = None


FINDING_KEYS: Final = ("rule", "severity", "subject", "because", "remedy")


def judge(rules: Iterable[Rule[Check[Facts]]], facts: Facts) -> list[SourcedFinding]:
    """Return what rules find in facts, the gravest first, then in the order of the rules."""
    seen = ((rule, evidence) for rule in rules for evidence in rule.when(facts))
    return gravest_first(
        SourcedFinding(
            rule=rule.name,
            severity=evidence.severity or rule.severity,
            subject=evidence.subject,
            because=evidence.because,
            remedy=evidence.remedy or rule.remedy_for(evidence.subject),
            source=f"{rule.source}; {rule.date}" if rule.date else rule.source,
            line_no=evidence.line_no,
        )
        for rule, evidence in seen
    )


Told = TypeVar("Told", bound=Finding)


def gravest_first(told: Iterable[Told]) -> list[Told]:
    """Return findings by severity, those of one severity in their order."""
    return sorted(told, key=lambda finding: -finding.severity.rank)


def finding_trees(
    told: Iterable[Finding], keys: Sequence[str] = FINDING_KEYS, **renamed: str
) -> list[dict[str, Any]]:
    """Return findings for JSON: the fields `keys`, and those that have another name there."""
    fields = {**{key: key for key in keys}, **renamed}
    return [
        {key: getattr(finding, field) or None for key, field in fields.items()} for finding in told
    ]


class FindingGroup(NamedTuple):
    """Findings that differ in their subject alone.

    `because` is the evidence of the first, which may begin with its subject.
    """

    severity: Severity
    rule: str
    because: str
    remedy: str
    subjects: tuple[str, ...]


def group_findings(told: Iterable[Finding]) -> tuple[FindingGroup, ...]:
    """Return findings that are alike as one, the gravest first, else in their order."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in told:
        rest = without_subject(finding.because, finding.subject)
        key = (finding.severity, finding.rule, rest or finding.because, rest is None)
        groups.setdefault((*key, finding.remedy), []).append(finding)
    return tuple(
        FindingGroup(
            severity=alike[0].severity,
            rule=alike[0].rule,
            because=alike[0].because,
            remedy=alike[0].remedy,
            subjects=tuple(finding.subject for finding in alike),
        )
        for alike in sorted(groups.values(), key=lambda alike: -alike[0].severity.rank)
    )


def without_subject(because: str, subject: str) -> str | None:
    """Return what evidence says of its subject, None where it does not begin with that."""
    return because.removeprefix(f"{subject} ") if because.startswith(f"{subject} ") else None


class Level(StrEnum):
    """How what was looked at bears on the user's work."""

    OK = "ok"
    NOTE = "note"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing that was looked at, well or not: what was seen, and what would fix it.

    `source` is the document that holds the rule behind it.
    """

    level: Level
    subject: str
    text: str
    remedy: str | None = None
    source: str | None = None
