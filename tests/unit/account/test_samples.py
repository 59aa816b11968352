"""Blocks of a sample file among bytes that are none."""

from __future__ import annotations

import pytest

from hpckit.account.sample_format import (
    GPU,
    GPU_RECORD,
    MAGIC,
    Block,
    Damage,
    find_magic,
    read_blocks,
)
from tests.fakes.sample_file import gpu_block, sample_file


def bogus(length: int) -> bytes:
    """Headers one behind the other, each of a payload that goes to the end of all."""
    head = MAGIC + bytes([GPU, 0, GPU_RECORD.size, 0])
    return b"".join(
        head + max(0, length - at - 300).to_bytes(4, "little") for at in range(0, length, 12)
    )


def test_payloads_that_overlap_are_given_up() -> None:
    """What is read again and again is bounded, and that there may be more is said."""
    *blocks, last = read_blocks(sample_file(20) + bogus(1 << 20))
    assert all(isinstance(one, Block) for one in blocks)
    assert isinstance(last, Damage)
    assert (last.is_tail, last.is_given_up) == (True, True)


def test_a_block_behind_false_beginnings_is_found() -> None:
    """Damage ends where the next block begins."""
    damage, block = read_blocks(MAGIC * 1000 + gpu_block(0, 0))
    assert damage == Damage(0, 4000, is_tail=False)
    assert isinstance(block, Block)


@pytest.mark.parametrize("at", [0, 1, 4093, 4094, 4096, 9000, 3 << 20])
def test_a_magic_is_found_wherever_it_is(at: int) -> None:
    """Where the bytes are cut for the search does not matter."""
    data = memoryview(bytes(at) + MAGIC + bytes(100))
    assert find_magic(data, 0) == at
    assert find_magic(data, at + 1) == -1


def test_a_view_of_a_part_is_read_by_itself() -> None:
    """Places are those in what is given, also where it is a part of more bytes."""
    data = memoryview(bytes(10) + MAGIC + gpu_block(0, 0))[10:]
    damage, block = read_blocks(data)
    assert damage == Damage(0, 4, is_tail=False)
    assert isinstance(block, Block)
