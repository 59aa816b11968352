"""What is odd about a node: the rule that found it, how much it matters, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How a finding bears on a job that runs here."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Its place among them, the gravest highest."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """One thing that is odd: `because` is the evidence, `remedy` what to do about it.

    `rule` is the name of the rule in docs/reference/findings.md, `subject` what it is about, such
    as `GPU5` or `mlx5_3`.
    """

    rule: str
    severity: Severity
    subject: str
    because: str
    remedy: str
