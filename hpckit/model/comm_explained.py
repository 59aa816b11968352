"""All that is known about one communication variable of a job."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.core.findings import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWord:
    """What one source has for the variable: a rule, a site's list, an overlay.

    `where` is when it applies, `missing` which of that is not so here, empty where it applies.
    """

    name: str
    value: str
    where: str
    because: str
    source: str
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFault:
    """What a rule of the lint has against settings of the variable; fields as in LintFinding."""

    rule: str
    severity: Severity
    because: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """`here` says what the job has of the variable, `words` what each source has for it.

    `read` says which releases of NCCL read it and what they take by default, None where that is
    not known; `faults` are what may be wrong with a setting of it.
    """

    name: str
    here: str
    read: str | None = None
    words: tuple[ExplainedWord, ...] = ()
    faults: tuple[ExplainedFault, ...] = ()
