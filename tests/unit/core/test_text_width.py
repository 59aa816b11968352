"""The width of text on a terminal."""

from __future__ import annotations

import unicodedata

from hpckit.core.text import columns


def test_wide_characters_take_two_columns() -> None:
    """East Asian characters are counted as a terminal shows them."""
    assert (columns("ab"), columns("漢b")) == (2, 3)


def test_each_character_is_as_wide_as_unicode_says() -> None:
    """Also those that are counted at once: only what Unicode calls wide or full takes two."""
    odd = [
        char
        for char in map(chr, range(0x20000))
        if unicodedata.category(char) != "Cn"  # what has no meaning is called full width
        and columns(char) != (2 if unicodedata.east_asian_width(char) in "WF" else 1)
    ]
    assert odd == []
