"""Lists of hosts or switches as Slurm reads them, with the place of what is wrong in one.

Source: hostlist.c, and `scontrol show hostnames` of 22.05.8, 24.11.5 and 26.05.5: several brackets
in a name, text behind a bracket, commas and spaces between names, empty parts passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from hpckit.parse.slurm_text import Place

_PART: Final = re.compile(r"(?:[^\[\],\s]|\[[^\[\],\s]*(?:,[^\[\],\s]*)*\])+")
_GAP: Final = re.compile(r"[,\s]+")
_PIECE: Final = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_WIDEST_RANGE: Final = 65_536
_SHOWN: Final = 60
_EXPECTED: Final = "a list such as c[1-4,7],d1"
MOST_NAMES: Final = 1_000_000
"""In all the lists of one text; a longer one is a mistake, or an attack."""


@dataclass(slots=True)
class HostLists:
    """The lists of one text, which hold MOST_NAMES names in all at most."""

    left: int = field(default=MOST_NAMES)

    def names(self, text: str, place: Place) -> tuple[str, ...]:
        """The names of a list in its order, each as often as it stands there.

        Raises ParseError for what Slurm refuses: a bracket that is not closed, an empty range, one
        with letters in it or that counts down, one of more than 65,536 numbers; and for digits of
        other scripts, which look like a number and are none.
        """
        found: list[str] = []
        at = 0
        while at < len(text):
            gap = _GAP.match(text, at)
            if gap is not None:
                at = gap.end()
                continue
            part = _PART.match(text, at)
            if part is None:
                raise place.refuse(f"the bracket in {_short(text[at:])} has no other", _EXPECTED)
            if not part[0].isascii():
                _refuse_foreign(part[0], place)
            found += self._expanded(part[0], place)
            at = part.end()
        return tuple(found)

    def _expanded(self, part: str, place: Place) -> list[str]:
        pieces = [
            (text,) if text else _numbers(ranges, part, place)
            for ranges, text in _PIECE.findall(part)
        ]
        names = 1
        for piece in pieces:
            names *= len(piece)
        self.left -= names
        if self.left < 0:
            message = f"with {_short(part)} there are more than {MOST_NAMES:,} names"
            raise place.refuse(message, f"at most {MOST_NAMES:,} names in all lists")
        return (
            ["".join(words) for words in product(*pieces)]
            if names > 1 or len(pieces) > 1
            else ([pieces[0][0]])
        )


def _refuse_foreign(part: str, place: Place) -> None:
    digit = next((one for one in part if one.isdecimal() and not one.isascii()), None)
    if digit is not None:
        raise place.refuse(f"{digit!r} in {_short(part)} is no digit from 0 to 9", _EXPECTED)


def _numbers(ranges: str, part: str, place: Place) -> tuple[str, ...]:
    found: list[str] = []
    for text in ranges.split(","):
        match = _RANGE.fullmatch(text)
        if match is None:
            message = f"{text!r} in {_short(part)} is no range of numbers"
            raise place.refuse(message, "numbers in brackets such as [1-4,7]; letters are none")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _WIDEST_RANGE:
            message = f"{text} in {_short(part)} is no range: from {int(first)} to {int(last)}"
            raise place.refuse(message, f"a range that counts up to {_WIDEST_RANGE:,} names")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return tuple(found)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
