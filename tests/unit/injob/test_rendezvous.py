"""The ports of a job, by example."""

from __future__ import annotations

import zlib

import pytest

from hpckit.injob.port import job_number, port_candidates

DEFAULT_RANGE = (32768, 60999)


@pytest.mark.parametrize("job_id", [0, 1, 4535, 4536, 771234, 2**32 - 1])
def test_first_choice_is_the_rule_of_the_job_script(job_id: int) -> None:
    """With Linux's default range a plain job meets at 61000 + job id mod 4536."""
    first, _, _ = port_candidates(job_id, array_task=None, step=0, ephemeral=DEFAULT_RANGE)
    assert first == 61000 + job_id % 4536


@pytest.mark.parametrize(
    ("ephemeral", "lowest", "highest"),
    [
        ((32768, 60999), 61000, 65535),
        ((1024, 64511), 64512, 65535),
        ((1024, 64512), 61000, 65535),
        ((32768, 65535), 10000, 32767),
        ((11024, 65535), 10000, 11023),
        ((11023, 65535), 1024, 11022),
        ((2048, 65535), 1024, 2047),
        ((2047, 65535), 61000, 65535),
        ((1, 500), 1024, 65535),
    ],
)
def test_pool_lies_above_then_below(ephemeral: tuple[int, int], lowest: int, highest: int) -> None:
    """The ports come from above the range, else from 10000 on, else from 1024 on, else 61000 on."""
    size = highest - lowest + 1
    for job_id in (0, 1, size - 1):
        first, *_ = port_candidates(job_id, array_task=None, step=0, ephemeral=ephemeral)
        assert first == lowest + job_id


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("771234", 771234),
        ("local-1a2b", zlib.crc32(b"local-1a2b")),
        ("", 0),
        ("-5", zlib.crc32(b"-5")),
        ("٣", zlib.crc32("٣".encode())),
        ("9" * 18, 10**18 - 1),
        ("9" * 5000, zlib.crc32(b"9" * 5000)),
        ("\udcff", zlib.crc32(b"\xff")),
    ],
)
def test_job_number_takes_any_text(text: str, number: int) -> None:
    """Decimal text is its number, any other text its CRC-32."""
    assert job_number(text) == number
