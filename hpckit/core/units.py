"""Slurm's own spellings of time and memory, parsed and formatted in one place.

Base units inside hpckit are seconds and bytes; requests round up. Sources: sbatch(1) `--time`
("minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" and
"days-hours:minutes:seconds") and `--mem` (suffixes K, M, G, T, powers of 1024, default M).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hpckit.core.late import regex

_TIME = regex(r"(?:(?P<days>\d{1,5})-)?(?P<clock>\d{1,9}(?::\d{1,6}){0,2})", re.ASCII)
_MEM = regex(r"(?P<number>\d{1,15})(?P<suffix>[KMGT]?)B?", re.ASCII | re.IGNORECASE)
_MIB = 1024**2
_MAX_TIME_S = 3650 * 86400
_SUFFIX_BYTES = {"K": 1024, "": _MIB, "M": _MIB, "G": 1024**3, "T": 1024**4}

TIME_EXPECTED = 'a Slurm time such as "30" (minutes), "8:00:00" or "2-12:00:00"'
MEM_EXPECTED = 'a Slurm memory size such as "64G", "512000M" or "0" (all of the node)'


def parse_slurm_time_s(text: str) -> int:
    """A Slurm time limit in seconds.

    Raises ValueError for anything that sbatch(1) does not list, and for zero: a limit of zero
    means "no limit" to Slurm, which nobody should get by a slip, and more than ten years is one.
    """
    total_s = parse_slurm_limit_s(text)
    if not 0 < total_s <= _MAX_TIME_S:
        raise ValueError(
            f"expected {TIME_EXPECTED}, more than zero and at most ten years, got {text!r}"
        )
    return total_s


def parse_slurm_limit_s(text: str) -> int:
    """A time as Slurm prints one, in seconds: of a cluster, where any is possible.

    Raises ValueError for what is no time.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected {TIME_EXPECTED}, got {text!r}")
    clock = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*clock, 0, 0)[:3]
        total_s = int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    elif len(clock) == 3:
        total_s = clock[0] * 3600 + clock[1] * 60 + clock[2]
    else:
        minutes, seconds = (*clock, 0)[:2]
        total_s = minutes * 60 + seconds
    return total_s


def format_slurm_time(seconds: int) -> str:
    """Seconds as `HH:MM:SS`, or `D-HH:MM:SS` from one day on."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def format_time_limit(seconds: int) -> str:
    """A time limit as people write one, which Slurm reads: `0:10:00`, `8:00:00`, `2-12:00:00`."""
    return format_slurm_time(seconds).removeprefix("0")


def parse_slurm_mem_bytes(text: str) -> int:
    """A Slurm memory size in bytes; 0 means all memory of the node. Raises ValueError."""
    match = _MEM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected {MEM_EXPECTED}, got {text!r}")
    return int(match["number"]) * _SUFFIX_BYTES[match["suffix"].upper()]


def slurm_mem_mib_ceil(size_bytes: int) -> int:
    """Whole MiB that hold `size_bytes`; a request is never rounded down."""
    return -(-size_bytes // _MIB)


def format_slurm_mem(size_bytes: int) -> str:
    """Bytes as Slurm writes them: in G where that is exact, else in M, rounded up."""
    mib = slurm_mem_mib_ceil(size_bytes)
    if mib and mib % 1024 == 0:
        return f"{mib // 1024}G"
    return f"{mib}M" if mib else "0"


def format_duration(seconds: float) -> str:
    """A measured duration for people: `0.8 s`, `41 s`, `41:07`, `1:02:03` or `2-01:02:03`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return format_slurm_time(whole)


def short_time(seconds: float) -> str:
    """A time with three digits, in the unit that shows them: `1.21 s`, `148 ms`, `31.4 µs`."""
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds and float(f"{seconds * factor:.3g}") < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def short_bytes(size_bytes: float) -> str:
    """A number of bytes with three digits and a decimal prefix: `18.9 TB`."""
    value = float(f"{size_bytes:.3g}")
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} EB"


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers, from small to large."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def format_indices(indices: Iterable[int], width: int = 0) -> str:
    """Ordinals, from small to large, with runs folded as Slurm writes them: `0-3,7`.

    Those with fewer digits than `width` get leading zeros.
    """
    return ",".join(
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in runs(indices)
    )


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def and_more(words: Sequence[str], most: int) -> str:
    """Return the first `most` words for a sentence, and how many are left: `a, b and 9 more`."""
    left = len(words) - most
    return ", ".join(words[:most]) + (f" and {left} more" if left > 0 else "")


def time_words(value_s: float) -> str:
    """Seconds with four digits, in the unit that shows them: `80.06 ms`."""
    for unit_s, unit in ((1.0, "s"), (1e-3, "ms")):
        if value_s >= unit_s or not value_s:
            return f"{value_s / unit_s:.4g} {unit}"
    return f"{value_s / 1e-6:.4g} µs"
