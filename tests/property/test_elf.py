"""Any bytes are an ELF file, a cache or an image, or refused; none ends a reader otherwise."""

from __future__ import annotations

import contextlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from hpckit.errors import ParseError
from hpckit.parse.elf import ReadAt, constants, parse_elf
from hpckit.parse.ld_cache import parse_ld_cache
from hpckit.parse.nccl_library import library_strings
from hpckit.parse.squashfs import squashfs_offset

NUMBERS = st.one_of(st.integers(0, 300), st.sampled_from([2**16 - 1, 2**32 - 1, 2**63, 2**64 - 1]))


def test_reader_bounds(data: bytes = b"abc") -> None:
    """The reader of these tests gives what a file would."""
    assert _read(data)(1, 5) == b"bc"


@given(st.binary(max_size=400), st.lists(NUMBERS, min_size=11, max_size=11))
def test_any_header_is_read_or_refused(rest: bytes, numbers: list[int]) -> None:
    """Whatever offsets and counts a header claims, and whatever follows it."""
    small = [number % 2**16 for number in numbers]
    header = struct.pack(
        "<6s10xHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01",
        3,
        62,
        1,
        *numbers[:3],
        0,
        64,
        56,
        small[3] % 8,
        64,
        small[4] % 8,
        small[5],
    )
    read = _read(header + rest)
    for ask in (parse_elf, constants, library_strings):
        with contextlib.suppress(ParseError):
            ask(read, "x")


@given(st.binary(max_size=400), NUMBERS, st.booleans())
def test_any_cache_is_read_or_refused(rest: bytes, count: int, is_old: bool) -> None:
    """Whatever a cache claims to hold."""
    counts = struct.pack("<I", count % 2**32)
    data = b"glibc-ld.so.cache1.1" + counts + rest
    if is_old:
        data = b"ld.so-1.7.0\0" + counts + data
    with contextlib.suppress(ParseError):
        parse_ld_cache(data)


@given(st.binary(max_size=1200), NUMBERS, NUMBERS)
def test_any_image_is_found_or_refused(rest: bytes, total: int, at: int) -> None:
    """Whatever descriptors a SIF claims."""
    header = b"#!/usr/bin/env run-singularity\n\0".ljust(32, b"\0") + b"SIF_MAGIC\0"
    numbers = struct.pack("<8Q", 0, 0, 0, total, at, 0, 0, 0)
    with contextlib.suppress(ParseError):
        squashfs_offset(_read(header + bytes(22) + numbers + rest), "x")


def _read(data: bytes) -> ReadAt:
    return lambda at, size: data[at : at + size] if 0 <= at < len(data) else b""
