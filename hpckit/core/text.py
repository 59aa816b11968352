"""The parts of a node in the words that people read, the same in text, in pictures and in tables.

Sources: the PCI Express Base Specification (rates and encodings); units of NIC rates are those of
their makers (Gb/s), of memory those of Linux (GiB).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Final

from hpckit.core.hostlist import natural_order, numbered
from hpckit.core.late import regex
from hpckit.core.units import format_indices, runs
from hpckit.core.values import dataclass


def columns(text: str) -> int:
    """How many columns of a terminal a text takes; East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


_LAST_BYTE: Final = 0xFF
_PAIR: Final = 2
_LONG: Final = 400
_HIDING: Final = frozenset({"R", "AL", "RLE", "RLO", "RLI", "AN"})


def visible(text: str, most: int = 40) -> str:
    """Text in which nothing hides or turns its neighbours round, of at most `most` characters.

    Control characters, those written from right to left and combining ones become escapes.
    """
    is_plain = text.isascii() and text.isprintable()
    shown = text if is_plain else "".join(map(_seen, text[: most + 1]))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


@lru_cache(maxsize=1024)
def _seen(char: str) -> str:
    is_plain = (
        char.isprintable()
        and unicodedata.bidirectional(char) not in _HIDING
        and not unicodedata.category(char).startswith("M")
    )
    if is_plain:
        return char
    return f"\\x{ord(char):02x}" if ord(char) <= _LAST_BYTE else f"\\u{ord(char):04x}"


def figure(value: float, digits: int = 0) -> str:
    """A number with at most `digits` after the point; one that no float holds is `∞`."""
    try:
        text = f"{float(value):.{digits}f}"
    except OverflowError:
        return "∞"
    return text.rstrip("0").rstrip(".") if "." in text else text


def names_shown(names: Sequence[str], most: int = 3) -> str:
    """Names on a line: runs as `mlx5_0 … mlx5_7`, and more than `most` parts as first … last."""
    parts: list[str] = []
    for (stem, width, rest), numbers in numbered(names).items():
        for first, last in runs(numbers):
            ends = [visible(f"{stem}{at:0{width}d}{rest}", 20) for at in (first, last)]
            parts += [" … ".join(ends)] if last - first >= _PAIR else ends[: last - first + 1]
        parts += [] if numbers else [visible(stem, 20)]
    if len(parts) <= most:
        return " ".join(parts)
    ordered = sorted(names, key=natural_order)
    return f"{visible(ordered[0], 20)} … {visible(ordered[-1], 20)}"


def first_of(sentences: Sequence[str], most: int, more: str) -> list[str]:
    """Return the first `most` sentences, and how many `more` there are: `and 3 more GPUs`."""
    rest = len(sentences) - most
    return [*sentences[:most], f"and {rest} {more}"] if rest > 0 else list(sentences)


def dotted(parts: Iterable[str]) -> list[str]:
    """Return parts of which each but the first is led by the dot that parts them."""
    return [part if not place else f"· {part}" for place, part in enumerate(parts)]


def names_within(names: Sequence[str], room: int) -> str:
    """Names in at most `room` columns: fewer of them, then the first alone, then its beginning."""
    first = min(names, key=natural_order, default="")
    further = f" + {len(names) - 1}" if len(names) > 1 else ""
    for text in chain((names_shown(names, most) for most in (3, 1)), (first + further,)):
        if columns(visible(text, _LONG)) <= room:
            return visible(text, _LONG)
    left = visible(first, _LONG)
    while left and columns(f"{left}…{further}") > room:
        left = left[:-1]
    return f"{left}…{further}"


def numbers_shown(names: Iterable[str]) -> str:
    """Names with their numbers folded: `GPU0-3,7`."""
    return ",".join(
        visible(stem) + format_indices(numbers, width) + visible(rest)
        for (stem, width, rest), numbers in numbered(names).items()
    )


