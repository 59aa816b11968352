"""The supervisor of a local job: what submitit's task process runs."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.core.late import Late
from hpckit.injob.supervise import catch_signals, exit_code_of
from hpckit.jobs.local_record import CancelRequest, LocalResult, LocalRun, read_record, write_record
from hpckit.jobs.process_tree import become_subreaper, descendants, mark_of, send_signal
from hpckit.slurm.values import JobState
from hpckit.spec.job_folder import CANCEL_FILE, RESULT_FILE, RUN_FILE, SCRIPT_FILE, log_file

if TYPE_CHECKING:
    import hashlib
    import socket
    import subprocess

    import psutil
else:
    psutil = Late("psutil")
    hashlib = Late("hashlib")
    socket = Late("socket")
    subprocess = Late("subprocess")

FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_TRAP_WAIT_S = 2.0
_POLL_S = 0.02
_UNKILLABLE_S = 60.0  # slurm.conf(5), UnkillableStepTimeout


class Supervision:
    """One script from its start to the end of its last descendant.

    `wake` is the read end of the pipe into which signals are written (signal.set_wakeup_fd).
    `script` must be a child of this process, and every child of this process part of the job.
    """

    def __init__(
        self,
        folder: Path,
        run: LocalRun,
        script: subprocess.Popen[bytes],
        wake: int,
        time_limit_s: int | None,
    ) -> None:
        self._folder = folder
        self._run = run
        self._script = script
        self._wake = wake
        self._kill_wait_s = run.kill_wait_s
        self._time_limit_s = time_limit_s
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._cause: tuple[JobState, str] | None = None
        self._status: int | None = None
        self._told: set[psutil.Process] = set()
        self._answered: CancelRequest | None = None
        self._give_up_s: float | None = None
        if time_limit_s is not None:
            self._timers.append((time.monotonic() + time_limit_s, self._time_out))

    def result(self) -> LocalResult:
        """Wait for the end of the script and of all that it started."""
        while not self._is_over():
            for number in self._arrived():
                self._on_signal(number)
            for timer in [timer for timer in self._timers if timer[0] <= time.monotonic()]:
                if timer in self._timers:
                    self._timers.remove(timer)
                    timer[1]()
            self._reap()
        return self._judge()

    def kill_rest(self) -> None:
        """Kill whatever is left now; nothing is, after `result`."""
        while descendants(os.getpid()) and not self._gave_up():
            self._kill_all()
            time.sleep(_POLL_S)
            self._reap()

    def _reap(self) -> None:
        """Take note of every child that has ended, adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._script.pid:
                self._status = status
                self._script.returncode = os.waitstatus_to_exitcode(status)
                self._script_ended()

    def _is_over(self) -> bool:
        return self._status is not None and (not descendants(os.getpid()) or self._gave_up())

    def _gave_up(self) -> bool:
        # A wait for a device or a file server cannot be interrupted, not even by SIGKILL.
        return self._give_up_s is not None and time.monotonic() > self._give_up_s

    def _arrived(self) -> list[int]:
        timeout_s = None if self._status is None else _POLL_S
        if self._timers:
            until_s = max(0.0, min(due_s for due_s, _ in self._timers) - time.monotonic())
            timeout_s = until_s if timeout_s is None else min(timeout_s, until_s)
        ready, _, _ = select.select([self._wake], [], [], timeout_s)
        return list(os.read(self._wake, 512)) if ready else []

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._on_term()
        elif number in FORWARDED:
            self._to_script(number)

    def _on_term(self) -> None:
        request = self._new_request()
        asked = None if request is None else request.signal
        if asked == "TERM":
            self._to_script(signal.SIGTERM)
            return
        hard = asked == "KILL"
        if self._cause is None and self._status is None:
            who = "SIGTERM" if request is None else f"{request.user} on {request.host}"
            self._cause = (JobState.CANCELLED, f"cancelled by {who}")
            if not hard:
                self._end_softly()
        if hard:
            self._timers = []
            self._kill_all()

    def _end_softly(self) -> None:
        self._to_script(signal.SIGTERM)
        now_s = time.monotonic()
        # A bash with a trap runs it, and forwards, only after its foreground command has ended.
        self._timers = [
            (now_s + min(_TRAP_WAIT_S, self._kill_wait_s / 2), self._terminate_all),
            (now_s + self._kill_wait_s, self._kill_all),
        ]

    def _time_out(self) -> None:
        self._cause = (
            JobState.TIMEOUT,
            f"the job reached its time limit of {self._time_limit_s} s",
        )
        self._terminate_all()
        self._timers = [(time.monotonic() + self._kill_wait_s, self._kill_all)]

    def _script_ended(self) -> None:
        self._terminate_all()
        deadlines = [timer for timer in self._timers if timer[1] == self._kill_all]
        self._timers = deadlines or [(time.monotonic() + self._kill_wait_s, self._kill_all)]

    def _terminate_all(self) -> None:
        left = [process for process in descendants(os.getpid()) if process not in self._told]
        self._told.update(left)
        send_signal(left, signal.SIGTERM)
        send_signal(left, signal.SIGCONT)

    def _kill_all(self) -> None:
        if self._give_up_s is None:
            self._give_up_s = time.monotonic() + _UNKILLABLE_S
        send_signal(descendants(os.getpid()), signal.SIGKILL)
        # Again, for what was started meanwhile.
        self._timers = [(time.monotonic() + _POLL_S, self._kill_all)]

    def _to_script(self, number: int) -> None:
        script = [p for p in descendants(os.getpid()) if p.pid == self._script.pid]
        send_signal(script, number)
        if number == signal.SIGTERM:
            self._told.update(script)
            send_signal(script, signal.SIGCONT)

    def _new_request(self) -> CancelRequest | None:
        try:
            request = read_record(self._folder, CANCEL_FILE, CancelRequest)
        except StorageFailed:
            return None
        if request == self._answered:
            return None
        self._answered = request
        return request

    def _judge(self) -> LocalResult:
        status = self._status or 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        exit_code = exit_code_of(status)
        state, reason = self._cause or _own_end(exit_code, number)
        if left := descendants(os.getpid()):
            pids = ", ".join(str(process.pid) for process in left)
            reason = (
                f"{reason or 'the script ended'}; these processes did not end on SIGKILL: {pids}"
            )
        return _result(self._run, exit_code, state, reason, exit_signal=number)


