"""A line of text for people, and what it is, so that whoever prints it can colour it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from hpckit.model.text_width import columns


class Style(StrEnum):
    """What a line is; a warning says so in its words too, never by colour alone."""

    PLAIN = "plain"
    TITLE = "title"
    FAINT = "faint"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Line(Struct, frozen=True, kw_only=True):
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
