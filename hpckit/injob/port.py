"""A port for the ranks to meet at: the first of the job's own candidates that is free here."""

from __future__ import annotations

import errno
import socket
import sys
import zlib

from hpckit.core.talk import say

LAST_PORT = 65535
FIRST_FREE_PORT = 1024
FALLBACK_FIRST_PORT = 61000
ENOUGH_PORTS = 1024

_ARRAY_STRIDE = 337  # below ENOUGH_PORTS, so that it is no multiple of any pool's size
# What the kernel starts with: Documentation/networking/ip-sysctl.rst, ip_local_port_range.
_DEFAULT_RANGE = (32768, 60999)
_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


def port_candidates(
    job_id: int, *, array_task: int | None, ephemeral: tuple[int, int]
) -> tuple[int, int, int]:
    """Return three distinct TCP ports at which a job's ranks may meet, its first choice first.

    They lie outside `ephemeral`, the closed range from which the kernel hands out ports itself:
    above it where 1024 ports are left there, else below it from 10000 on, else below it from 1024
    on. A range that leaves less than 1024 ports on both sides gives ports of 61000-65535, which
    may then lie inside it. `array_task` is None outside an array. With Linux's default range,
    32768-60999, the first choice of a plain job is 61000 + job_id mod 4536, the rule of enroot's
    Slurm hook (50-slurm-pytorch.sh).
    """
    first, size = _pool(*ephemeral)
    offset = job_id + (0 if array_task is None else array_task + 1) * _ARRAY_STRIDE
    at, second, third = (first + (offset + n * (size // 3)) % size for n in range(3))
    return at, second, third


def job_number(text: str) -> int:
    """Give a job's number: decimal text as it stands, any other text by its CRC-32."""
    if text.isascii() and text.isdigit():
        return int(text)
    return zlib.crc32(text.encode("utf-8", "surrogateescape"))


def _pool(low: int, high: int) -> tuple[int, int]:
    """Give the first port and the size of the range that the candidates come from."""
    for first, last in (
        (max(high + 1, FIRST_FREE_PORT), LAST_PORT),
        (10000, low - 1),
        (FIRST_FREE_PORT, low - 1),
    ):
        if last - first + 1 >= ENOUGH_PORTS:
            return first, last - first + 1
    return FALLBACK_FIRST_PORT, LAST_PORT - FALLBACK_FIRST_PORT + 1


def port(words: list[str]) -> int | None:
    """Print the first free candidate port and return 0, or 1 when another holds each of them.

    `words` are pairs of option and value; an empty `--array-task` counts as absent, so that a
    script can pass a variable that Slurm sets in some jobs only. None when `words` is no command
    line.
    """
    options = dict(zip(words[::2], words[1::2], strict=False))
    array_task = options.get("--array-task", "")
    is_known = len(words) == 2 * len(options) and set(options) <= {"--job-id", "--array-task"}
    if not (is_known and _is_ordinal(array_task or "0") and options.get("--job-id")):
        return None
    found = free_port(options["--job-id"], array_task)
    if found is None:
        return 1
    number, name = found
    name.close()
    sys.stdout.write(f"{number}\n")
    return 0


def free_port(job_id: str, array_task: str) -> tuple[int, socket.socket] | None:
    """Return the first free port of a job's three candidates, and what keeps it until it is closed.

    None when others hold all of them.
    """
    candidates = port_candidates(
        job_number(job_id),
        array_task=int(array_task) if _is_ordinal(array_task) else None,
        ephemeral=ephemeral_range(_RANGE),
    )
    for candidate in candidates:
        if (name := _claim(candidate)) is not None:
            return candidate, name
    listed = ", ".join(map(str, candidates))
    say(f"none of the job's three candidate ports is free on this host: {listed}")
    return None


def claim_port(after: int, local_rank: int, ranks: int) -> tuple[int, socket.socket] | None:
    """Return a free port for one of a node's `ranks`, and what keeps it until it is closed.

    Each rank looks at ports of its own, from half a pool behind `after` on, where no job meets that
    began about the same time. None where no port is free.
    """
    first, size = _pool(*ephemeral_range(_RANGE))
    for n in range(local_rank, size, ranks):
        number = first + (after - first + size // 2 + n) % size
        if (name := _claim(number)) is not None:
            return number, name
    return None


def _claim(number: int) -> socket.socket | None:
    """Return what keeps a port until it is closed, None where it is taken.

    It is a name among the abstract sockets of this host (unix(7)): no two ranks, of any jobs, take
    one port before it is bound.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0hpckit-port-{number}")
        if is_free(number):
            return name
    except OSError:
        pass
    name.close()
    return None


def ephemeral_range(path: str) -> tuple[int, int]:
    """Read the closed range of ports that the kernel hands out itself, by default 32768-60999."""
    try:
        with open(path, encoding="ascii") as stream:
            low, high = map(int, stream.read().split())
    except (OSError, ValueError):
        return _DEFAULT_RANGE
    return low, high


def is_free(number: int) -> bool:
    """Say whether a TCP port can be bound on every address of this host, IPv4 and IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as both:
            both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            both.bind(("::", number))
            return True
    except OSError as error:
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            return False
    # No IPv6 here, or no socket that serves both families.
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as only:
            only.bind(("", number))
            return True
    except OSError:
        return False


def _is_ordinal(text: str) -> bool:
    return text.isascii() and text.isdigit()
