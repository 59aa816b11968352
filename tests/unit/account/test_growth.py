"""hpckit.account.rows: counters over the borders of blocks."""

from __future__ import annotations

import numpy as np

from hpckit.account.rows import Counter

SECOND_US = 1_000_000
HELD_US = 100 * SECOND_US
NONE = 0xFFFF_FFFF


def total(*blocks: list[int], most_per_s: float = 1000.0) -> int | None:
    """The growth of a counter that is read each second, in blocks."""
    counter, at = Counter(most_per_s, HELD_US), 0
    for block in blocks:
        moments = (np.arange(len(block)) + at) * SECOND_US
        counter.add(np.array(block, np.uint32), moments)
        at += len(block)
    return counter.total


def test_growth_between_blocks() -> None:
    """What a counter grew from one block to the next counts."""
    assert total([100, 200], [350]) == 250


def test_the_largest_number_between_blocks() -> None:
    """A counter that passes its largest number between two blocks has grown."""
    assert total([2**32 - 10], [15]) == 25


def test_a_reset_between_blocks() -> None:
    """Of a counter that begins again between two blocks what it shows counts."""
    assert total([50_000, 50_100], [40]) == 140


def test_growth_that_cannot_be() -> None:
    """A leap that no second allows, to a value that is none either, counts for nothing."""
    assert total([0, 10], [900_000, 900_005]) == 15


def test_one_reading() -> None:
    """A single reading tells no growth, which is not a growth of 0."""
    assert total([NONE, 17, NONE]) is None


def test_two_equal_readings() -> None:
    """Two equal readings tell that it did not grow."""
    assert total([17], [17]) == 0
