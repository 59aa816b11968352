"""A command of hpckit, at the moment when its code begins."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

_CODE = "import hpckit.__main__ as begins; print(flush=True); begins.main()"
INTERRUPTED = (130, -signal.SIGINT)
"""The second where a KeyboardInterrupt, even a caught one, came inside an exec() of a string, as in
dataclasses: CPython ends itself so (Python/pythonrun.c, run_eval_code_obj)."""


def unmeasured() -> dict[str, str]:
    """The environment of a process whose coverage is not measured."""
    return {name: value for name, value in os.environ.items() if "COVERAGE" not in name}


def begun(*words: str) -> subprocess.Popen[bytes]:
    """`hpckit WORDS` in a session of its own, when Python has started and `main` begins.

    A signal that comes while Python itself starts ends it as Python likes, before any code of
    this project runs. Its coverage is not measured: a KeyboardInterrupt within coverage.py may
    leave a lock of its own taken (Collector.lock_data), and the process waits for ever.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, *words],
        env=unmeasured(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def interrupted(process: subprocess.Popen[bytes]) -> str:
    """Its stderr after Ctrl-C; once more where msgspec, hashing a Literal, clears the first."""
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=30)[1].decode()
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=30)[1].decode()
