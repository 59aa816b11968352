"""Labelled rows on a screen of so many lines: what matters most gets room first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.model.text_width import columns
from hpckit.report.line import wrapped

_LABEL: Final = 8
_CUT: Final = " …"
_LEAST: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the screen in several forms, the shortest first, each with more to say.

    `good` is the form that every block gets before any gets a longer one; `weight` says which
    block is served first, the heaviest.
    """

    forms: Sequence[Sequence[str]]
    good: int
    weight: int = 0


def fitted(blocks: Sequence[Block], room: int) -> list[str]:
    """The lines of all blocks in their order, each in the longest form that there is room for.

    Where the shortest forms are too long together, so is the result.
    """
    chosen = [0] * len(blocks)
    by_weight = sorted(range(len(blocks)), key=lambda at: -blocks[at].weight)
    for is_last in (False, True):
        for at in by_weight:
            block = blocks[at]
            others = sum(
                len(blocks[other].forms[form]) for other, form in enumerate(chosen) if other != at
            )
            most = len(block.forms) - 1 if is_last else min(block.good, len(block.forms) - 1)
            fits = [
                form
                for form in range(chosen[at], most + 1)
                if others + len(block.forms[form]) <= room
            ]
            chosen[at] = max(fits, default=chosen[at])
    return [line for at, form in enumerate(chosen) for line in blocks[at].forms[form]]


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
        line = shorter if shorter.strip() else line[:room]
    told, colon, begun = line.rpartition(": ")
    if colon and len(begun) < _LEAST:  # of what it would say there is no more than a beginning
        line = told
    return line.rstrip().removesuffix(" ·") + _CUT
