"""Labelled rows on a screen of so many lines: what matters most gets room first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from hpckit.model.text_width import columns
from hpckit.report.line import wrapped

_LABEL: Final = 8
_CUT: Final = " …"
_LEAST: Final = 12


class Block(Struct, frozen=True, kw_only=True):
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
        line = shorter if shorter.strip() else line[:room]
    told, colon, begun = line.rpartition(": ")
    if colon and len(begun) < _LEAST:  # of what it would say there is no more than a beginning
        line = told
    return line.rstrip().removesuffix(" ·") + _CUT
