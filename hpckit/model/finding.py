"""What a check found: how much it matters, what it is about, and what would mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding bears on the user's work."""

    OK = "ok"
    NOTE = "note"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at, what was seen, and what would mend it.

    `source` is the document that holds the rule behind it.
    """

    level: Level
    subject: str
    text: str
    hint: str | None = None
    source: str | None = None
