"""Host names in Slurm's list form, such as `c[1-4,7]`. Source: scontrol(1), `show hostlist`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from math import prod

from hpckit.core.late import regex
from hpckit.core.units import and_more, format_indices

_PCI = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NUMBERED = regex(r"(?P<stem>.*?)(?P<number>\d{1,9})(?P<rest>\D*)", re.ASCII)
_WIDEST_PCI = len("00000000:00:00.0")
_DIGITS = "0123456789"
_MOST_DIGITS = 9
_WIDEST_RANGE = 65_536


@lru_cache(maxsize=4096)
def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `c2` before `c10`: digits by their value, PCI addresses as such."""
    if _PCI.fullmatch(name):  # its digits are hexadecimal
        return ((1, 0, name.zfill(_WIDEST_PCI)),)
    return tuple(
        (0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d{1,18})", name, flags=re.ASCII)
        if part
    )


def naturally_sorted(names: Iterable[str]) -> list[str]:
    """Return the names in natural order, at once where all are like n001 and n002."""
    found = sorted(names)
    if found:
        stem = len(found[0].rstrip("0123456789"))
        is_like = found[0][:stem] == found[-1][:stem] and len({*map(len, found)}) == 1
        if is_like and all(name[stem:].isdecimal() and name.isascii() for name in found):
            return found
    return sorted(found, key=natural_order)


def named(names: Iterable[str], most: int = 6) -> str:
    """Return names in natural order for a sentence: `GPU0, GPU1 and 9 more`."""
    return and_more(sorted(set(names), key=natural_order), most)


def fold_hosts(names: Iterable[str]) -> str:
    """Return the names as one list; those that differ in the number at their end alone are folded.

    Each name is written once, in natural order. Leading zeros are kept: `n01` and `n1` are two
    hosts, and stand apart. Slurm refuses a list whose brackets anything follows, so `n1-ib` and
    `n2-ib` stand apart too (hostlist.c, `_hostlist_create_bracketed`).
    """
    texts = []
    for (stem, width, rest), numbers in numbered(names).items():
        if len(numbers) > 1 and not rest:
            parts = range(0, len(numbers), _WIDEST_RANGE)
            ranges = [format_indices(numbers[at : at + _WIDEST_RANGE], width) for at in parts]
            texts.append(f"{stem}[{','.join(ranges)}]")
        else:
            texts += [f"{stem}{number:0{width}d}{rest}" for number in numbers] or [stem]
    return ",".join(texts)


def numbered(names: Iterable[str]) -> dict[tuple[str, int, str], list[int]]:
    """Return names by what is before and after their last number, the numbers ascending.

    Between the two is how many digits numbers have that may begin with zeros, 0 where none does. A
    name without a number stands alone, with -1 there and no numbers.
    """
    ends: dict[tuple[str, str], list[str]] = {}
    groups: dict[tuple[str, int, str], list[int]] = {}
    for name in set(names):
        stem, rest = name.rstrip(_DIGITS), ""
        number = name[len(stem) :]
        if not 0 < len(number) <= _MOST_DIGITS:
            match = _NUMBERED.fullmatch(name)
            if match is None:
                groups[(name, -1, "")] = []
                continue
            stem, number, rest = match.groups()
        ends.setdefault((stem, rest), []).append(number)
    for (stem, rest), texts in ends.items():
        # Where one has leading zeros, those of its length belong to it: `n09` and `n10`.
        padded = {len(text) for text in texts if text[0] == "0" and text != "0"}
        for text in texts:
            width = len(text) if len(text) in padded else 0
            groups.setdefault((stem, width, rest), []).append(int(text))
    for numbers in groups.values():
        numbers.sort()
    return dict(sorted(groups.items(), key=_first_name))


def _first_name(group: tuple[tuple[str, int, str], list[int]]) -> tuple[tuple[int, int, str], ...]:
    (stem, width, rest), numbers = group
    return natural_order(f"{stem}{numbers[0]:0{width}d}{rest}" if numbers else stem)


_RANGE = regex(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_BRACKET = regex(r"\[([^\]]*)\]|([^\[]+)")
_MOST_NAMES = 1_000_000
_SHOWN = 60


class HostListError(ValueError):
    """A text that Slurm reads as no host list: what was got, and what was expected in its place."""

    def __init__(self, got: str, expected: str) -> None:
        super().__init__(f"{got}, expected {expected}")
        self.got, self.expected = got, expected


def expand_hosts(text: str, separators: str = ", \t\r\n") -> tuple[str, ...]:
    """Return the names of a list as `scontrol show hostnames` does: in its order, with repetitions.

    A name may have several brackets, and text behind them; empty parts are passed over. There are
    no steps and no set operators, which are ClusterShell's. Raises HostListError for what Slurm
    refuses: a bracket that is not closed, a range that is empty, has letters in it, counts down or
    has more than 65,536 numbers; and for more than a million names. Source: hostlist.c, and
    scontrol of 22.05.8, 24.11.5 and 26.05.5.
    """
    gap = re.escape(separators)
    names: list[str] = []
    for match in re.finditer(rf"((?:[^\[\]{gap}]|\[[^\[\]]*\])+)|[^{gap}]", text):
        part = match[1]
        if part is None:
            got = f"unmatched bracket in {_short(text[match.start() :])}"
            raise HostListError(got, "a list such as c[1-4,7],d1")
        if "[" not in part:
            names.append(part)
            continue
        pieces = [
            [text] if text else _numbers(ranges, part) for ranges, text in _BRACKET.findall(part)
        ]
        if len(names) + prod(map(len, pieces)) > _MOST_NAMES:
            got = f"more than {_MOST_NAMES:,} names with {_short(part)}"
            raise HostListError(got, f"at most {_MOST_NAMES:,} names in a list")
        names += map("".join, product(*pieces))
    return tuple(names)


def _numbers(ranges: str, part: str) -> list[str]:
    numbers: list[str] = []
    for text in ranges.split(","):
        match = _RANGE.fullmatch(text)
        if match is None:
            got = f"{text!r} in {_short(part)} is not a range of numbers"
            raise HostListError(got, "numbers in brackets such as [1-4,7]")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _WIDEST_RANGE:
            got = f"{text} in {_short(part)} is not a valid range ({int(first)} to {int(last)})"
            raise HostListError(got, f"a range that goes up, of at most {_WIDEST_RANGE:,} names")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
