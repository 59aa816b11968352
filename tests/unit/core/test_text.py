"""Text on a terminal: its width, and rows on a screen of so many lines."""

from __future__ import annotations

import unicodedata

from hpckit.core.text import Block, columns, fitted, row


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


LONG = Block(forms=[["a"], ["a", "a"], ["a", "a", "a"]], good=1, weight=1)
HEAVY = Block(forms=[["b"], ["b", "b"], ["b", "b", "b"]], good=1, weight=2)


def test_all_is_said_where_there_is_room() -> None:
    """With room each block has its longest form, in the order of the blocks."""
    assert fitted([LONG, HEAVY], 6) == ["a", "a", "a", "b", "b", "b"]


def test_the_heavier_block_grows_first() -> None:
    """A line that only one of two can have goes to the one that matters more."""
    assert fitted([LONG, HEAVY], 3) == ["a", "b", "b"]
    assert fitted([LONG, HEAVY], 5) == ["a", "a", "b", "b", "b"]


def test_every_block_has_its_good_form_before_one_has_more() -> None:
    """The lighter block is not starved by the longest form of the heavier one."""
    assert fitted([LONG, HEAVY], 4) == ["a", "a", "b", "b"]


def test_spare_forms_are_for_lines_that_nobody_else_wants() -> None:
    """What may take free lines takes them after a lighter block has all of its own."""
    greedy = Block(forms=[["c"], ["c"] * 2, ["c"] * 3], good=0, weight=9, spare=frozenset({2}))
    assert fitted([greedy, LONG], 5) == ["c", "c", "a", "a", "a"]
    assert fitted([greedy, LONG], 6) == ["c", "c", "c", "a", "a", "a"]


def test_a_row_is_cut_between_words() -> None:
    """What a row leaves out begins with a whole word."""
    parts = ["look", "at", "the", "logs", "(hpckit", "logs)", "and", "end", "the", "job"]
    for width in range(24, 60):
        cut = row("found", parts, width, most=1)[0]
        assert len(cut) <= width
        assert set(cut.removesuffix(" …").split()[1:]) <= set(parts)


def test_a_long_word_of_wide_characters_is_cut_by_columns() -> None:
    """A character of two columns counts twice."""
    (line,) = row("name", ["訓" * 60], 80, most=1)
    assert columns(line) <= 80


def test_a_beginning_after_a_colon_is_cut_too() -> None:
    """Where no more than a word or two of a reason is left, none is."""
    parts = ["energy that is known well", "· of the node not known: no readable" + " meter" * 9]
    (line,) = row("energy", parts, 66, most=1)
    assert line == " energy   energy that is known well · of the node not known …"
