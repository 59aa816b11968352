"""Times and memory sizes: what is formatted is read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.units import (
    MEM_EXPECTED,
    TIME_EXPECTED,
    format_duration,
    format_slurm_mem,
    format_slurm_time,
    parse_slurm_mem_bytes,
    parse_slurm_time_s,
    slurm_mem_mib_ceil,
)

MIB = 1024**2
TEN_YEARS_S = 3650 * 86_400


@given(st.integers(min_value=1, max_value=TEN_YEARS_S))
def test_time_is_read_back(seconds: int) -> None:
    """parse(format(seconds)) is seconds."""
    assert parse_slurm_time_s(format_slurm_time(seconds)) == seconds


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_memory_is_read_back(mib: int) -> None:
    """parse(format(bytes)) is bytes for whole MiB."""
    assert parse_slurm_mem_bytes(format_slurm_mem(mib * MIB)) == mib * MIB


@given(st.integers(min_value=0, max_value=10**15))
def test_memory_is_never_rounded_down(size_bytes: int) -> None:
    """A request grows by less than one MiB, and never shrinks."""
    assert 0 <= parse_slurm_mem_bytes(format_slurm_mem(size_bytes)) - size_bytes < MIB
    assert slurm_mem_mib_ceil(size_bytes) == -(-size_bytes // MIB)


@given(
    st.integers(0, 3649),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
)
def test_every_spelling_of_sbatch(days: int, hours: int, minutes: int, seconds: int) -> None:
    """The six spellings of sbatch(1) mean what its manual says."""
    spellings = {
        f"{minutes}": minutes * 60,
        f"{minutes}:{seconds}": minutes * 60 + seconds,
        f"{hours}:{minutes}:{seconds}": hours * 3600 + minutes * 60 + seconds,
        f"{days}-{hours}": days * 86400 + hours * 3600,
        f"{days}-{hours}:{minutes}": days * 86400 + hours * 3600 + minutes * 60,
        f"{days}-{hours}:{minutes}:{seconds}": (
            days * 86400 + hours * 3600 + minutes * 60 + seconds
        ),
    }
    for text, expected_s in spellings.items():
        if expected_s:
            assert parse_slurm_time_s(text) == expected_s
            assert parse_slurm_time_s(f" {text} ") == expected_s


@given(st.text(max_size=12) | st.from_regex(r"[0-9:KMGTB -]{0,8}", fullmatch=True))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    """Every text gives a number or a ValueError that says what is expected."""
    for parse, expected in (
        (parse_slurm_time_s, TIME_EXPECTED),
        (parse_slurm_mem_bytes, MEM_EXPECTED),
    ):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert expected in str(error)


@given(st.floats(min_value=-1, max_value=1e7))
def test_a_duration_is_short(seconds: float) -> None:
    """A duration is shown on one short line without a sign."""
    shown = format_duration(seconds)
    assert len(shown) <= 13
    assert "-" not in shown or seconds >= 86_399.5
