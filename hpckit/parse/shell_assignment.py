"""Variables that the words of a shell's command set: `A=b`.

Source: bash(1), SIMPLE COMMANDS and Parameter Expansion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.parse.launch_words import Pair
from hpckit.parse.shell_words import Word

_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
FALLBACK: Final = re.compile(
    r"\"?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*):?[-=](?P<value>[^$`\\{}]*)\}\"?", re.ASCII
)


def plain_assignment(word: Word) -> Pair | None:
    """The variable that an argument such as `A=b` or `"A=b"` sets, and its value; else None.

    `${A:-b}` is `b`: what A is where nobody else has set it.
    """
    match = _ASSIGNED.match(word.text)
    if match is None:
        return None
    if match[2]:
        return Pair(match[1], None, word.line, is_longer=True)
    value = word.text[match.end() :]
    if word.is_plain:
        return Pair(match[1], value, word.line)
    fallback = FALLBACK.fullmatch(value)
    if fallback is None or fallback["name"] != match[1]:
        return Pair(match[1], None, word.line)
    return Pair(match[1], fallback["value"].strip("\"'"), word.line)


def leading_pairs(
    words: Sequence[Word], *, may_be_quoted: bool
) -> tuple[list[Pair], Sequence[Word]]:
    """The variables before a command, and the command; to the shell `"A=b"` is a command."""
    pairs: list[Pair] = []
    for at, word in enumerate(words):
        is_one = may_be_quoted or _ASSIGNED.match(word.raw)
        pair = plain_assignment(word) if is_one else None
        if pair is None:
            return pairs, words[at:]
        pairs.append(pair)
    return pairs, ()
