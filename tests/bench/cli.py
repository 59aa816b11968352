"""How long the command line and the rank entry take to start, as ratios measured in one run.

Each pair is timed in turns, so a busy machine slows both sides alike; the figure is the median.
Exits 1 when one is over its limit. `--json` prints one document instead of the table. What a
submission adds to sbatch is measured on the cluster of docker/, where a Docker engine answers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hpckit.injob.archive import pack_injob

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
BASE = (sys.executable, "-c", "import click")
WARM_UPS = 2
RANKS = 16
FIGURES = 4

ASK = ("timeout", "10", "docker", "version")
PAIRS = """
import json, statistics, subprocess, sys, time
hpckit = ["hpckit", "submit", "--site", "docker", "--quiet", "--time", "1", "--", "true"]
render = ["hpckit", "render", *hpckit[2:4], *hpckit[5:]]
with open("/tmp/bench.sbatch", "wb") as file:
    subprocess.run(render, stdout=file, check=True)
sbatch = ["sbatch", "--output=/dev/null", "/tmp/bench.sbatch"]
def timed_ms(argv):
    begun_s = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - begun_s)
timed_ms(sbatch), timed_ms(hpckit)
pairs = [(timed_ms(sbatch), timed_ms(hpckit)) for _ in range(int(sys.argv[1]))]
print(json.dumps([statistics.median(one) for one in zip(*pairs)]))
"""
"""Runs on the login host; prints the medians of sbatch and of hpckit, taken in turns, in ms."""

Timed = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number beside its limit; `unit` is "x" for a ratio."""

    name: str
    value: float
    unit: str
    limit: float
    base_ms: float
    measured_ms: float

    @property
    def kept(self) -> bool:
        """Whether the value is within its limit."""
        return self.value <= self.limit


def run_s(argv: tuple[str, ...]) -> float:
    """Seconds that one command takes from start to end; raises when it fails."""
    start_s = time.perf_counter()
    # Without compiled modules every run would pay for compiling ours, and not click's.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env, check=True)
    return time.perf_counter() - start_s


def together_s(argv: tuple[str, ...], environments: list[Mapping[str, str]]) -> float:
    """Seconds until the last of the processes ends, one an environment, all started at once."""
    start_s = time.perf_counter()
    started = [
        subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for env in environments
    ]
    codes = [process.wait() for process in started]
    elapsed_s = time.perf_counter() - start_s
    if any(codes):
        raise SystemExit(f"{' '.join(argv)} ended with {codes}")
    return elapsed_s


def medians_ms(base: Timed, measured: Timed, rounds: int) -> tuple[float, float]:
    """The medians of both, run in turns `rounds` times after warming up."""
    for _ in range(WARM_UPS):
        base(), measured()
    pairs = [(base(), measured()) for _ in range(rounds)]
    return (
        1000 * statistics.median(pair[0] for pair in pairs),
        1000 * statistics.median(pair[1] for pair in pairs),
    )


def ratio(name: str, argv: tuple[str, ...], limit: float, rounds: int) -> Figure:
    """How many times as long as `import click` the command takes."""
    base_ms, measured_ms = medians_ms(lambda: run_s(BASE), lambda: run_s(argv), rounds)
    return Figure(
        name=name,
        value=measured_ms / base_ms,
        unit="x",
        limit=limit,
        base_ms=base_ms,
        measured_ms=measured_ms,
    )


def rank_entry(folder: Path, limit_ms: float, rounds: int) -> Figure:
    """Milliseconds that the packed entry adds to a rank when 16 start at once on this machine."""
    archive = folder / "hpckit-injob.pyz"
    (folder / "logs").mkdir()
    pack_injob(archive)
    entry = (sys.executable, "-I", str(archive), "rank", "--from", "env", "--", "true")
    ranks: list[Mapping[str, str]] = [
        os.environ | {"RANK": str(i), "WORLD_SIZE": str(RANKS), "HPCKIT_JOB_FOLDER": str(folder)}
        for i in range(RANKS)
    ]
    base_ms, measured_ms = medians_ms(
        lambda: together_s(("true",), ranks), lambda: together_s(entry, ranks), rounds
    )
    return Figure(
        name=f"rank entry, {RANKS} at once, added per rank",
        value=(measured_ms - base_ms) / RANKS,
        unit="ms",
        limit=limit_ms,
        base_ms=base_ms,
        measured_ms=measured_ms,
    )


def submission(limit_ms: float, rounds: int) -> Figure | None:
    """Milliseconds that `hpckit submit` takes longer than sbatch with the same script.

    On the login host of a cluster of its own; None where no engine answers.
    """
    environ = os.environ | {"HPCKIT_CLUSTER": f"hpckit-bench-{os.getpid()}"}
    cluster = str(ROOT / "docker" / "cluster")
    if (
        not shutil.which("docker")
        or subprocess.run(ASK, capture_output=True, check=False).returncode
    ):
        return None
    try:
        subprocess.run([cluster, "up"], env=environ, check=True, capture_output=True)
        inside = [cluster, "exec", "login", "alice", "python3", "-c", PAIRS, str(rounds)]
        done = subprocess.run(inside, env=environ, check=True, capture_output=True, text=True)
    finally:
        subprocess.run([cluster, "down"], env=environ, check=False, capture_output=True)
    base_ms, measured_ms = json.loads(done.stdout)
    return Figure(
        name="hpckit submit, added to sbatch",
        value=measured_ms - base_ms,
        unit="ms",
        limit=limit_ms,
        base_ms=base_ms,
        measured_ms=measured_ms,
    )


def largest_example() -> Path:
    """The longest job file under examples/."""
    return max((ROOT / "examples").rglob("*.toml"), key=lambda path: path.stat().st_size)


def measure(rounds: int) -> list[Figure]:
    """Every figure of this suite."""
    hpckit = str(BIN / "hpckit")
    job = largest_example()
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as folder:
        figures = [
            ratio("hpckit --help", (hpckit, "--help"), 1.5, rounds),
            ratio(
                f"hpckit render {job.relative_to(ROOT)}", (hpckit, "render", str(job)), 3, rounds
            ),
            rank_entry(Path(folder), 60, rounds),
            submission(500, rounds),
        ]
    return [figure for figure in figures if figure is not None]


def table(figures: list[Figure]) -> str:
    """The figures for a person, one a line."""
    width = max(len(figure.name) for figure in figures)
    lines = [f"{'':{width}}  {'base':>9}  {'measured':>9}  {'result':>8}  {'limit':>7}"]
    lines += [
        f"{f.name:{width}}  {f.base_ms:6.1f} ms  {f.measured_ms:6.1f} ms  "
        f"{f.value:5.2f} {f.unit:2}  {f.limit:4g} {f.unit:2}  {'ok' if f.kept else 'OVER'}"
        for f in figures
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--rounds", type=int, default=11, help="pairs a figure (default 11)")
    given = options.parse_args()
    figures = measure(given.rounds)
    if given.json:
        rows = [asdict(figure) | {"kept": figure.kept} for figure in figures]
        print(json.dumps({"schema": "hpckit.bench/1", "suite": "cli", "figures": rows}, indent=2))
    else:
        print(table(figures))
        if len(figures) < FIGURES:
            print("not measured: hpckit submit beside sbatch (no Docker engine answers)")
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
