"""External commands side by side, whose output is heard while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hpckit.adapters.process import ProcessRunner, kill_group, shell_code, start, text_of

_TICK_S = 0.05
_AT_ONCE = 32
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardCommand:
    """A command that was listened to; `is_late` is one that was ended for taking too long."""

    stderr: str
    returncode: int | None = None

    @property
    def is_late(self) -> bool:
        """Whether it was ended, or not even begun, when the time was up."""
        return self.returncode is None


class CommandListener(Protocol):
    """Runs external commands whose output counts while they run."""

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command, in their order; all share the time and run side by side.

        They run in a clean environment. `heard` gets each line of their stdout, without its end,
        soon after it was printed. Raises ToolMissing.
        """
        ...


class ListeningRunner(ProcessRunner):
    """A ProcessRunner that also listens; 32 commands run at once, the others follow.

    One that is given up gets SIGTERM, and SIGKILL after two seconds: srun gives its allocation
    back, or ends its step, when it is asked to end. So it does when this process is killed.
    """

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command. Raises ToolMissing, AdapterError."""
        end_s = time.monotonic() + timeout_s
        ended: dict[int, HeardCommand] = {}
        running: dict[int, _Running] = {}
        waiting = list(enumerate(commands))
        try:
            while (waiting or running) and time.monotonic() < end_s:
                while waiting and len(running) < _AT_ONCE:
                    at, argv = waiting.pop(0)
                    running[at] = _Running(argv, self.clean_environment(), heard)
                for at in [at for at, one in running.items() if one.has_ended()]:
                    ended[at] = running.pop(at).result()
                time.sleep(_TICK_S if running else 0.0)
            _ask_to_end(list(running.values()))
            for at in list(running):
                ended[at] = running.pop(at).given_up()
        finally:
            _ask_to_end(list(running.values()))
            for one in running.values():
                one.close()
        return [ended.get(at, HeardCommand(stderr="")) for at in range(len(commands))]


def _ask_to_end(commands: Sequence[_Running]) -> None:
    """Send SIGTERM, and give them all together a moment for it."""
    for one in commands:
        one.ask_to_end()
    end_s = time.monotonic() + _GRACE_S
    while time.monotonic() < end_s and not all(one.is_over() for one in commands):
        time.sleep(_TICK_S)


class _Running:
    """A command and the files that it writes to."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], heard: Callable[[str], None]
    ) -> None:
        self._heard = heard
        self._at = 0
        self._out, self._err = os.memfd_create("stdout"), os.memfd_create("stderr")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = start(argv, self._out, self._err, environment, signal.SIGTERM)
        finally:
            if self._process is None:
                self.close()

    def has_ended(self) -> bool:
        """Hand on the lines that have come, and tell whether there will be more."""
        is_over = self.is_over()
        self._hear(is_end=is_over)
        return is_over

    def is_over(self) -> bool:
        """Whether its process has ended."""
        return self._process is None or self._process.poll() is not None

    def ask_to_end(self) -> None:
        """Send it SIGTERM."""
        if self._process is not None:
            self._process.terminate()

    def result(self) -> HeardCommand:
        """How it ended."""
        code = 0 if self._process is None else self._process.wait()
        ended = HeardCommand(stderr=text_of(self._err), returncode=shell_code(code))
        self.close()
        return ended

    def given_up(self) -> HeardCommand:
        """End it, and keep what it has said."""
        self._hear(is_end=True)
        late = HeardCommand(stderr=text_of(self._err))
        self.close()
        return late

    def close(self) -> None:
        """End what still runs, and close the files."""
        if self._process is not None:
            kill_group(self._process)
        os.close(self._out)
        os.close(self._err)

    def _hear(self, *, is_end: bool) -> None:
        new = os.pread(self._out, os.fstat(self._out).st_size - self._at, self._at)
        if not is_end:
            new = new[: new.rfind(b"\n") + 1]
        self._at += len(new)
        for line in new.decode("utf-8", errors="replace").splitlines():
            self._heard(line)
