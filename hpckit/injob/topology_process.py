"""The process that reads a node's topology, as the sampler has it: started, never waited for."""

from __future__ import annotations

import os
import signal

from hpckit.injob.talk import reason, sampler_on, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_QUIET = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL})
"""What ends a job ends this too, and is nothing to be said."""


class TopologyProcess:
    """One process at most; `look` is called now and then, by the thread that samples."""

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        self._argv = argv
        self._env = env
        self.pid: int | None = None
        """The process, None before its start and once its end was seen."""
        self._is_started = False

    def look(self) -> None:
        """Start it, or see whether it has ended."""
        if not self._is_started:
            self._is_started = True
            self._start()
        elif self.pid is not None:
            self._reap(self.pid)

    def end(self) -> None:
        """End it if it still runs."""
        pid, self.pid = self.pid, None
        if pid is not None:
            # Not reaped yet, so the number is still its own.
            os.kill(pid, signal.SIGKILL)

    def _start(self) -> None:
        # The sampler blocks or ignores most signals, and this must not: its time limit is one.
        changed = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        try:
            self.pid = os.posix_spawn(
                self._argv[0], self._argv, self._env, setsigmask=(), setsigdef=changed
            )
        except OSError as error:
            say(f"{sampler_on(self._env)}: the topology: {self._argv[0]}: {reason(error)}")

    def _reap(self, pid: int) -> None:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            self.pid = None
            return
        if not ended:
            return
        self.pid = None
        code = os.waitstatus_to_exitcode(status)
        if code and -code not in _QUIET:
            why = "it took too long" if -code == signal.SIGALRM else f"it ended with {code}"
            say(f"{sampler_on(self._env)}: the topology is not known: {why}")
