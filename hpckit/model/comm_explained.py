"""All that is known about one communication variable of a job."""

from __future__ import annotations

from dataclasses import dataclass


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
class Explained:
    """`here` says what the job has of the variable, `words` what each source has for it."""

    name: str
    here: str
    words: tuple[ExplainedWord, ...] = ()
