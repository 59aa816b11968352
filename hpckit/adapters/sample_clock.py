"""The sampler's clock: it waits to the microsecond, and hears who asks for the end."""

from __future__ import annotations

import signal
import time

from hpckit.model.samples import Moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NS = 1_000_000_000


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
        info = signal.sigtimedwait(self._ends, left_ns / _NS)
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
