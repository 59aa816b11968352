"""A rendered script run by the real bash, with stand-ins for Slurm, torchrun and mpirun on PATH.

Each stand-in writes its words, NUL-separated, to `$SAW/<name>`, and then starts what it was given.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.packed import packed

RECORD = """\
#!/bin/bash
(($#)) && printf '%s\\0' "$@" >>"$SAW/${0##*/}" || : >>"$SAW/${0##*/}"
"""
ENVIRONMENT = 'env -0 >"$SAW/.$$" && mv "$SAW/.$$" "$SAW/environment"\n'
"""Whole or not at all, as tasks that run together write it."""
_SRUN = (
    RECORD
    + ENVIRONMENT
    + """\
tasks=1 next=
while [[ ${1:-} == --* ]]; do
  case $1 in --ntasks=*) tasks=${1#*=} ;; esac
  shift
done
[[ ${SRUN_TASKS:-} ]] && tasks=$SRUN_TASKS
if ((tasks == 1)); then SLURM_PROCID=0 exec "$@"; fi
for ((next = 0; next < tasks; next++)); do SLURM_PROCID=$next "$@" & done
wait
"""
)
_TORCHRUN = (
    RECORD
    + ENVIRONMENT
    + """\
while [[ ${1:-} && $1 != --no-python ]]; do shift; done
shift
exec "$@"
"""
)
_MPIRUN = RECORD + ENVIRONMENT + 'shift 2\nexec "$@"\n'
_SCONTROL = RECORD + "printf 'node1\\nnode2\\n'\n"
_SHOW = RECORD + ENVIRONMENT

STAND_INS = {
    "srun": _SRUN,
    "scontrol": _SCONTROL,
    "torchrun": _TORCHRUN,
    "mpirun": _MPIRUN,
    "show": _SHOW,
}
IN_A_JOB = {
    "SLURM_JOB_ID": "771234",
    "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURMD_NODENAME": "node1",
}


def with_runner() -> Mapping[str, str]:
    """The variables by which a script finds the runner."""
    return {"HPCKIT_INJOB": str(packed()), "HPCKIT_PYTHON": sys.executable}


WITHOUT_RUNNER = {"HPCKIT_INJOB": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a script ended, and what the stand-ins saw."""

    returncode: int
    stdout: str
    stderr: str
    saw: Path

    def words(self, name: str) -> list[str] | None:
        """The words that a stand-in was given, None when it was not called."""
        return nul_separated(self.saw / name)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the program saw."""
        pairs = nul_separated(self.saw / "environment") or []
        return dict(pair.split("=", 1) for pair in pairs)


def nul_separated(path: Path) -> list[str] | None:
    """The texts in a file of NUL-separated texts, None without the file."""
    if not path.exists():
        return None
    return path.read_bytes().decode().split("\0")[:-1]


class Stage:
    """A folder with stand-ins on PATH, in which scripts are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.saw = folder / "saw"
        for path in (self.bin, self.saw, folder / "home", folder / "work"):
            path.mkdir(parents=True)
        for name, text in STAND_INS.items():
            self.program(name, text)

    def program(self, name: str, text: str) -> None:
        """Put a program on PATH."""
        path = self.bin / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def start(self, script: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start the script as the leader of a process group."""
        path = self.folder / "job.sbatch"
        path.write_text(script, encoding="utf-8")
        return subprocess.Popen(
            ["bash", path],
            cwd=self.folder / "work",
            env={
                "PATH": f"{self.bin}:/usr/bin:/bin",
                "HOME": str(self.folder / "home"),
                "SAW": str(self.saw),
                **IN_A_JOB,
                **with_runner(),
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], timeout_s: float = 20) -> Ended:
        """Wait for the script; whatever outlives its time is killed."""
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return Ended(returncode=process.returncode, stdout=stdout, stderr=stderr, saw=self.saw)

    def run(self, script: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run the script to its end."""
        return self.end(self.start(script, env))


def until(fact: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait until `fact` holds."""
    deadline_s = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)
