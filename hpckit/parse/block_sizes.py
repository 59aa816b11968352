"""The sizes of blocks that Slurm plans by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.parse.slurm_text import Place

_SIZE: Final = re.compile(r"\s*0*(?P<size>[1-9]\d{0,8})\s*", re.ASCII)
_MOST_DOUBLINGS: Final = 15


def block_sizes(words: Sequence[str], place: Place) -> tuple[int, ...]:
    """The sizes, each the first one times a power of two of at most 2^15.

    Raises ParseError, as slurmctld ends on others. Source: block_record.c; topology.conf(5).
    """
    sizes: list[int] = []
    for word in words:
        match = _SIZE.fullmatch(word)
        if match is None:
            raise place.refuse(f"the block size {word[:60]!r} is no number", "sizes such as 18,36")
        size = int(match["size"])
        times, rest = divmod(size, sizes[0] if sizes else size)
        if rest or times.bit_count() != 1 or times.bit_length() > _MOST_DOUBLINGS + 1:
            message = f"the block size {size} is not {sizes[0]} times a power of two"
            raise place.refuse(message, f"{sizes[0]}, {2 * sizes[0]}, {4 * sizes[0]}, …")
        sizes.append(size)
    return tuple(sizes)
