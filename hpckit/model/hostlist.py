"""Host names in Slurm's list form, such as `c[1-4,7]`. Source: scontrol(1), `show hostlist`."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    groups: dict[tuple[str, int, str], list[int]] = {}
    for name in sorted(set(names), key=natural_order):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            groups[(name, -1, "")] = []
            continue
        number = match["number"]
        width = len(number) if number.startswith("0") or _is_padded(groups, match) else 0
        groups.setdefault((match["stem"], width, match["rest"]), []).append(int(number))
    return ",".join(_written(*key, numbers) for key, numbers in groups.items())


def _is_padded(groups: dict[tuple[str, int, str], list[int]], match: re.Match[str]) -> bool:
    """Whether names of this length have leading zeros: `n09` and `n10` belong together."""
    return (match["stem"], len(match["number"]), match["rest"]) in groups


def _written(stem: str, width: int, rest: str, numbers: list[int]) -> str:
    if not numbers:
        return stem
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    texts = ["-".join(f"{number:0{width}d}" for number in run) for run in runs]
    only = len(numbers) == 1
    return f"{stem}{texts[0]}{rest}" if only else f"{stem}[{','.join(texts)}]{rest}"
