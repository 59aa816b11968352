"""Variables that the words of a shell's command set: `A=b`.

Source: bash(1), SIMPLE COMMANDS and Parameter Expansion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.model.comm_lint import Assignment, LostValue, SettingForm
from hpckit.parse.launch_words import Pair
from hpckit.parse.shell_words import Word

_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
FALLBACK: Final = re.compile(
    r"\"?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*):?[-=](?P<value>[^$`\\{}]*)\}\"?", re.ASCII
)
_FOR_CONTAINER: Final = re.compile(r"(?:APPTAINER|SINGULARITY)ENV_(?=.)")


@dataclass(slots=True)
class OpenAssignment:
    """An assignment whose end is not known yet; `step` is how many commands came before it."""

    name: str
    value: str | None
    line: int
    form: SettingForm
    step: int
    until_line: int | None = None
    is_gone: bool = False
    instead_of: LostValue | None = None

    @property
    def assignment(self) -> Assignment:
        """It as others see it: what is exported for a container is that container's own."""
        inside = _FOR_CONTAINER.match(self.name)
        is_option = inside is not None and self.form is SettingForm.EXPORT
        return Assignment(
            name=self.name[inside.end() :] if inside else self.name,
            value=self.value,
            line=self.line,
            form=SettingForm.OPTION if is_option else self.form,
            until_line=self.until_line,
            instead_of=self.instead_of,
        )

    def lost_to(self, value: str | None) -> LostValue | None:
        """It where another value took its place before any command saw it."""
        if not self.is_gone or self.value is None or value in (None, self.value):
            return None
        return LostValue(value=self.value, line=self.line)


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
    return Pair(match[1], fallback["value"].strip("\"'"), word.line, is_fallback=True)


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
