"""Starts a slurmctld on each of many configurations, and says what became of it.

A program for the inside of a container, as root, with munge running: from stdin comes {name: {file:
text}}, to stdout goes {name: {"topology": what scontrol prints, or null, "log": …}}.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

WAIT_S = 20.0


def trial(folder: Path, files: dict[str, str]) -> dict[str, str | None]:
    """One slurmctld from its start until it answers or ends."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
    log = folder / "log"
    with log.open("w") as out:
        started = subprocess.Popen(["slurmctld", "-D", "-i"], env=env, stdout=out, stderr=out)
        answer = answered(started, env)
        started.terminate()
        started.wait(timeout=WAIT_S)
    return {"topology": answer, "log": log.read_text(errors="replace")[-2000:]}


def answered(started: subprocess.Popen[bytes], env: dict[str, str]) -> str | None:
    """What `scontrol show topology` prints, None where slurmctld ends before."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        time.sleep(0.2)
        if started.poll() is not None:
            return None
        argv = ["timeout", "2", "scontrol", "show", "topology"]
        done = subprocess.run(argv, env=env, capture_output=True, encoding="utf-8", check=False)
        # Without a controller 24.11 can give up and exit with 0.
        if done.returncode == 0 and done.stdout and started.poll() is None:
            return done.stdout
    return None


def main() -> None:
    """Try all of them, one after the other."""
    found = {}
    for name, files in json.load(sys.stdin).items():
        folder = Path("/tmp/slurmctld-trial")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        found[name] = trial(folder, files)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
