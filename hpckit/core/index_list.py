"""Sets of CPUs or NUMA nodes in Linux's list format, such as `0-19,40-59`.

Source: cpuset(7), "List format"; /sys/devices/system/node/node*/cpulist holds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NewType

from hpckit.core.errors import InvalidValue
from hpckit.core.late import regex
from hpckit.core.units import format_indices

IndexList = NewType("IndexList", str)
"""0-based indices in ascending order with runs folded; empty text is the empty set."""

MOST_INDICES = 1 << 16
"""More CPUs than Linux has on any machine (NR_CPUS is at most 8192)."""

_RUN = regex(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6})(?:/(\d{1,6}))?)?)?", re.ASCII)

_INDEX = regex(r"\d{1,6}", re.ASCII)
_MOST_SHOWN = 60
_WORD = regex(r"[0-9a-fA-F]{0,8}", re.ASCII)

EXPECTED = "a list of indices such as 0-19,40-59"


def index_list(indices: Iterable[int]) -> IndexList:
    """The list of these indices."""
    return IndexList(format_indices(indices))


def expand_indices(text: str) -> tuple[int, ...]:
    """The indices of a list, ascending, each once.

    Takes what cpuset(7) allows, also strides such as `0-30:1/2`. Raises ValueError.
    """
    found: set[int] = set()
    for first, last, used, group in _runs(text):
        if used == group:
            found.update(range(first, last + 1))
            continue
        for start in range(first, last + 1, group):
            found.update(range(start, min(start + used, last + 1)))
    return tuple(sorted(found))


def count_indices(text: str) -> int:
    """How many indices a list holds, those that it names twice counted twice. Raises ValueError."""
    count = 0
    for first, last, used, group in _runs(text):
        whole, rest = divmod(last - first + 1, group)
        count += whole * used + min(used, rest)
    return count


def least_index(text: str) -> int | None:
    """The smallest index of a list, None for an empty one. Raises ValueError."""
    return min((first for first, *_ in _runs(text)), default=None)


def check_lists(key: str, texts: Iterable[str | None]) -> None:
    """Raises InvalidValue for lists that hold more indices together than there can be."""
    count = sum(count_indices(text or "") for text in texts)
    if count > MOST_INDICES:
        raise InvalidValue(key, f"{count} in total", f"at most {MOST_INDICES}")


def check_indices(key: str, text: str | None) -> None:
    """Raises InvalidValue for a text that `expand_indices` would refuse; None is good."""
    try:
        count = count_indices(text or "")
    except ValueError as error:
        raise InvalidValue(key, str(text)[:_MOST_SHOWN], EXPECTED) from error
    if count > MOST_INDICES:
        raise InvalidValue(key, f"{count} indices", f"at most {MOST_INDICES}")


def check_cores(key: str, texts: Iterable[str]) -> None:
    """Raises InvalidValue for lists that are none, that are too long, or that hold nothing."""
    listed = tuple(texts)
    for text in listed:
        check_indices(key, text)
        if not text.strip():
            raise InvalidValue(key, "an empty list", "at least one CPU per core")
    check_lists(key, listed)


def _runs(text: str) -> Iterator[tuple[int, int, int, int]]:
    for part in text.split(",") if text.strip() else ():
        if _INDEX.fullmatch(part) and (index := int(part)) < MOST_INDICES:
            yield index, index, 1, 1  # most parts of a long list are one index
            continue
        match = _RUN.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"expected {EXPECTED}, got {text[:_MOST_SHOWN]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        used, group = int(match[3] or 1), int(match[4] or match[3] or 1)
        if last < first or last >= MOST_INDICES or not 1 <= used <= group:
            got = text[:_MOST_SHOWN]
            raise ValueError(f"expected {EXPECTED}, below {MOST_INDICES}, got {got!r}")
        yield first, last, used, group


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
    if len(words) > MOST_INDICES // 32:
        raise ValueError(f"expected a mask of at most {MOST_INDICES} bits")
    digits = [word.strip().removeprefix("0x") for word in words]
    if not all(_WORD.fullmatch(word) for word in digits):
        raise ValueError(f"expected a mask such as 000000ff,ffffffff, got {text[:_MOST_SHOWN]!r}")
    return set_bits(int("0" + "".join(word.zfill(8) for word in digits), 16))


def set_bits(mask: int) -> tuple[int, ...]:
    """The indices of the bits that are set, ascending."""
    return tuple(at for at, bit in enumerate(reversed(f"{mask:b}")) if bit == "1")