def _result(
    run: LocalRun,
    exit_code: int,
    state: JobState,
    reason: str | None,
    *,
    exit_signal: int | None = None,
) -> LocalResult:
    """The result of a run that has ended just now."""
    return LocalResult(
        exit_code=exit_code,
        exit_signal=exit_signal,
        state=state,
        reason=reason,
        started_s=run.started_s,
        ended_s=time.time(),
    )


def _own_end(exit_code: int, number: int | None) -> tuple[JobState, str | None]:
    if number is not None:
        return JobState.FAILED, f"the script was killed by {signal.Signals(number).name}"
    return JobState.FAILED if exit_code else JobState.COMPLETED, None


# Python's own variables would steer the supervisor, submitit's belong to a job around this one,
# and by hpckit's a job's processes are told from their supervisor.
_HELD_PREFIXES = ("PYTHON", "SUBMITIT_", "_TEST_CLUSTER_", "HPCKIT_")
_HELD = "_HPCKIT_HELD_"
_NOT_RUNNABLE = 126  # POSIX.1-2024, Shell Command Language, 2.8.2
_NOT_FOUND = 127
_RESULT_ATTEMPTS = 3
_RESULT_PAUSE_S = 1.0
_RESERVE_FILE = ".reserve"
_RESERVE_BYTES = 4096
"""Space for the result, given back where the job itself has filled the disk."""


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
    with suppress(OSError):
        (job / _RESERVE_FILE).write_bytes(bytes(_RESERVE_BYTES))
    try:
        script = _start(job, Path(workdir), script_sha256)
    except _NotStartedError as error:
        result = _result(run, error.code, JobState.FAILED, error.message)
    else:
        result = _supervise(job, run, script, wake, time_limit_s)
    _record_result(job, result)
    return result.exit_code


def _catch_signals() -> int:
    """Turn signals into bytes of a pipe, also those that were ignored or blocked at submission."""
    wake = catch_signals((signal.SIGTERM, signal.SIGCHLD, *FORWARDED))
    # A signal that was ignored at submission (nohup, a background shell) stays ignored across
    # exec(2), and bash cannot trap it.
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def _new_run(script_sha256: str, kill_wait_s: float) -> LocalRun:
    own = mark_of(os.getpid())
    if own is None:
        raise StorageFailed("this process is not in /proc; is /proc mounted?")
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
                f"{SCRIPT_FILE} changed after submission: its SHA-256 is {found}, expected "
                f"{script_sha256}",
            )
        log = os.open(job / log_file(None), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return subprocess.Popen(
            ["bash", str(script)],
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
        return f"cannot enter the working directory {workdir}: {error.strerror}"
    if error.filename == "bash":
        return f"cannot run bash: {error.strerror}"
    return f"the script was not started: {error}"


def _supervise(
    job: Path, run: LocalRun, script: subprocess.Popen[bytes], wake: int, time_limit_s: int | None
) -> LocalResult:
    supervision = Supervision(job, run, script, wake, time_limit_s)
    try:
        _record_script(job, run, script.pid)
        return supervision.result()
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


def _record_result(job: Path, result: LocalResult) -> None:
    for attempt in range(_RESULT_ATTEMPTS):
        try:
            write_record(job, RESULT_FILE, result)
        except StorageFailed as error:
            _say(str(error))
            with suppress(OSError):
                (job / _RESERVE_FILE).unlink()
                continue
            if attempt + 1 < _RESULT_ATTEMPTS:
                time.sleep(_RESULT_PAUSE_S)
        else:
            (job / _RESERVE_FILE).unlink(missing_ok=True)
            return


def _say(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"hpckit: {text}\n")


if __name__ == "__main__":
    _folder, _workdir, _digest, _limit, _wait = sys.argv[1:]
    _limit_s = None if _limit == "None" else int(_limit)
    sys.exit(run_script(_folder, _workdir, _digest, _limit_s, float(_wait)))
