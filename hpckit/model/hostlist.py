"""Host names in Slurm's list form, such as `c[1-4,7]`. Source: scontrol(1), `show hostlist`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpckit.units import format_indices

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d{1,9})(?P<rest>\D*)", re.ASCII)


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `c2` before `c10`: runs of digits by their value."""
    return tuple(
        (0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d{1,18})", name, flags=re.ASCII)
        if part
    )


def fold_hosts(names: Iterable[str]) -> str:
    """The names as one list; what differs in its last number alone is folded.

    Each name is written once, in natural order. Leading zeros are kept: `n01` and `n1` are two
    hosts, and stand apart.
    """
    texts = []
    for (stem, width, rest), numbers in numbered(names).items():
        folded = format_indices(numbers, width)
        texts.append(stem + (f"[{folded}]" if len(numbers) > 1 else folded) + rest)
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
