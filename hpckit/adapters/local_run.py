"""The supervisor of a local job: what submitit's task process runs."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType

from hpckit.adapters.local_record import (
    LocalResult,
    LocalRun,
    write_record,
)
from hpckit.adapters.local_supervision import FORWARDED, Outcome, Supervision
from hpckit.adapters.process_tree import become_subreaper, mark_of
from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.job_folder import RESULT_FILE, RUN_FILE, SCRIPT_FILE, log_file
from hpckit.model.slurm import JobState

# Python's own variables would steer the supervisor, submitit's belong to a job around this one,
# and by hpckit's a job's processes are told from their supervisor.
_HELD_PREFIXES = ("PYTHON", "SUBMITIT_", "_TEST_CLUSTER_", "HPCKIT_")
_HELD = "_HPCKIT_HELD_"
_NOT_RUNNABLE = 126  # POSIX.1-2024, Shell Command Language, 2.8.2
_NOT_FOUND = 127
_RESULT_ATTEMPTS = 3
_RESULT_PAUSE_S = 1.0


def supervisor_environment(environment: Mapping[str, str], search_path: str) -> dict[str, str]:
    """The job's environment made safe for the supervisor; `script_environment` is its inverse.

    `search_path` is the PYTHONPATH by which the supervisor finds hpckit and submitit.
    """
    held = {
        (_HELD + name if name.startswith(_HELD_PREFIXES) else name): value
        for name, value in environment.items()
    }
    return {
        **held,
        "PYTHONPATH": search_path,
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
        # PEP 538 would put LC_CTYPE into the environment that the script inherits.
        "PYTHONCOERCECLOCALE": "0",
    }


def script_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The job's environment as it was given, from the supervisor's."""
    own = {
        name: value
        for name, value in environment.items()
        if not name.startswith((*_HELD_PREFIXES, _HELD))
    }
    held = {
        name.removeprefix(_HELD): value
        for name, value in environment.items()
        if name.startswith(_HELD)
    }
    return {**own, **held}


class _NotStartedError(HpckitError):
    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = exit_code


def run_script(
    folder: str, workdir: str, script_sha256: str, time_limit_s: int | None, kill_wait_s: float
) -> int:
    """Run `job.sbatch` of a job folder to its end, record it, and give its exit code.

    Writes `run.json`, `logs/job.log` and `result.json`. When it returns, every descendant of the
    script has ended. Must be called in the main thread of a process that has no other children.
    Raises StorageFailed when `run.json` cannot be written; then nothing was started.
    """
    job = Path(folder)
    wake = _catch_signals()
    become_subreaper()
    run = _new_run(script_sha256, kill_wait_s)
    write_record(job, RUN_FILE, run)
    try:
        script = _start(job, Path(workdir), script_sha256)
    except _NotStartedError as error:
        outcome = Outcome(
            exit_code=error.code, exit_signal=None, state=JobState.FAILED, reason=error.message
        )
    else:
        outcome = _supervise(job, run, script, wake, time_limit_s)
    _record_result(job, run, outcome)
    return outcome.exit_code


def _catch_signals() -> int:
    """Turn signals into bytes of a pipe, where one that comes before the script waits for it."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    # A signal that was ignored at submission (nohup, a background shell) stays ignored across
    # exec(2), and bash cannot trap it.
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGTERM, signal.SIGCHLD, *FORWARDED):
        signal.signal(number, _noted)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake_read


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte in the wake-up pipe is the message."""


def _new_run(script_sha256: str, kill_wait_s: float) -> LocalRun:
    own = mark_of(os.getpid())
    if own is None:
        raise StorageFailed("/proc does not show this process; is it mounted?")
    return LocalRun(
        host=socket.gethostname(),
        pid=own.pid,
        pid_started_s=own.started_s,
        booted_s=own.booted_s,
        script_sha256=script_sha256,
        started_s=time.time(),
        kill_wait_s=kill_wait_s,
    )


def _start(job: Path, workdir: Path, script_sha256: str) -> subprocess.Popen[bytes]:
    script = job / SCRIPT_FILE
    log = -1
    try:
        found = hashlib.sha256(script.read_bytes()).hexdigest()
        if found != script_sha256:
            raise _NotStartedError(
                _NOT_RUNNABLE,
                f"{SCRIPT_FILE} is not the script that was submitted: its SHA-256 is {found}, "
                f"expected {script_sha256}",
            )
        log = os.open(job / log_file(None), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return subprocess.Popen(  # noqa: S603  the script that the user had rendered
            ["bash", str(script)],  # noqa: S607  the job's own PATH decides, as for its commands
            cwd=str(workdir),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=script_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE
        raise _NotStartedError(code, _start_reason(error, workdir)) from error
    finally:
        if log >= 0:
            os.close(log)


def _start_reason(error: OSError, workdir: Path) -> str:
    if error.filename == str(workdir):
        return f"the working directory {workdir} cannot be entered: {error.strerror}"
    if error.filename == "bash":
        return f"bash cannot be run: {error.strerror}"
    return f"the script was not started: {error}"


def _supervise(
    job: Path, run: LocalRun, script: subprocess.Popen[bytes], wake: int, time_limit_s: int | None
) -> Outcome:
    supervision = Supervision(
        job, script, wake, time_limit_s=time_limit_s, kill_wait_s=run.kill_wait_s
    )
    try:
        _record_script(job, run, script.pid)
        return supervision.outcome()
    finally:
        # Whatever went wrong here, the job does not outlive the one who watches it.
        supervision.kill_rest()


def _record_script(job: Path, run: LocalRun, pid: int) -> None:
    mark = mark_of(pid)
    if mark is None:
        return
    started_s = mark.started_s - mark.booted_s + run.booted_s
    try:
        write_record(job, RUN_FILE, replace(run, script_pid=pid, script_pid_started_s=started_s))
    except StorageFailed as error:
        # It serves only to clean up after a supervisor that was killed.
        _say(str(error))


def _record_result(job: Path, run: LocalRun, outcome: Outcome) -> None:
    result = LocalResult(
        exit_code=outcome.exit_code,
        exit_signal=outcome.exit_signal,
        state=outcome.state,
        reason=outcome.reason,
        started_s=run.started_s,
        ended_s=time.time(),
    )
    for attempt in range(_RESULT_ATTEMPTS):
        try:
            write_record(job, RESULT_FILE, result)
        except StorageFailed as error:
            _say(str(error))
            if attempt + 1 < _RESULT_ATTEMPTS:
                time.sleep(_RESULT_PAUSE_S)
        else:
            return


def _say(text: str) -> None:
    sys.stderr.write(f"hpckit: {text}\n")
