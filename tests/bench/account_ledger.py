"""What a rank's ledger adds to its start and to its end, when 16 begin and end at once.

Ranks with and without a ledger run in turns, so a busy machine slows both alike. A rank's entry is
the time from the start of its process to the first word of its command, less what its ledger says
that loading the driver and nvmlInit took; its exit is the time from the command's last word to the
end of the process. Figures are medians of the slowest of 16.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench.account_figures import PROFILES, Bench, Figure, Step

RANKS = 16
LIMIT_MS = 60
COMMAND_S = 3.0


class Took(NamedTuple):
    """Milliseconds of the slowest of the ranks: `entry_ms` without its nvmlInit, `raw_ms` with.

    `cpu_ms` is the CPU time of all ranks and their commands, divided by their number.
    """

    entry_ms: float
    exit_ms: float
    raw_ms: float
    init_ms: float
    cpu_ms: float


def at_once(bench: Bench) -> Iterator[Figure]:
    """What a ledger adds to entry and exit."""
    rounds = bench.pick(16, 3)
    once(bench, "1")
    pairs = [(once(bench, "0"), once(bench, "1")) for _ in range(rounds)]
    raw_ms = statistics.median(took.raw_ms for _, took in pairs)
    init_ms = statistics.median(took.init_ms for _, took in pairs)
    cpu_ms = [statistics.median(pair[on].cpu_ms for pair in pairs) for on in (0, 1)]
    for at, what in enumerate(("entry, nvmlInit apart", "exit")):
        without, added = (statistics.median(pair[on][at] for pair in pairs) for on in (0, 1))
        beside = f"without {without:.0f} ms, with {added:.0f} ms"
        if not at:
            beside += f", {raw_ms:.0f} ms with nvmlInit (median {init_ms:.0f} ms)"
            beside += f"; CPU time of a rank {cpu_ms[0]:.1f} ms, {cpu_ms[1]:.1f} ms with it"
        yield Figure(
            name=f"{what}, {RANKS} ranks at once",
            value=added - without, unit="ms", limit=LIMIT_MS,
            beside=beside,
        )  # fmt: skip


def once(bench: Bench, ledger: str) -> Took:
    """Start 16 ranks, which end together, and time the slowest at both ends."""
    folder = bench.place("ledger")
    (folder / "logs").mkdir()
    end_s = int(time.time() + COMMAND_S)
    begun = [(time.time(), _rank(bench, folder, str(rank), ledger, end_s)) for rank in range(RANKS)]
    left = {process.pid: process for _, process in begun}
    ended: dict[int, float] = {}
    cpu_s = 0.0
    while left:
        pid, _, usage = os.wait3(0)
        ended[pid] = time.time()
        cpu_s += usage.ru_utime + usage.ru_stime
        left.pop(pid).returncode = 0
    inits_ms = _inits_ms(folder)
    entries, exits, raw = [], [], []
    for rank, (begun_s, process) in enumerate(begun):
        assert process.stdout is not None
        first_s, last_s = map(float, process.stdout.read().split())
        raw.append(1000 * (first_s - begun_s))
        entries.append(raw[-1] - inits_ms.get(rank, 0))
        exits.append(1000 * (ended[process.pid] - last_s))
    init_ms = statistics.median(inits_ms.values() or [0])
    return Took(max(entries), max(exits), max(raw), init_ms, 1000 * cpu_s / RANKS)


def _inits_ms(folder: Path) -> dict[int, float]:
    starts = [json.loads(path.read_text().splitlines()[0]) for path in folder.rglob("*.ledger")]
    return {start["rank"]: start["nvml_init_ms"] for start in starts}


def _rank(
    bench: Bench, folder: Path, rank: str, ledger: str, end_s: int
) -> subprocess.Popen[bytes]:
    env = {
        **bench.environ(PROFILES / "dgx-h100.toml"),
        "HPCKIT_JOB_FOLDER": str(folder),
        "HPCKIT_LEDGER": ledger,
        **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(RANKS)},
        "CUDA_VISIBLE_DEVICES": str(int(rank) % 8),
    }
    # bash itself tells the time: no process is started for it. Ranks end within the same moment.
    nap = f"sleep $((i = {end_s} - EPOCHSECONDS, i > 0 ? i : 0))"
    command = ("bash", "-c", f"echo $EPOCHREALTIME; {nap}; echo $EPOCHREALTIME")
    argv = [*bench.injob("rank", "--from", "env", "--"), *command]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)


STEPS = (Step("ledger:16", f"entry and exit of {RANKS} ranks at once", at_once),)
