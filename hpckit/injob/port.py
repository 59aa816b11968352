"""A port for the ranks to meet at: the first of the job's own candidates that is free here."""

from __future__ import annotations

import errno
import socket
import sys

from hpckit.decide.rendezvous import job_number, port_candidates
from hpckit.injob.talk import say

_RANGE_FILE = "/proc/sys/net/ipv4/ip_local_port_range"
# What the kernel starts with: Documentation/networking/ip-sysctl.rst, ip_local_port_range.
_DEFAULT_RANGE = (32768, 60999)
_OPTIONS = ("--job-id", "--array-task", "--step")
_MAX_DIGITS = 10


def port(words: list[str]) -> int | None:
    """Print the first free candidate port and return 0, or 1 when another holds each of them.

    `words` are pairs of option and value; an empty `--array-task` or `--step` counts as absent,
    so that a script can pass a variable that Slurm sets in some jobs only. None when `words` is
    no command line.
    """
    options = dict(zip(words[::2], words[1::2], strict=False))
    array_task, step = options.get("--array-task", ""), options.get("--step", "")
    well_formed = len(words) == 2 * len(options) and set(options) <= set(_OPTIONS)
    ordinals = _is_ordinal(array_task or "0") and _is_ordinal(step or "0")
    if not (well_formed and ordinals and options.get("--job-id")):
        return None
    number = free_port(options["--job-id"], array_task, int(step or "0"))
    if number is None:
        return 1
    sys.stdout.write(f"{number}\n")
    return 0


def free_port(job_id: str, array_task: str, step: int = 0) -> int | None:
    """Return the first free port of a job's three candidates, None when others hold all of them."""
    candidates = port_candidates(
        job_number(job_id),
        array_task=int(array_task) if _is_ordinal(array_task) else None,
        step=step,
        ephemeral=ephemeral_range(_RANGE_FILE),
    )
    number = next((candidate for candidate in candidates if is_free(candidate)), None)
    if number is None:
        listed = ", ".join(map(str, candidates))
        say(f"none of the job's three candidate ports is free on this host: {listed}")
    return number


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
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
