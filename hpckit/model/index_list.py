"""Sets of CPUs or NUMA nodes in Linux's list format, such as `0-19,40-59`.

Source: cpuset(7), "List format"; /sys/devices/system/node/node*/cpulist holds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NewType

from hpckit.units import format_indices

IndexList = NewType("IndexList", str)
"""0-based indices in ascending order with runs folded; empty text is the empty set."""

MOST_INDICES = 1 << 16
"""More CPUs than Linux has on any machine (NR_CPUS is at most 8192)."""

_RUN = re.compile(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6})(?:/(\d{1,6}))?)?)?", re.ASCII)

_WORD = re.compile(r"[0-9a-fA-F]{0,8}", re.ASCII)

EXPECTED = "a list of indices such as 0-19,40-59"


def index_list(indices: Iterable[int]) -> IndexList:
    """The list of these indices."""
    return IndexList(format_indices(indices))


def expand_indices(text: str) -> tuple[int, ...]:
    """The indices of a list, ascending, each once.

    Takes what cpuset(7) allows, also strides such as `0-30:1/2`. Raises ValueError.
    """
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = _RUN.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"expected {EXPECTED}, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        used, group = int(match[3] or 1), int(match[4] or match[3] or 1)
        if last < first or last >= MOST_INDICES or not 1 <= used <= group:
            raise ValueError(f"expected {EXPECTED}, below {MOST_INDICES}, got {text!r}")
        for start in range(first, last + 1, group):
            found.update(range(start, min(start + used, last + 1)))
    return tuple(sorted(found))


def tidy_indices(text: str) -> IndexList:
    """A list in its one spelling: `1,0,2` is `0-2`. Raises ValueError."""
    return index_list(expand_indices(text))


def indices_of_mask(text: str) -> tuple[int, ...]:
    """The indices of a mask: hexadecimal words of 32 bits, highest first, as `000000ff,ffffffff`.

    hwloc's spelling is taken too: `0x` before each word, empty words for zero, and `0xf...f` for
    an infinite set gives its finite words alone. Raises ValueError.
    """
    words = text.strip().split(",")
    if words and words[0] in {"0xf...f", "f...f"}:
        words = words[1:]
    bits = 0
    if len(words) > MOST_INDICES // 32:
        raise ValueError(f"expected a mask of at most {MOST_INDICES} bits")
    for word in words:
        digits = word.strip().removeprefix("0x")
        if not _WORD.fullmatch(digits):
            raise ValueError(f"expected a mask such as 000000ff,ffffffff, got {text[:60]!r}")
        bits = bits << 32 | int(digits or "0", 16)
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)
