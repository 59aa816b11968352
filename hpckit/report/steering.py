"""Texts of a job in machine formats: a terminal that they are shown on is not steered by them."""

from __future__ import annotations

import re
from typing import Final

_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""The control characters C0 and C1, without tabs and line ends, for which formats have rules."""


def without_steering(text: str) -> str:
    """The text with control characters as JSON would write them."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
