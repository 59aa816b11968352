"""Commands that are listened to, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hpckit.core.process import ListeningRunner

ENDING_WELL = "trap 'echo given back >&2; exit 0' TERM; echo started; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo started; while :; do sleep 0.05; done"
KILLED = """
import os, signal, sys
from hpckit.core.process import ListeningRunner
script = "trap 'touch $0; exit' TERM; echo started; while :; do sleep 0.05; done"
die = lambda line: os.kill(os.getpid(), signal.SIGKILL)
ListeningRunner().listen([("sh", "-c", script, sys.argv[1])], 60, die)
"""


def test_a_command_that_is_given_up_is_asked_to_end() -> None:
    """Srun gives its allocation back when it gets SIGTERM, and cannot when it is killed."""
    (ended,) = ListeningRunner().listen([("sh", "-c", ENDING_WELL)], 1, lambda _: None)
    assert ended.is_late
    assert ended.stderr == "given back\n"


def test_a_command_that_does_not_end_is_killed() -> None:
    """One that ignores SIGTERM is waited for no longer than a moment."""
    begun_s = time.monotonic()
    (ended,) = ListeningRunner().listen([("sh", "-c", DEAF)], 1, lambda _: None)
    assert ended.is_late
    assert time.monotonic() - begun_s < 10


def test_a_command_is_asked_to_end_when_hpckit_is_killed(tmp_path: Path) -> None:
    """Also kill -9 leaves no srun that holds or waits for an allocation."""
    mark = tmp_path / "given-back"
    done = subprocess.run([sys.executable, "-c", KILLED, mark], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    end_s = time.monotonic() + 20
    while not mark.exists():
        assert time.monotonic() < end_s
        time.sleep(0.02)
