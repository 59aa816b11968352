"""What processes cost: CPU time by clock_getcpuclockid(3), memory by /proc."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

READY_S = 60


class Cost(NamedTuple):
    """CPU as a percentage of one core, and resident memory of a process and its children."""

    cpu_pct: float
    rss_bytes: int


class Ran(NamedTuple):
    """How long a command took from start to end, and the most memory that it had at one time."""

    seconds: float
    most_pss_bytes: int


@contextmanager
def running(argv: Sequence[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process whose stdin stays open until the end of the block, and that ends with it."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        )
        try:
            yield process
        finally:
            for pid in [*family(process.pid)][::-1]:
                _end(pid)
            process.communicate()


def cost_of(pid: int, seconds: float) -> Cost:
    """What a process and its children cost during the next `seconds`."""
    before_ns, begun_s = _cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    spent_ns, elapsed_s = _cpu_ns(pid) - before_ns, time.monotonic() - begun_s
    return Cost(100 * spent_ns / 1e9 / elapsed_s, sum(rss_bytes(one) for one in family(pid)))


def ran(argv: Sequence[str], environ: Mapping[str, str], *, weighed: bool = False) -> Ran:
    """Run a command to its end, and look at its memory five times a second if it is `weighed`.

    Memory is the sum of what its processes have, shared pages divided among them (PSS), pages of
    files that they have mapped included. Raises CalledProcessError.
    """
    begun_s = time.perf_counter()
    process = subprocess.Popen(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    most = [0]
    if weighed:
        threading.Thread(target=_weigh, args=(process, most), daemon=True).start()
    _, said = process.communicate()
    seconds = time.perf_counter() - begun_s
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv, stderr=said)
    return Ran(seconds, most[0])


def until(is_true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does. Raises SystemExit where it does not."""
    deadline = time.monotonic() + READY_S
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} did not begin to measure")
        time.sleep(0.1)


def rss_bytes(pid: int) -> int:
    """Resident memory of one process, 0 for one that has gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for thread in _threads(pid):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def _weigh(process: subprocess.Popen[bytes], most: list[int]) -> None:
    while process.returncode is None:
        most[0] = max(most[0], sum(_pss_bytes(one) for one in family(process.pid)))
        time.sleep(0.2)


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _cpu_ns(pid: int) -> int:
    return sum(_process_ns(one) for one in family(pid))


def _process_ns(pid: int) -> int:
    """CPU time of a process with all threads that it had: clock_getcpuclockid(3) of Linux."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return 0


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
