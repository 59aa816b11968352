"""Checks jobs by `hpckit check`, submits them, and says what Slurm then did with each.

A program for the inside of a login host, as a user: from stdin comes a list of texts of options;
to stdout goes a line of JSON for each. With `--mend` the remedy, where it is an option, is tried
too: `mended` is what became of the job with it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STARTED = ("RUNNING", "COMPLETING", "COMPLETED", "CONFIGURING", "FAILED")
PASSING = ("None", "Priority", "Resources", "BeginTime", "Prolog")
"""Reasons of a job that has not been looked at, or that waits for others."""
PATIENCE_S = 8.0


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def became_of(script: Path, *words: str) -> tuple[str, str]:
    """What Slurm does with the job: runs, waits or refused, and its words."""
    done = run("sbatch", "--parsable", *words, str(script))
    if done.returncode:
        return "refused", done.stderr.strip()
    job_id = done.stdout.strip().partition(";")[0]
    end_s, state, reason = time.monotonic() + PATIENCE_S, "", ""
    while time.monotonic() < end_s:
        listed = run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T %r").stdout
        lines = [line.partition(" ") for line in listed.splitlines()]
        started = [line for line in lines if line[0] in STARTED]
        state, _, reason = (started or lines or [("COMPLETED", "", "")])[0]
        if started or (state == "PENDING" and reason not in PASSING):
            break
        time.sleep(0.25)
    run("scancel", job_id)
    return ("runs" if state in STARTED else "waits"), reason


def trial(options: str, *, mend: bool) -> dict[str, Any]:
    """One job: what hpckit says of it, what Slurm does with it, and with it as hpckit would."""
    script = Path("trial.sh")
    script.write_text(f"#!/bin/bash\n#SBATCH --output=/dev/null {options}\nsleep 1\n")
    begun_s = time.monotonic()
    checked = run("hpckit", "check", str(script), "--json")
    took_s = time.monotonic() - begun_s
    try:
        found = json.loads(checked.stdout)
    except ValueError:
        found = {"findings": [], "notes": [checked.stderr]}
    slurm, words = became_of(script)
    told = {"options": options, "found": found["findings"], "notes": found["notes"],
            "took_s": took_s, "slurm": slurm, "words": words}  # fmt: skip
    grave = [one for one in found["findings"] if one["severity"] != "note"]
    if mend and grave:
        told["mended"] = mended(script, grave[0]["remedy"] or "")
    return told


def mended(script: Path, remedy: str) -> tuple[str, str] | None:
    """What becomes of the job as the remedy would have it; None for one that is no option."""
    if option := re.match(r"--[a-z-]+=[^\s]+(?=,? |,?$)", remedy):
        return became_of(script, option[0].rstrip(","))
    if name := re.match(r"remove (--[a-z-]+)", remedy):
        text = script.read_text()
        script.write_text(re.sub(rf"{name[1]}=\S+", "", text))
        return became_of(script)
    return None


def main() -> None:
    """Try all of them, one after the other."""
    os.chdir(sys.argv[1])
    for options in json.load(sys.stdin):
        sys.stdout.write(json.dumps(trial(options, mend="--mend" in sys.argv)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
