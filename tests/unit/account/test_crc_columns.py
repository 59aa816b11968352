"""What the CRC of several blocks must be, by those in their headers."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from hpckit.account.sample_rows import FRESH, through_block

HEAD_WORDS = 10


def blocks_of(payload_bytes: int, count: int, seed: int) -> tuple[NDArray[np.uint32], list[bytes]]:
    """Heads with their CRCs as words, and the blocks."""
    random = np.random.default_rng(seed)
    blocks = []
    for _ in range(count):
        head, payload = random.bytes(4 * HEAD_WORDS), random.bytes(payload_bytes)
        crc = zlib.crc32(payload, zlib.crc32(head))
        blocks.append(head + crc.to_bytes(4, "little") + payload)
    heads = b"".join(block[: 4 * HEAD_WORDS + 4] for block in blocks)
    return np.frombuffer(heads, "<u4").reshape(count, -1), blocks


@pytest.mark.parametrize("payload_bytes", [0, 1, 48, 2880, 65_537, 300_001])
def test_the_crc_of_two_blocks_follows_from_their_heads(payload_bytes: int) -> None:
    """Registers that went through blocks by their heads are inverted CRCs of the whole bytes."""
    first, firsts = blocks_of(payload_bytes, 3, 1)
    second, seconds = blocks_of(56, 3, 2)
    registers = through_block(np.full(3, FRESH), first, payload_bytes)
    registers = through_block(registers, second, 56)
    expected = [zlib.crc32(one + two) for one, two in zip(firsts, seconds, strict=True)]
    assert (~registers).tolist() == expected


@pytest.mark.parametrize("at", [0, 39, 40, 43, 44, 99])
def test_a_block_with_one_wrong_byte_has_another_crc(at: int) -> None:
    """Head, CRC or payload: a bit that is wrong shows in the CRC of the whole."""
    _, (block,) = blocks_of(56, 1, 3)
    damaged = block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]
    words = np.frombuffer(damaged[: 4 * HEAD_WORDS + 4], "<u4")[np.newaxis]
    (register,) = through_block(np.full(1, FRESH), words, 56)
    assert int(~register) != zlib.crc32(damaged)
