"""Text as people paste it from a terminal or a mail."""

from __future__ import annotations

import re
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_QUOTE: Final = re.compile(r"(?:[ \t]{0,3}>)+ ?")


def without_colours(text: str) -> str:
    """A text without the terminal's escapes for colours."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def pasted_lines(text: str) -> list[str]:
    """The lines without colours, carriage returns and marks of quotation, tabs as spaces."""
    found = []
    for line in without_colours(text).split("\n"):
        quote = _QUOTE.match(line)
        found.append(line[quote.end() if quote else 0 :].rstrip("\r").expandtabs(8))
    return found
