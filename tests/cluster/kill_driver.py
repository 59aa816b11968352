"""Submits jobs and kills hpckit at chosen moments; runs on the login host, prints JSON.

`python3 kill_driver.py SCRATCH STAGE=COUNT...`, with the stages

- `none`: nothing is killed;
- `early`: at any moment from the start on;
- `before`: when sbatch was started, and has not begun to speak with slurmctld;
- `during`: within some milliseconds of sbatch's own start;
- `after`: when slurmctld has the job, and sbatch has not told its id;
- `late`: within some milliseconds of sbatch's end.

An `sbatch` earlier in PATH than Slurm's makes the moments; it calls Slurm's own.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WRAPPER = """#!/bin/sh
echo begun >"$KILL_NOTE"
case $KILL_STAGE in
before) exec sleep 60 ;;
after) id=$(/usr/bin/sbatch "$@") || exit; echo done >"$KILL_NOTE"; sleep 60 ;;
late) id=$(/usr/bin/sbatch "$@") || exit; echo done >"$KILL_NOTE"; echo "$id" ;;
*) exec /usr/bin/sbatch "$@" ;;
esac
"""
AWAITED = {"before": "begun", "during": "begun", "after": "done", "late": "done"}
JITTER_S = {"early": 0.8, "during": 0.015, "late": 0.03}
AT_ONCE = 4


def main() -> None:
    """Submit as many of each stage as asked, in a random order, four at once."""
    scratch = Path(sys.argv[1])
    (scratch / "bin").mkdir(parents=True, exist_ok=True)
    wrapper = scratch / "bin" / "sbatch"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    stages = [
        stage
        for stage, count in (word.split("=") for word in sys.argv[2:])
        for _ in range(int(count))
    ]
    random.shuffle(stages)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda one: submission(scratch, *one), enumerate(stages))
        print(json.dumps(list(told)))


def submission(scratch: Path, number: int, stage: str) -> dict[str, object]:
    """One submission: its stage, whether the kill met a living process, its end and words."""
    note = scratch / f"note-{number}"
    environment = {
        **os.environ,
        "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
        "KILL_STAGE": stage,
        "KILL_NOTE": str(note),
    }
    process = subprocess.Popen(
        ["hpckit", "submit", "--quiet", "--time", "1", "--no-account", "--", "true"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed = False
    if stage != "none":
        await_note(process, note, AWAITED.get(stage))
        time.sleep(random.uniform(0, JITTER_S.get(stage, 0)))  # noqa: S311  a moment, no secret
        killed = process.poll() is None
        process.send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    return {
        "stage": stage,
        "killed": killed and process.returncode == -signal.SIGKILL,
        "returncode": process.returncode,
        "out": out,
        "err": err,
    }


def await_note(process: subprocess.Popen[str], note: Path, word: str | None) -> None:
    """Return when the wrapper has written a word, or hpckit has ended."""
    while word is not None and process.poll() is None:
        if note.exists() and note.read_text().strip() == word:
            return
        time.sleep(0.001)


if __name__ == "__main__":
    main()
