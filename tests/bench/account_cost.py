"""What watching costs: CPU and memory of hpckit's sampler and of what users would pick instead."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.account_figures import ROOT, Bench, CannotMeasure, Figure, Step, missing
from tests.bench.account_processes import Cost, cost_of, rss_bytes, running, until

PEERS = ("zeus", "codecarbon", "exporter")
PEER_SCRIPT = Path(__file__).with_name("peers.py")
LIMITS_PCT = {1: 0.15, 10: 1.0, 100: 6.0}
ATTEMPTS = 3
"""zeus gives its process 10 s to start, which a busy machine does not always do."""
MOST_RSS_MB = 25.0
MOST_SLOPE_MB = 1.0
MOST_START_MS = 60.0
SLOPE_TICKS = 36_000
WARM_UP_S = 30.0


def at_rate(hz: int, bench: Bench) -> Iterator[Figure]:
    """The sampler of eight GPUs at a rate, and each peer at the same."""
    seconds = bench.pick(20 if hz == 1 else 10, 3)
    ours = sampler_cost(bench, hz, seconds)
    name = f"sampler, 8 GPUs at {hz} Hz"
    beside = f"in {seconds} s"
    yield Figure(
        name=f"{name}: CPU, of a core", value=ours.cpu_pct, unit="%", limit=LIMITS_PCT[hz],
        beside=beside,
    )  # fmt: skip
    yield Figure(name=f"{name}: RSS", value=ours.rss_bytes / 1e6, unit="MB", limit=MOST_RSS_MB)
    for peer in PEERS:
        what = f"{hz} Hz: CPU beside {peer}"
        try:
            cost = peer_cost(bench, peer, hz, seconds)
        except CannotMeasure as error:
            yield missing(what, str(error))
            continue
        yield Figure(
            name=what, value=ours.cpu_pct / cost.cpu_pct, unit="x", limit=1,
            beside=f"{peer} {cost.cpu_pct:.2f} %, {cost.rss_bytes / 1e6:.0f} MB",
        )  # fmt: skip


def sampler_cost(bench: Bench, hz: float, seconds: float) -> Cost:
    """The cost of `injob sample` at a rate, once it has settled. Raises CannotMeasure."""
    folder = bench.place("sampler")
    argv = bench.injob("sample", "--out", str(folder), "--hz", str(hz))
    with running(argv, bench.environ()) as process:
        until(lambda: any(folder.rglob("*.samples")), process)
        time.sleep(bench.pick(8, 3))
        return cost_of(process.pid, seconds)


def peer_cost(bench: Bench, name: str, hz: float, seconds: float) -> Cost:
    """The cost of a peer at a rate, once it has settled. Raises CannotMeasure."""
    argv = [bench.peers_python, "-P", str(PEER_SCRIPT), name, str(hz)]
    for _ in range(ATTEMPTS):
        with running(argv, bench.environ()) as process:
            for line in process.stdout or ():
                if line.strip() == "ready":
                    time.sleep(bench.pick(8, 3))
                    return cost_of(process.pid, seconds)
    raise CannotMeasure(f"{name} did not start in {ATTEMPTS} attempts: {' '.join(argv)}")


def start(bench: Bench) -> Iterator[Figure]:
    """CPU time of a sampler that samples once where there is no GPU, the least of five."""
    argv = bench.injob("sample", "--duration", "0.001", "--out", str(bench.place("start")))
    costs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, env={"PATH": os.environ["PATH"]})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        costs.append(1000 * spent_s)
    yield Figure(
        name="sampler without GPUs, start to end: CPU",
        value=min(costs),
        unit="ms",
        limit=MOST_START_MS,
    )


def slope(bench: Bench) -> Iterator[Figure]:
    """What the memory gains in 36,000 ticks, after half a minute."""
    name = f"sampler, {SLOPE_TICKS:,} ticks at 100 Hz: RSS gained"
    gained, ticks, how = (_real_slope if bench.whole else _jumped_slope)(bench)
    yield Figure(
        name=name, value=gained / 1e6, unit="MB", limit=MOST_SLOPE_MB, beside=f"{ticks}{how}"
    )


def jumped(bench: Bench, hz: float, ticks: int, out: Path) -> dict[str, int]:
    """Sample in a process whose clock jumps from tick to tick. Raises CannotMeasure."""
    argv = [sys.executable, "-m", "tests.bench.account_jump", str(out), str(hz), str(ticks)]
    clock = str(bench.place("clock") / "now")
    env = {**bench.environ(), "HPCKIT_FAKE_NVML_CLOCK": clock, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, check=True, env=env, cwd=ROOT, stdout=subprocess.PIPE)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def _jumped_slope(bench: Bench) -> tuple[int, str, str]:
    found = jumped(bench, 100, SLOPE_TICKS, bench.place("slope"))
    gained = found["end_bytes"] - found["warm_bytes"]
    return gained, f"{found['ticks']} ticks", ", clock jumps; --whole: 6 min of real time"


def _real_slope(bench: Bench) -> tuple[int, str, str]:
    folder = bench.place("slope")
    argv = bench.injob("sample", "--out", str(folder), "--hz", "100")
    with running(argv, bench.environ()) as process:
        until(lambda: any(folder.rglob("*.samples")), process)
        time.sleep(WARM_UP_S)
        before = rss_bytes(process.pid)
        time.sleep(SLOPE_TICKS / 100)
        return rss_bytes(process.pid) - before, f"{SLOPE_TICKS / 100:.0f} s", " of real time"


STEPS = (
    Step("cost:start", "sampler, start to end: CPU", start),
    *(
        Step(f"cost:{hz}hz", f"sampler at {hz} Hz, and its peers", partial(at_rate, hz))
        for hz in LIMITS_PCT
    ),
    Step("cost:slope", "sampler, RSS gained in 36,000 ticks", slope),
)
