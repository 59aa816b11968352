"""What a rank's ledger adds to its start and to its end, when 16 begin and end at once.

Ranks with and without a ledger run in turns, so a busy machine slows both alike. A rank's entry is
the time from the start of its process to the first word of its command, its exit the time from the
command's last word to the end of the process; the figures are medians of the slowest of 16. The
driver is the fake one (synthetic), its nvmlInit is in the figures and shown beside them. Exits 1
when one is over its limit. Needs a C compiler for the fake.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from hpckit.adapters.injob_archive import pack_injob

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "docker" / "fake-nvml"
RANKS = 16
ROUNDS = 8
LIMIT_MS = 60
COMMAND_S = 3.0


class Took(NamedTuple):
    """Milliseconds of the slowest of the ranks."""

    entry_ms: float
    exit_ms: float


def main() -> int:
    """Print the figures; 1 when one is over its limit."""
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as name:
        folder = Path(name)
        subprocess.run(["make", "--silent", "-C", str(FAKE), f"OUT={folder}"], check=True)
        (folder / "logs").mkdir()
        pack_injob(folder / "hpckit-injob.pyz")
        pairs = [(once(folder, "0"), once(folder, "1")) for _ in range(ROUNDS)]
        ledgers = sorted(folder.rglob("*.ledger"))
        starts = [json.loads(path.read_text().splitlines()[0]) for path in ledgers]
    over = False
    for at, what in enumerate(Took._fields):
        without_ms, with_ms = (statistics.median(pair[on][at] for pair in pairs) for on in (0, 1))
        added_ms = with_ms - without_ms
        over = over or added_ms > LIMIT_MS
        print(
            f"ledger {what.removesuffix('_ms'):5}  {RANKS} at once, slowest: without "
            f"{without_ms:.0f} ms, with {with_ms:.0f} ms, added {added_ms:.0f} ms "
            f"(limit {LIMIT_MS} ms)"
        )
    init_ms = statistics.median(start["nvml_init_ms"] for start in starts)
    print(f"in the entry: loading and nvmlInit of the fake, {init_ms:.0f} ms")
    return int(over)


def once(folder: Path, ledger: str) -> Took:
    """Start 16 ranks, which end together, and time the slowest at both ends."""
    end_s = int(time.time() + COMMAND_S)
    begun = [(time.time(), _rank(folder, str(rank), ledger, end_s)) for rank in range(RANKS)]
    left = {process.pid: process for _, process in begun}
    ended: dict[int, float] = {}
    while left:
        pid, _ = os.wait()
        ended[pid] = time.time()
        left.pop(pid).returncode = 0
    entries, exits = [], []
    for begun_s, process in begun:
        assert process.stdout is not None
        first_s, last_s = map(float, process.stdout.read().split())
        entries.append(first_s - begun_s)
        exits.append(ended[process.pid] - last_s)
    return Took(1000 * max(entries), 1000 * max(exits))


def _rank(folder: Path, rank: str, ledger: str, end_s: int) -> subprocess.Popen[bytes]:
    env = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(folder),
        "HPCKIT_FAKE_NVML": str(FAKE / "profiles" / "dgx-h100.toml"),
        "HPCKIT_JOB_FOLDER": str(folder),
        "HPCKIT_LEDGER": ledger,
        **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(RANKS)},
        "CUDA_VISIBLE_DEVICES": str(int(rank) % 8),
    }
    entry = (sys.executable, "-I", str(folder / "hpckit-injob.pyz"), "rank", "--from", "env", "--")
    # bash itself tells the time: no process is started for it. Ranks end within the same moment.
    nap = f"sleep $((i = {end_s} - EPOCHSECONDS, i > 0 ? i : 0))"
    command = ("bash", "-c", f"echo $EPOCHREALTIME; {nap}; echo $EPOCHREALTIME")
    return subprocess.Popen([*entry, *command], env=env, stdout=subprocess.PIPE)


if __name__ == "__main__":
    sys.exit(main())
