"""A local job's script under supervision: signals, time limit, the end of all it started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpckit.adapters.local_record import CancelRequest, read_record
from hpckit.adapters.process_tree import descendants, send_signal
from hpckit.errors import StorageFailed
from hpckit.model.job_folder import CANCEL_FILE
from hpckit.model.slurm import JobState

FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SHELL_SIGNAL_BASE = 128
_TRAP_WAIT_S = 2.0
_POLL_S = 0.02
_UNKILLABLE_S = 60.0  # slurm.conf(5), UnkillableStepTimeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a script ended; the codes as in `LocalResult`."""

    exit_code: int
    exit_signal: int | None
    state: JobState
    reason: str | None


class Supervision:
    """One script from its start to the end of its last descendant.

    `wake` is the read end of the pipe into which signals are written (signal.set_wakeup_fd).
    `script` must be a child of this process, and every child of this process part of the job.
    """

    def __init__(
        self,
        folder: Path,
        script: subprocess.Popen[bytes],
        wake: int,
        *,
        time_limit_s: int | None,
        kill_wait_s: float,
    ) -> None:
        self._folder = folder
        self._script = script
        self._wake = wake
        self._kill_wait_s = kill_wait_s
        self._time_limit_s = time_limit_s
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._cause: tuple[JobState, str] | None = None
        self._status: int | None = None
        self._told: set[psutil.Process] = set()
        self._answered: CancelRequest | None = None
        self._give_up_s: float | None = None
        if time_limit_s is not None:
            self._timers.append((time.monotonic() + time_limit_s, self._time_out))

    def outcome(self) -> Outcome:
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
        """Kill whatever is left now; nothing is, after `outcome`."""
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
        self._cause = (JobState.TIMEOUT, f"the time limit of {self._time_limit_s} s was reached")
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

    def _judge(self) -> Outcome:
        code = os.waitstatus_to_exitcode(self._status or 0)
        number = -code if code < 0 else None
        exit_code = code if number is None else _SHELL_SIGNAL_BASE + number
        state, reason = self._cause or _own_end(exit_code, number)
        if left := descendants(os.getpid()):
            pids = ", ".join(str(process.pid) for process in left)
            reason = f"{reason or 'the script ended'}; these processes outlived SIGKILL: {pids}"
        return Outcome(exit_code=exit_code, exit_signal=number, state=state, reason=reason)


def _own_end(exit_code: int, number: int | None) -> tuple[JobState, str | None]:
    if number is not None:
        return JobState.FAILED, f"the script was ended by {signal.Signals(number).name}"
    if exit_code:
        return JobState.FAILED, f"the script ended with exit code {exit_code}"
    return JobState.COMPLETED, None
