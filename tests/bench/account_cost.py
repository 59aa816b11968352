"""What watching costs: CPU and memory of hpckit's sampler and of what users would pick instead."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PEERS = ("zeus", "codecarbon", "exporter")
PEER_PACKAGES = ("zeus", "codecarbon", "prometheus-client", "nvidia-ml-py")
PEER_SCRIPT = Path(__file__).with_name("peers.py")
READY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU as a percentage of one core, and resident memory of a process and its children."""

    cpu_pct: float
    rss_bytes: int


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
            for pid in [*_family(process.pid)][::-1]:
                _end(pid)
            process.communicate()


def cost_of(pid: int, seconds: float) -> Cost:
    """What a process and its children cost during the next `seconds`."""
    before_ns, begun_s = _cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    spent_ns, elapsed_s = _cpu_ns(pid) - before_ns, time.monotonic() - begun_s
    return Cost(
        cpu_pct=100 * spent_ns / 1e9 / elapsed_s,
        rss_bytes=sum(rss_bytes(one) for one in _family(pid)),
    )


def sampler_cost(archive: Path, hz: float, seconds: float, environ: Mapping[str, str]) -> Cost:
    """The cost of `injob sample` at a rate, once it has been under way for some seconds."""
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as folder:
        argv = [sys.executable, "-I", str(archive), "sample", "--out", folder, "--hz", str(hz)]
        with running(argv, environ) as process:
            _until(lambda: any(Path(folder).rglob("*.samples")), process)
            time.sleep(2)
            return cost_of(process.pid, seconds)


def peer_cost(
    python: str, name: str, hz: float, seconds: float, environ: Mapping[str, str]
) -> Cost | None:
    """The cost of a peer at a rate; None for one that does not start."""
    with running([python, "-P", str(PEER_SCRIPT), name, str(hz)], environ) as process:
        for line in process.stdout or ():
            if line.strip() == "ready":
                time.sleep(2)
                return cost_of(process.pid, seconds)
    return None


@contextmanager
def peers_python() -> Iterator[str | None]:
    """A Python that has the peers, in a folder of its own; None where pip cannot get them."""
    told = os.environ.get("HPCKIT_PEERS_PYTHON")
    if told:
        yield told
        return
    with tempfile.TemporaryDirectory(prefix="hpckit-peers-") as folder:
        python = str(Path(folder) / "bin" / "python")
        made = subprocess.run([sys.executable, "-m", "venv", folder], check=False)
        pip = [python, "-m", "pip", "install", "--quiet", *PEER_PACKAGES]
        if made.returncode or subprocess.run(pip, check=False, capture_output=True).returncode:
            yield None
        else:
            yield python


def rss_bytes(pid: int) -> int:
    """Resident memory of one process, 0 for one that has gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu_ns(pid: int) -> int:
    return sum(_process_ns(one) for one in _family(pid))


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


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in _threads(pid):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def _until(is_true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + READY_S
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} did not begin to measure")
        time.sleep(0.1)
