"""Runs of equal blocks in a sample file, checked all at once.

A sampler flushes a GPU and a HOST block every few seconds, and at even ticks all of them have the
same sizes: their headers are columns then. A day of a node has 35,000 blocks. Those of a
period are checked together, so that damage of both of them is missed once in 2^32 and not in 2^64.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.sample_format import HEADER_BYTES, MAGIC

# A CRC is a register that bytes go through: what so many zero bytes make of it is a linear
# function of its bits, and other bytes are added to it (zlib.h, crc32_combine). So the CRC of
# several blocks together follows from those that their headers say, and need not be asked for
# block by block; only damage of several of them may cancel out, which is missed once in 2^32.

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
    if count > _DIRECT_BYTES:
        return _through_zeros(_of_bits(count // 2), count - count // 2)
    zeros = bytes(count)
    nothing = zlib.crc32(zeros)
    found = [zlib.crc32(zeros, 1 << bit) ^ nothing for bit in range(_BITS)]
    return np.array(found, np.uint32)


"""146 years; a header with more is damage, and int64 holds the sum of it and any `dt_us`."""
_LEAST_RUNS: Final = 4
_FIRST_LOOK: Final = 32
_HEADER_DTYPE = np.dtype(
    [("form", "<u4", (3,)), ("sequence", "<u4"), ("ns", "<u8", (3,)), ("crc", "<u4")]
)
"""`form` is magic, kind, bytes of a record and of the payload; `ns` are the clocks."""
_WORDS_DTYPE = np.dtype(("<u4", (HEADER_BYTES // 4,)))
"""The same header as numbers of 32 bits, the last of which is the CRC."""


class Blocks(NamedTuple):
    """Blocks of one kind with payloads of one size: monotonic begins, and payloads as rows."""

    begins_ns: NDArray[np.int64]
    payloads: NDArray[np.uint8]


class Form(Struct, frozen=True):
    """What the header of a block says of it, and where it begins."""

    at: int
    kind: int
    record_bytes: int
    payload_bytes: int

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self.at + HEADER_BYTES + self.payload_bytes


def run_at(
    view: memoryview, at: int, sequence: int | None, sizes: Mapping[int, int]
) -> tuple[dict[int, Blocks], int]:
    """The blocks by kind that repeat from `at` on with right CRCs, and how many bytes these are.

    `sizes` are the bytes of a record by the kinds that are taken, `sequence` is the number that the
    first must have. Nothing where there is no such run.
    """
    forms = _pattern(view, at, sizes)
    if not forms or sequence is None:
        return {}, 0
    period = forms[-1].end - at
    count = (len(view) - at) // period
    if count < _LEAST_RUNS:
        return {}, 0
    heads = [_strided(view, one.at, count, period, _HEADER_DTYPE) for one in forms]
    for place, head in enumerate(heads):
        count = min(count, _sound(head, sequence + place, len(forms)))
    if count < _LEAST_RUNS:
        return {}, 0
    count = _whole(view, forms, period, count)
    if not count:
        return {}, 0
    blocks = {}
    for form, head in zip(forms, heads, strict=True):
        payload = np.dtype((np.uint8, (form.payload_bytes,)))
        payloads = _strided(view, form.at + HEADER_BYTES, count, period, payload)
        blocks[form.kind] = Blocks(head["ns"][:count, 1].astype(np.int64), payloads)
    return blocks, count * period


def _pattern(view: memoryview, at: int, sizes: Mapping[int, int]) -> tuple[Form, ...]:
    """The one or two blocks that seem to repeat; none where nothing does."""
    first = _form(view, at, sizes)
    second = _form(view, first.end, sizes) if first else None
    if first is None or second is None:
        return ()
    if first.kind == second.kind:
        return (first,) if first.payload_bytes == second.payload_bytes else ()
    third = _form(view, second.end, sizes)
    is_again = third is not None and third.kind == first.kind
    is_equal = third is not None and third.payload_bytes == first.payload_bytes
    return (first, second) if is_again and is_equal else ()


def _form(view: memoryview, at: int, sizes: Mapping[int, int]) -> Form | None:
    head = bytes(view[at : at + HEADER_BYTES])
    if len(head) < HEADER_BYTES or head[: len(MAGIC)] != MAGIC:
        return None
    size, length = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:12], "little")
    is_known = size and sizes.get(head[4]) == size and not length % size
    return Form(at, head[4], size, length) if is_known else None


def _strided(
    view: memoryview, at: int, count: int, period: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """What lies every `period` bytes, as a view; the last of it ends where the view may end."""
    base, shape = dtype.base, (count, *dtype.shape)
    inner = (base.itemsize,) * len(dtype.shape)
    return np.ndarray(shape, base, view, at, (period, *inner))


def _sound(head: NDArray[Any], sequence: int, step: int) -> int:
    """How many headers from the first on are of one form, with clocks and numbers as they must."""
    first, looked = head["form"][:1], _FIRST_LOOK
    while True:
        # What lies behind a short run is looked at in vain, and again in the next.
        some = head[:looked]
        numbers = sequence + step * np.arange(len(some))
        is_sound = (some["form"] == first).all(axis=1) & (some["sequence"] == numbers)
        found = _until_false(is_sound)
        if found < len(some) or looked >= len(head):
            return found
        looked *= 8


def _whole(view: memoryview, forms: tuple[Form, ...], period: int, count: int) -> int:
    """In how many periods from the first on all blocks have the CRC that their headers say."""
    registers = np.full(count, FRESH)
    for form in forms:
        words = _strided(view, form.at, count, period, _WORDS_DTYPE)
        registers = through_block(registers, words, form.payload_bytes)
    begins = range(forms[0].at, forms[0].at + count * period, period)
    found = map(zlib.crc32, [view[at : at + period] for at in begins])
    return _until_false(np.fromiter(found, np.uint32, count) == ~registers)


def _until_false(values: NDArray[np.bool_]) -> int:
    return len(values) if values.all() else int(values.argmin())
