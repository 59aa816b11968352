"""Host names in Slurm's list form, such as `c[1-4,7]`. Source: scontrol(1), `show hostlist`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from hpckit.units import format_indices

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d{1,9})(?P<rest>\D*)", re.ASCII)
_WIDEST_PCI = len("00000000:00:00.0")


@lru_cache(maxsize=4096)
def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `c2` before `c10`: runs of digits by their value, PCI addresses as such."""
    if _PCI.fullmatch(name):  # its digits are hexadecimal
        return ((1, 0, name.zfill(_WIDEST_PCI)),)
    return tuple(
        (0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d{1,18})", name, flags=re.ASCII)
        if part
    )


def fold_hosts(names: Iterable[str]) -> str:
    """The names as one list; those that differ in the number at their end alone are folded.

    Each name is written once, in natural order. Leading zeros are kept: `n01` and `n1` are two
    hosts, and stand apart. Slurm refuses a list whose brackets anything follows, so `n1-ib` and
    `n2-ib` stand apart too (hostlist.c, `_hostlist_create_bracketed`).
    """
    texts = []
    for (stem, width, rest), numbers in numbered(names).items():
        if len(numbers) > 1 and not rest:
            texts.append(f"{stem}[{format_indices(numbers, width)}]")
        else:
            texts += [f"{stem}{number:0{width}d}{rest}" for number in numbers] or [stem]
    return ",".join(texts)


def numbered(names: Iterable[str]) -> dict[tuple[str, int, str], list[int]]:
    """Names by what is before and after their last number, the numbers ascending.

    Between the two is how many digits numbers have that may begin with zeros, 0 where none does. A
    name without a number stands alone, with -1 there and no numbers.
    """
    groups: dict[tuple[str, int, str], list[int]] = {}
    for name in sorted(set(names), key=natural_order):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            groups[(name, -1, "")] = []
            continue
        stem, number, rest = match.groups()
        # Where one has leading zeros, those of its length belong to it: `n09` and `n10`.
        is_padded = number != str(int(number)) or (stem, len(number), rest) in groups
        groups.setdefault((stem, len(number) if is_padded else 0, rest), []).append(int(number))
    return groups


_PART = re.compile(r"(?P<stem>[^\[\],]+)(?:\[(?P<ranges>[0-9,-]+)\](?P<rest>[^\[\],]*))?", re.ASCII)
_RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.ASCII)


def expand_hosts(text: str, most: int = 100_000) -> tuple[str, ...]:
    """The names of a list with one bracket a name, `most` at most, in its order.

    Raises ValueError for what is no such list.
    """
    names: list[str] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise ValueError(f"expected a host list such as c[1-4,7], got {text[:100]!r}")
        names += _expanded(match, most - len(names))
        at = match.end() + 1
    return tuple(names[:most])


def _expanded(match: re.Match[str], most: int) -> list[str]:
    stem, ranges, rest = match.group("stem", "ranges", "rest")
    if ranges is None:
        return [stem]
    names: list[str] = []
    for part in ranges.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"expected numbers such as 1-4,7 in brackets, got {ranges[:100]!r}")
        first, last = found["first"], found["last"] or found["first"]
        numbers = range(int(first), min(int(last), int(first) + max(0, most - len(names))) + 1)
        names += [f"{stem}{number:0{len(first)}d}{rest}" for number in numbers]
    return names
