"""What is lost when a sampler is killed at a random moment, and whether the rest can be read."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from hpckit.account.sample_format import GPU, GPU_RECORD, Block, read_blocks
from hpckit.account.samples import SampleReader
from hpckit.core.errors import ParseError
from tests.bench.account_figures import ROOT, Bench, CannotMeasure, Figure, Step, passed
from tests.bench.cli import ASK

MOST_LOST_S = 5.0
"""A flush period: so often at least the job folder gets what there is."""
AT_ONCE = 40
LONGEST_S = 12.0
HZ = "10"
_NS = 1_000_000_000


class Killed(NamedTuple):
    """One kill: seconds that are not in the file, whether any are, and how whole the file is."""

    lost_s: float
    wrote: bool
    cut_short: bool
    readable: bool


def at_random(bench: Bench) -> Iterator[Figure]:
    """Kill samplers at 10 Hz between 0 and 12 s after their start, the next on the same file."""
    kills = bench.pick(1000, 80)
    folders = [bench.place("crash") for _ in range(AT_ONCE)]
    environ = bench.environ()
    argv = bench.injob("sample", "--hz", HZ, "--out")
    share = [len(range(at, kills, AT_ONCE)) for at in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = pool.map(lambda at: _kills([*argv, str(folders[at])], environ, at, share[at]),
                        range(AT_ONCE))  # fmt: skip
        killed = [one for run in runs for one in run]
    yield Figure(
        name=f"{len(killed)} kills: most that one lost", value=max(one.lost_s for one in killed),
        unit="s", limit=MOST_LOST_S,
        beside=f"{sum(not one.wrote for one in killed)} before the first write, "
        f"{sum(one.cut_short for one in killed)} cut a block short",
    )  # fmt: skip
    yield Figure(
        name=f"{len(killed)} kills: files that cannot be read",
        value=sum(not one.readable for one in killed), unit="", limit=0,
    )  # fmt: skip


def _kills(argv: Sequence[str], env: dict[str, str], seed: int, count: int) -> list[Killed]:
    drawn = random.Random(seed)  # noqa: S311
    time.sleep(drawn.uniform(0, 4))
    path = Path(argv[-1]) / "account" / "restart-0" / "node-n1.samples"
    return [killed_after(argv, env, path, drawn.uniform(0, LONGEST_S)) for _ in range(count)]


def killed_after(argv: Sequence[str], env: dict[str, str], path: Path, seconds: float) -> Killed:
    """Start a sampler, kill it, and read its file as a report does."""
    begun_ns = time.monotonic_ns()
    process = subprocess.Popen(argv, env={**env, "SLURMD_NODENAME": "n1"})
    time.sleep(seconds)
    process.kill()
    killed_ns = time.monotonic_ns()
    process.wait()
    data = path.read_bytes() if path.exists() else b""
    newest_ns = newest_sample_ns(data)
    lost_ns = killed_ns - max(newest_ns, begun_ns)
    return Killed(lost_ns / _NS, newest_ns >= begun_ns, *condition_of(data))


def newest_sample_ns(data: bytes) -> int:
    """CLOCK_MONOTONIC of the last sample of a GPU, 0 where there is none."""
    newest_ns = 0
    for one in read_blocks(data):
        if isinstance(one, Block) and one.header.kind == GPU:
            last = GPU_RECORD.unpack_from(one.payload, len(one.payload) - GPU_RECORD.size)
            newest_ns = max(newest_ns, one.header.monotonic_ns + 1000 * int(last[0]))
    return newest_ns


def condition_of(data: bytes) -> tuple[bool, bool]:
    """Whether a file ends in a block cut short, and whether everything else can be read."""
    reader = SampleReader(data)
    try:
        for _ in reader:
            pass
    except ParseError:
        return False, False
    return reader.condition.is_cut_short, reader.condition.lost_blocks == 0


def on_the_cluster(bench: Bench) -> Iterator[Figure]:
    """Jobs of a real Slurm: a lost node, a requeued job. Raises CannotMeasure."""
    if bench.quick:
        raise CannotMeasure("--quick brings up no cluster")
    docker = shutil.which("docker")
    if not docker or subprocess.run(ASK, capture_output=True, check=False).returncode:
        raise CannotMeasure("no Docker engine answers: `docker/engine start`")
    tests = sorted(
        str(path.relative_to(ROOT))
        for pattern in ("test_account*.py", "test_report*.py")
        for path in (ROOT / "tests" / "cluster").glob(pattern)
    )
    env = {"HPCKIT_REQUIRE_CLUSTER": "1", "HPCKIT_CLUSTER": f"hpckit-bench-{os.getpid()}"}
    yield passed("accounts on the cluster: failed tests", "-m", "cluster", *tests, env=env)


STEPS = (
    Step("crash:kill", "samplers killed at random moments", at_random),
    Step("crash:cluster", "accounts on the cluster: failed tests", on_the_cluster),
)
