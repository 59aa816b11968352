"""What a paste of `nvidia-smi topo -m` is without what terminals and web pages put around it."""

from __future__ import annotations

import re
from typing import Final

# Colours and underlines (ECMA-48), also where the paste has lost their ESC or spells it ^[.
_ESCAPE: Final = re.compile(r"(?:\x1b|\^\[|\u241b)\[[0-9;?]{0,16}[A-Za-z]|\[(?:[0147]|0?1|24)?m")
# Quotes, tables and fences of Markdown, and what no terminal shows.
_MARKUP: Final = re.compile(r"[>|`\u2502]|[^\S\n ]|[\x00-\x08\x0e-\x1f\x7f]")
_RULER: Final = re.compile(r"[\s:=+-]*")


def plain_lines(text: str) -> list[str]:
    """The lines with spaces alone for whitespace, as wide as tabs make them; comments are blank."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "[" in text:
        text = _ESCAPE.sub("", text)
    lines = _MARKUP.sub(" ", text.expandtabs(8)).split("\n")
    return ["" if line.startswith("#") else line for line in lines]


def is_blank(line: str) -> bool:
    """Whether a line has nothing but spaces, or is a ruler of a table."""
    return _RULER.fullmatch(line) is not None
