"""The ports at which the ranks of one job may meet, the same on every host of the job."""

from __future__ import annotations

import zlib

LAST_PORT = 65535
FIRST_FREE_PORT = 1024
FIRST_QUIET_PORT = 10000
FALLBACK_FIRST_PORT = 61000
ENOUGH_PORTS = 1024

# Both below ENOUGH_PORTS, so that neither stride is a multiple of any pool's size.
_ARRAY_STRIDE = 337
_STEP_STRIDE = 613
_MAX_DIGITS = 18


def port_candidates(
    job_id: int, *, array_task: int | None, step: int, ephemeral: tuple[int, int]
) -> tuple[int, int, int]:
    """Give three distinct TCP ports for a job, its first choice first.

    They lie outside `ephemeral`, the closed range from which the kernel hands out ports itself:
    above it where 1024 ports are left there, else below it from 10000 on, else below it from 1024
    on. A range that leaves less than 1024 ports on both sides gives ports of 61000-65535, which
    may then lie inside it. `step` and `array_task` count from 0; `array_task` is None outside an
    array. With Linux's default range, 32768-60999, the first choice of a plain job is
    61000 + job_id mod 4536, the rule of enroot's Slurm hook (50-slurm-pytorch.sh).
    """
    first, size = _pool(*ephemeral)
    offset = job_id + step * _STEP_STRIDE
    if array_task is not None:
        offset += (array_task + 1) * _ARRAY_STRIDE
    third = size // 3
    return (
        first + offset % size,
        first + (offset + third) % size,
        first + (offset + 2 * third) % size,
    )


def job_number(text: str) -> int:
    """Give a job's number: decimal text as it stands, any other text by its CRC-32.

    Text of more than 18 digits counts as other text: no scheduler gives such ids.
    """
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    return zlib.crc32(text.encode("utf-8", "surrogateescape"))


def _pool(low: int, high: int) -> tuple[int, int]:
    """Give the first port and the size of the range that the candidates come from."""
    for first, last in (
        (max(high + 1, FIRST_FREE_PORT), LAST_PORT),
        (FIRST_QUIET_PORT, low - 1),
        (FIRST_FREE_PORT, low - 1),
    ):
        if last - first + 1 >= ENOUGH_PORTS:
            return first, last - first + 1
    return FALLBACK_FIRST_PORT, LAST_PORT - FALLBACK_FIRST_PORT + 1
