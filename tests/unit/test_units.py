"""Times and memory sizes, by example."""

from __future__ import annotations

import pytest

from hpckit.core.units import (
    format_duration,
    format_indices,
    format_slurm_mem,
    format_slurm_time,
    format_time_limit,
    parse_slurm_mem_bytes,
    parse_slurm_time_s,
    short_bytes,
    short_time,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (3.14e-5, "31.4 µs"), (0.0009999, "1 ms"), (0.1484, "148 ms"),
     (0.99996, "1 s"), (12.34, "12.3 s")],
)  # fmt: skip
def test_short_times_have_three_digits(seconds: float, text: str) -> None:
    """In the unit that shows them."""
    assert short_time(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999.9, "1 kB"), (2e8, "200 MB"), (1.889e13, "18.9 TB")]
)
def test_short_sizes_have_three_digits(size: float, text: str) -> None:
    """With a decimal prefix."""
    assert short_bytes(size) == text


@pytest.mark.parametrize(
    "text",
    ["", "0", "0:00", "-5", "1h", "1:2:3:4", "1-", "-1", "1.5", "infinite", "٣", "1-2-3", "1 2",
     "999999999", "00:00:00", "0-0", "UNLIMITED", "1-0:0:0:0", "99999-0"],
)  # fmt: skip
def test_times_that_are_none(text: str) -> None:
    """Zero, a sign, a word, digits of other scripts and more than ten years are refused."""
    with pytest.raises(ValueError, match="expected a Slurm time"):
        parse_slurm_time_s(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("512", 512 * 1024**2),
        ("512M", 512 * 1024**2),
        ("64G", 64 * 1024**3),
        ("64GB", 64 * 1024**3),
        ("64g", 64 * 1024**3),
        ("2T", 2 * 1024**4),
        ("1K", 1024),
    ],
)
def test_memory_spellings(text: str, size_bytes: int) -> None:
    """Each suffix is a power of 1024, and none is MiB."""
    assert parse_slurm_mem_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "G", "-1G", "1.5G", "64GiB", "64 G", "1P", "all", "٣G"])
def test_memory_that_is_none(text: str) -> None:
    """A sign, a fraction, an unknown suffix and a word are refused."""
    with pytest.raises(ValueError, match="expected a Slurm memory size"):
        parse_slurm_mem_bytes(text)


def test_what_slurm_would_print() -> None:
    """Whole GiB are written in G, others in M rounded up, days from the first on."""
    sizes = [0, 1, 1024**2, 1024**3, 1024**3 + 1, 2 * 1024**4]
    assert [format_slurm_mem(size) for size in sizes] == ["0", "1M", "1M", "1G", "1025M", "2048G"]
    times = [1, 3600, 86399, 86400, 216000]
    assert [format_slurm_time(time) for time in times] == [
        "00:00:01", "01:00:00", "23:59:59", "1-00:00:00", "2-12:00:00",
    ]  # fmt: skip


def test_time_limits_of_people() -> None:
    """A limit has hours of one digit where one is enough; what Slurm reads is the same."""
    limits = [600, 3600, 86_399, 216_000]
    texts = [format_time_limit(limit) for limit in limits]
    assert texts == ["0:10:00", "1:00:00", "23:59:59", "2-12:00:00"]
    assert [parse_slurm_time_s(text) for text in texts] == limits


def test_durations() -> None:
    """A duration has tenths below ten seconds, then seconds, minutes, hours, days."""
    durations = [-1, -0.0, 0.84, 9.99, 41.2, 59.9, 60, 2467, 3723, 86400 * 2 + 3723]
    assert [format_duration(duration) for duration in durations] == [
        "0.0 s", "0.0 s", "0.8 s", "10.0 s", "41 s", "1:00", "1:00", "41:07", "1:02:03",
        "2-01:02:03",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("indices", "text"),
    [((), ""), ((7,), "7"), ((3, 0, 1, 2, 7, 9, 8, 7), "0-3,7-9"), ((0, 2), "0,2")],
)
def test_indices_are_folded(indices: tuple[int, ...], text: str) -> None:
    """Ordinals in any order are written small to large, runs of them as a range."""
    assert format_indices(indices) == text
