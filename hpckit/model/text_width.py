"""How wide a text is on a terminal."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NARROW: Final = re.compile(r"[\x00-\u10ff\u2000-\u22ff\u2500-\u257f]*")
"""Up to Hangul, then punctuation, arrows and lines: none of Unicode's wide characters."""


def columns(text: str) -> int:
    """How many columns of a terminal a text takes; East Asian wide characters take two."""
    if _NARROW.fullmatch(text):
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
