"""A compressed capture: a text is unpacked and read as that text, an archive as an archive."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pytest

from hpckit.core.errors import ParseError
from hpckit.node.capture.snapshot import inspect_capture
from tests.fakes.slurm_records import record_text


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_text_is_that_text(pack: Callable[[bytes], bytes]) -> None:
    """A capture may be compressed, whatever it is."""
    data = record_text("rocm-smi-6.4", "synthetic-report").encode()
    assert inspect_capture(pack(data), "x") == inspect_capture(data, "x")
    document = b'<system version="1"><cpu numaid="0"/></system>'
    assert inspect_capture(pack(document), "x") == inspect_capture(document, "x")


def test_a_text_that_unpacks_to_too_much_is_refused() -> None:
    """64 MiB of text are the most, however small they were."""
    data = gzip.compress(b"x" * (64 * 1024**2 + 1), 1)
    with pytest.raises(ParseError, match="unpacks to more than a capture"):
        inspect_capture(data, "x")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_text_that_is_cut_off_is_refused(pack: Callable[[bytes], bytes]) -> None:
    """Half of a capture is not read as a whole one."""
    data = pack(record_text("rocm-smi-6.4", "synthetic-report").encode())
    with pytest.raises(ParseError, match="does not unpack"):
        inspect_capture(data[:-20], "x")


def test_an_archive_from_before_posix_is_one() -> None:
    """Its header has no magic word, and NULs, which no text has: what it lacks is a machine."""
    header = b"etc/motd".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"00000000000\0" * 2
    blank = header + b" " * 8
    header = (header + f"{sum(blank + b'0'):06o}\0 ".encode() + b"0").ljust(512, b"\0")
    with pytest.raises(ParseError, match="an archive without a machine"):
        inspect_capture(gzip.compress(header + b"\0" * 1024), "x")
