"""CRC-32s of many blocks at once, as columns of numbers.

A CRC is a register that bytes go through: what so many zero bytes make of it is a linear function
of its bits, and other bytes are added to it (zlib.h, crc32_combine). So the CRC of several blocks
together follows from those that their headers say, and need not be asked for block by block; only
damage of several of them may cancel out, which is missed once in 2^32.
"""

from __future__ import annotations

import functools
import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

Registers = NDArray[np.uint32]
"""A register for each block: the CRC of what went through it, inverted."""

FRESH: Final = np.uint32(0xFFFF_FFFF)
"""The register before the first byte."""
_WORD_BYTES: Final = 4
_BITS: Final = 32
_DIRECT_BYTES: Final = 1 << 16


def through_block(registers: Registers, words: Registers, payload_bytes: int) -> Registers:
    """The registers after a whole block each: its head, the CRC of head and payload, the payload.

    `words` are the head and the CRC as 32-bit numbers, a row for each block.
    """
    *head_words, crcs = np.ascontiguousarray(words.T)
    head = np.full(len(words), FRESH)
    for word in head_words:
        head = _through_zeros(head ^ word, _WORD_BYTES)
    before = _through_zeros(registers ^ FRESH, len(head_words) * _WORD_BYTES) ^ head
    before = _through_zeros(before ^ crcs, _WORD_BYTES)
    after: Registers = _through_zeros(before ^ head, payload_bytes) ^ ~crcs
    return after


def _through_zeros(registers: Registers, count: int) -> Registers:
    low, lower, upper, high = _tables(count)
    parts = np.ascontiguousarray(registers, "<u4").view(np.uint8).reshape(-1, _WORD_BYTES)
    after: Registers = low[parts[:, 0]] ^ lower[parts[:, 1]]
    after ^= upper[parts[:, 2]]
    after ^= high[parts[:, 3]]
    return after


@functools.lru_cache(maxsize=16)
def _tables(count: int) -> Registers:
    """What `count` zero bytes make of each byte of a register."""
    is_set = np.arange(256, dtype=np.uint32)[:, np.newaxis] >> np.arange(8, dtype=np.uint32) & 1
    bits = _of_bits(count).reshape(_WORD_BYTES, 1, 8)
    tables: Registers = np.bitwise_xor.reduce(is_set * bits, axis=2, dtype=np.uint32)
    return tables


def _of_bits(count: int) -> Registers:
    """What they make of each bit."""
    if count > _DIRECT_BYTES:
        return _through_zeros(_of_bits(count // 2), count - count // 2)
    zeros = bytes(count)
    nothing = zlib.crc32(zeros)
    found = [zlib.crc32(zeros, 1 << bit) ^ nothing for bit in range(_BITS)]
    return np.array(found, np.uint32)
