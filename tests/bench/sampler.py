"""What the sampler costs beside a job: CPU, memory, bytes, its start; on eight synthetic GPUs.

CPU is /proc/PID/task/*/schedstat of the packed sampler, from 3 s after its start, and includes what
the fake NVML of docker/ computes. Exits 1 when a figure is over its limit. `--slope` samples 36,000
ticks at 100 Hz more, which takes 7 minutes, for what the memory gains.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from hpckit.adapters.injob_archive import pack_injob
from hpckit.model.samples import GPU, Block, read_blocks
from tests.fakes.nvml_library import PROFILES, build_fake_nvml

PROFILE = PROFILES / "dgx-h100-busy.toml"
LIMITS_PCT = {1.0: 0.15, 10.0: 1.0, 100.0: 6.0}
MOST_RSS_MB = 25.0
MOST_SLOPE_MB = 1.0
MOST_BYTES = 80.0
MOST_START_MS = 60.0
WARM_UP_S = 3.0
SLOPE_WARM_UP_S = 30.0
SLOPE_TICKS = 36_000


class Figure(NamedTuple):
    """One measured number beside its limit."""

    name: str
    value: float
    limit: float

    def line(self) -> str:
        """As it is printed."""
        word = "ok" if self.value <= self.limit else "OVER"
        return f" {word:5} {self.name:40} {self.value:9.3f}   at most {self.limit:g}"


class Sampler:
    """A packed sampler under way."""

    def __init__(self, folder: Path, hz: float) -> None:
        self.out = folder / f"out-{hz:g}"
        self.out.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HPCKIT_FAKE_NVML": str(PROFILE),
            "LD_LIBRARY_PATH": str(folder),
        }
        argv = [sys.executable, "-I", str(folder / "injob.pyz"), "sample"]
        argv += ["--out", str(self.out), "--hz", str(hz)]
        self._process = subprocess.Popen(argv, env=env)
        self._proc = Path(f"/proc/{self._process.pid}")

    def cpu_s(self) -> float:
        """CPU seconds of all its threads so far."""
        threads = (self._proc / "task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9

    def rss_mb(self) -> float:
        """Its resident set."""
        pages = int((self._proc / "statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def end(self) -> tuple[int, int]:
        """End it: bytes of its file, and the GPU samples in it."""
        self._process.terminate()
        self._process.wait(30)
        path = next(self.out.rglob("*.samples"))
        data = path.read_bytes()
        blocks = (one for one in read_blocks(data) if isinstance(one, Block))
        return len(data), sum(
            len(one.payload) // one.header.record_bytes for one in blocks if one.header.kind == GPU
        )


def cost(folder: Path, hz: float, seconds: float) -> list[Figure]:
    """CPU, memory and bytes at one rate."""
    sampler = Sampler(folder, hz)
    time.sleep(WARM_UP_S)
    before, begun = sampler.cpu_s(), time.monotonic()
    time.sleep(seconds)
    pct = 100 * (sampler.cpu_s() - before) / (time.monotonic() - begun)
    rss_mb = sampler.rss_mb()
    size, samples = sampler.end()
    found = [Figure(f"{hz:g} Hz: % of a core", pct, LIMITS_PCT.get(hz, LIMITS_PCT[100.0]))]
    found.append(Figure(f"{hz:g} Hz: resident MB", rss_mb, MOST_RSS_MB))
    if samples >= 8 * 200:  # a short run is its META
        found.append(Figure(f"{hz:g} Hz: bytes a GPU sample", size / samples, MOST_BYTES))
    return found


def slope(folder: Path) -> Figure:
    """What the memory gains in 36,000 ticks, after half a minute."""
    sampler = Sampler(folder, 100.0)
    time.sleep(SLOPE_WARM_UP_S)
    before = sampler.rss_mb()
    time.sleep(SLOPE_TICKS / 100.0)
    gained = sampler.rss_mb() - before
    sampler.end()
    return Figure("100 Hz: MB gained in 36,000 ticks", gained, MOST_SLOPE_MB)


def start_ms(folder: Path) -> Figure:
    """CPU time of a sampler that samples once, the least of five."""
    argv = [sys.executable, "-I", str(folder / "injob.pyz"), "sample", "--duration", "0.001"]
    costs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*argv, "--out", str(folder)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        costs.append(1000 * spent_s)
    return Figure("start to end, CPU ms", min(costs), MOST_START_MS)


def main() -> int:
    """Print the figures; 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="at each rate")
    parser.add_argument("--slope", action="store_true", help="7 minutes more, for the memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = build_fake_nvml(Path(name))
        pack_injob(folder / "injob.pyz")
        figures = [start_ms(folder)]
        for hz in LIMITS_PCT:
            figures += cost(folder, hz, options.seconds)
        if options.slope:
            figures.append(slope(folder))
    sys.stdout.write(" 8 synthetic GPUs (docker/fake-nvml, dgx-h100-busy)\n")
    sys.stdout.writelines(f"{figure.line()}\n" for figure in figures)
    return int(any(figure.value > figure.limit for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
