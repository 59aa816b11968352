"""A thread that sees whether the sampling loop still turns.

A driver's call that never returns keeps the loop's thread in the kernel: it would neither sample
the other GPUs nor hear a TERM, and a step that does not end makes Slurm drain the node.
"""

from __future__ import annotations

import signal
import threading
import time

from hpckit.account.sample_format import Moment
from hpckit.sampler.job_counters import stat_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from hpckit.sampler.job_counters import JobProcesses


class JobEnd:
    """The job's time limit, a process that was named, and the ranks that are left."""

    def __init__(
        self, *, end_s: float | None, parent: int | None, processes: JobProcesses | None
    ) -> None:
        """`end_s` is SLURM_JOB_END_TIME; `processes` None is a job without Slurm."""
        self._end_s = end_s
        self._parent = parent
        self._started = None if parent is None else _start_of(parent)
        self._processes = processes

    def over(self) -> str | None:
        """Why it is over."""
        if self._end_s is not None and time.time() > self._end_s and not self.has_ranks():
            # With ranks the limit was raised, or Slurm is about to end them and this.
            return "time limit"
        if self._parent is not None and (
            self._started is None or _start_of(self._parent) != self._started
        ):
            return "parent gone"
        return None

    def has_ranks(self) -> bool:
        """Whether ranks of the job are alive on this node."""
        return self._processes is not None and self._processes.has_ranks()


def _start_of(pid: int) -> int | None:
    """When a process began, which tells it from a later one of its number; None for a zombie."""
    stat = stat_of(pid)
    return None if stat is None or stat.is_zombie else stat.start_ticks


class SignalClock:
    """Clocks of the system; `ends` are the signals that end waiting, which must be blocked."""

    def __init__(self, ends: Iterable[int]) -> None:
        self._ends = frozenset(ends)
        self.heard: int | None = None
        """The signal that came."""

    def now(self) -> Moment:
        """The three clocks."""
        return Moment(
            time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        )

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wait_until(self, monotonic_ns: int) -> bool:
        """Wait until then; true as soon as one of the signals came."""
        left_ns = max(monotonic_ns - time.monotonic_ns(), 0)
        info = signal.sigtimedwait(self._ends, left_ns / 1e9)
        # SIGSTOP and SIGCONT interrupt the call: CPython then waits for the rest of the time, and
        # where none is left it returns a struct that nobody has filled.
        if info is None or info.si_signo not in self._ends:
            return False
        self.heard = info.si_signo
        return True


def listen(*, by_hand: bool) -> frozenset[int]:
    """Make this process deaf to all signals but those that end it, which are blocked, and given.

    Of a job's signals TERM alone ends a sampler: `--signal` and scancel may send any other to all
    steps. By hand the terminal's do too, and Ctrl-Z stops it. The end of a child is seen, whoever
    started this process: where CHLD is ignored its number may be another's at any moment.
    """
    ends = {signal.SIGTERM}
    kept = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT}
    kept |= {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    if by_hand:
        ends |= {signal.SIGINT, signal.SIGQUIT}
        # Under nohup(1) a session that is closed changes nothing.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            ends.add(signal.SIGHUP)
        kept |= {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    for number in signal.valid_signals() - kept - ends:
        signal.signal(number, signal.SIG_IGN)
    for number in ends | {signal.SIGCHLD}:
        # A signal that is ignored is discarded even while it is blocked.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    return frozenset(ends)


LIMIT_S = 20.0
"""How long one tick may take: a driver that resets a GPU stops all callers for some seconds."""
BEGIN_LIMIT_S = 90.0
"""The same for the beginning: without persistence mode the driver wakes each GPU first."""
ASKED_LIMIT_S = 10.0
"""The same once the end was asked for: Slurm's KillWait is 30 s unless the site says less."""
PATIENCE_S = 1.0
"""How long a request to end may stay unheard."""
_LOOK_S = 1.0


class Beat:
    """What is under way: since when, and with which GPU."""

    def __init__(self) -> None:
        self.begun_ns = time.monotonic_ns()
        """When it began, 0 while the loop waits."""
        self.limit_s = BEGIN_LIMIT_S
        self.is_asked = False
        """Whether the end was asked for, and heard."""
        self.gpu: str | None = None
        """The GPU whose driver was called, by uuid, or `nvidia` for the driver itself."""


class Guard:
    """Looks once a second; `hung` is called in its thread, once, and does not return."""

    def __init__(
        self, beat: Beat, ends: Set[int], hung: Callable[[bool], None], look_s: float = _LOOK_S
    ) -> None:
        """`hung` is told whether the end was asked for."""
        self._beat = beat
        self._ends = ends
        self._hung = hung
        self._look_s = look_s
        threading.Thread(target=self._run, name="hpckit-guard", daemon=True).start()

    def _run(self) -> None:
        unheard_s = 0.0
        stopped_ns = 0
        while True:
            slept_ns = -time.monotonic_ns()
            time.sleep(self._look_s)
            now_ns = time.monotonic_ns()
            slept_ns += now_ns
            if slept_ns > (self._look_s + _LOOK_S) * 1e9:
                # The whole process was stopped: what is under way had no time either.
                stopped_ns, unheard_s = now_ns, 0.0
            begun_ns = self._beat.begun_ns
            late_s = (now_ns - max(begun_ns, stopped_ns)) / 1e9 if begun_ns else 0.0
            # The loop takes a signal as soon as it waits: one that is still pending is unheard.
            pending = late_s > self._look_s / 2 and bool(signal.sigpending() & self._ends)
            unheard_s = unheard_s + self._look_s if pending else 0.0
            is_asked = self._beat.is_asked
            limit_s = min(self._beat.limit_s, ASKED_LIMIT_S if is_asked else BEGIN_LIMIT_S)
            if late_s > limit_s or unheard_s > PATIENCE_S:
                self._hung(pending or is_asked)
                return
