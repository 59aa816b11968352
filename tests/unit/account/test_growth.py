"""hpckit.account.rows: counters over the borders of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.rows import Counter

SECOND_US = 1_000_000
HELD_US = 100 * SECOND_US
NONE = 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("blocks", "total"),
    [
        ([[100, 200], [350]], 250),
        ([[2**32 - 10], [15]], 25),
        ([[50_000, 50_100], [40]], 140),  # of one that begins again what it shows counts
        ([[0, 10], [900_000, 900_005]], 15),  # a leap that no second allows
        ([[NONE, 17, NONE]], None),  # one reading tells no growth, which is not 0
        ([[17], [17]], 0),
    ],
)
def test_growth_over_the_borders_of_blocks(blocks: list[list[int]], total: int | None) -> None:
    """Of a counter that is read each second and grows by 1,000 at most."""
    counter, at = Counter(1000.0, HELD_US), 0
    for block in blocks:
        moments = (np.arange(len(block)) + at) * SECOND_US
        counter.add(np.array(block, np.uint32), moments)
        at += len(block)
    assert counter.total == total
