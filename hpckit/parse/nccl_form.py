"""What a known form of NCCL's lines is, and how a line is held against a table of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hpckit.parse.nccl_line import NcclLine

Facts = Iterable[Hashable]
Build = Callable[[re.Match[str], NcclLine], Facts]

NUMBER: Final = r"-?[0-9]{1,9}"
"""An ordinal or a count in a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a line: where it is tried, how it reads, and what facts it gives.

    `starts` are beginnings of lines, "" for a form whose beginning varies. The pattern is held
    against the whole line.
    """

    starts: tuple[str, ...]
    pattern: re.Pattern[str]
    build: Build


def form(starts: str | tuple[str, ...], pattern: str, build: Build) -> Form:
    """A form whose pattern reads ASCII digits only."""
    each = (starts,) if isinstance(starts, str) else starts
    return Form(starts=each, pattern=re.compile(pattern, re.ASCII), build=build)


def nothing(_: re.Match[str], __: NcclLine) -> Facts:
    """No fact: the form is known, and says nothing of why a run is slow."""
    return ()


def first_word(text: str) -> str:
    """What forms are looked up by: the letters and digits at the beginning."""
    match = _WORD.match(text)
    return match[0] if match else ""


_WORD: Final = re.compile(r"[A-Za-z0-9_]{1,40}", re.ASCII)


def by_first_word(forms: Iterable[Form]) -> dict[str, tuple[Form, ...]]:
    """Forms by the first word of each of their beginnings."""
    found: dict[str, list[Form]] = {}
    for one in forms:
        for word in {first_word(start): None for start in one.starts}:
            found.setdefault(word, []).append(one)
    return {word: tuple(each) for word, each in found.items()}


def facts_of(line: NcclLine, forms: Mapping[str, tuple[Form, ...]]) -> Facts | None:
    """The facts of the first form that a line has, None where it has none of them."""
    for one in _candidates(line.text, forms):
        match = one.pattern.fullmatch(line.text)
        if match is not None:
            return one.build(match, line)
    return None


def begins_as_form(text: str, forms: Mapping[str, tuple[Form, ...]]) -> bool:
    """Return whether a line begins as one of the forms that have a beginning."""
    return any(
        text.startswith(form.starts) and "" not in form.starts
        for form in forms.get(first_word(text), ())
    )


def _candidates(text: str, forms: Mapping[str, tuple[Form, ...]]) -> Iterator[Form]:
    word = first_word(text)
    for one in forms.get(word, ()):
        if text.startswith(one.starts):
            yield one
    if word:
        yield from forms.get("", ())