_ANSI: Final = regex(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_QUOTE: Final = regex(r"(?:[ \t]{0,3}>)+ ?")


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


class Style(StrEnum):
    """What a line is; a warning says so in its words too, never by colour alone."""

    PLAIN = "plain"
    TITLE = "title"
    FAINT = "faint"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end; nothing in it moves a cursor."""

    text: str
    style: Style = Style.PLAIN


_LEAST: Final = 8


def wrapped(
    parts: tuple[str, ...], width: int, *, first: str = "", further: str = "", between: str = " "
) -> list[str]:
    """Parts in as few lines as `width` columns allow, none broken that a line can hold."""
    lines: list[str] = []
    head, line = first, ""
    room = width - len(further)
    for part in (piece for whole in parts if whole for piece in _pieces(whole, room)):
        joined = line + between + part if line else part
        if line and columns(head + joined) > width:
            lines.append((head + line).rstrip())
            head, line = further, part
        else:
            line = joined
    return [*lines, (head + line).rstrip()] if line or first.strip() else lines


def wrapped_lines(
    words: str, width: int, *, first: str = "", further: str = "", style: Style = Style.PLAIN
) -> list[Line]:
    """Return the words of a text in as few lines of one style as `width` columns allow."""
    texts = wrapped(tuple(words.split()), width, first=first, further=further)
    return [Line(text=text, style=style) for text in texts]


def _pieces(part: str, room: int) -> list[str]:
    room = max(room, _LEAST)
    pieces = []
    while columns(part) > room:
        at = room
        while columns(part[:at]) > room:
            at -= 1
        at = _between_names(part[:at]) or at
        pieces.append(part[:at])
        part = part[at:]
    return [*pieces, part]


def _between_names(text: str) -> int:
    """Where a list of names can be broken last: behind a comma in no bracket, else behind any."""
    depth = found = 0
    for at, char in enumerate(text, start=1):
        depth += (char == "[") - (char == "]")
        if char == "," and depth <= 0:
            found = at
    return found or text.rfind(",") + 1


_LABEL: Final = 8
_CUT: Final = " …"
_LEAST_COLUMNS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the screen in several forms, the shortest first, each with more to say.

    `good` is the form that every block gets before any gets a longer one; `weight` says which
    block is served first, the heaviest. Forms in `spare` are for lines that are free when all
    blocks have what they can of the others.
    """

    forms: Sequence[Sequence[str]]
    good: int
    weight: int = 0
    spare: frozenset[int] = frozenset()


def fitted(blocks: Sequence[Block], room: int) -> list[str]:
    """The lines of all blocks in their order, each in the longest form that there is room for.

    Where the shortest forms are too long together, so is the result.
    """
    chosen = [0] * len(blocks)
    by_weight = sorted(range(len(blocks)), key=lambda at: -blocks[at].weight)
    for step in range(3):
        for at in by_weight:
            others = sum(
                len(blocks[other].forms[form]) for other, form in enumerate(chosen) if other != at
            )
            forms = blocks[at].forms
            fits = [
                form
                for form in _forms(blocks[at], step)
                if form >= chosen[at] and others + len(forms[form]) <= room
            ]
            chosen[at] = max(fits, default=chosen[at])
    return [line for at, form in enumerate(chosen) for line in blocks[at].forms[form]]


def _forms(block: Block, step: int) -> Iterator[int]:
    """What a block may have: first no more than is good, at last what only free lines are for."""
    last = len(block.forms) - 1
    most = min(block.good, last) if not step else last
    return (form for form in range(most + 1) if step > 1 or form not in block.spare)


def row(
    label: str, parts: Sequence[str], width: int, *, most: int, is_head: bool = False
) -> list[str]:
    """A labelled row of at most so many lines; a part stays whole where a line can hold it."""
    if not parts:
        return []
    first = " " if is_head else f" {label:<{_LABEL}} "
    further = "  " if is_head else " " * (_LABEL + 2)
    room = width - len(further)
    pieces = tuple(
        piece for part in parts for piece in ([part] if len(part) <= room else part.split(" "))
    )
    lines = wrapped(pieces, width, first=first, further=further)
    if len(lines) > most:
        lines = [*lines[: most - 1], _cut(lines[most - 1], width)]
    return lines


def labelled(label: str, lines: Sequence[str]) -> list[str]:
    """Lines of rows without labels, under this one."""
    return [f" {label:<{_LABEL}}{lines[0][_LABEL + 1 :]}", *lines[1:]] if lines else []


def _cut(line: str, width: int) -> str:
    """A line that ends in the sign that something is left out, cut between two words."""
    room = width - len(_CUT)
    while columns(line) > room:
        shorter = line.rpartition(" ")[0].rstrip()
        line = shorter if shorter.strip() else line[: min(room, len(line) - 1)]
    told, colon, begun = line.rpartition(": ")
    # Of what it would say there is no more than a beginning.
    if colon and len(begun) < _LEAST_COLUMNS:
        line = told
    return line.rstrip().removesuffix(" ·") + _CUT


_STEERING: Final = regex("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""The control characters C0 and C1, without tabs and line ends, for which formats have rules."""


def without_steering(text: str) -> str:
    """The text with control characters as JSON would write them."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
