"""External commands side by side, whose output is heard while they run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from hpckit.adapters.process import ProcessRunner, kill_group, shell_code, start, text_of
from hpckit.ports import HeardCommand

_TICK_S = 0.05
_AT_ONCE = 16


class ListeningRunner(ProcessRunner):
    """A ProcessRunner that also listens; 16 commands run at once, the others follow."""

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
            for at in list(running):
                ended[at] = running.pop(at).given_up()
        finally:
            for one in running.values():
                one.close()
        return [ended.get(at, HeardCommand(stderr="")) for at in range(len(commands))]


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
            self._process = start(argv, self._out, self._err, environment)
        finally:
            if self._process is None:
                self.close()

    def has_ended(self) -> bool:
        """Hand on the lines that have come, and tell whether there will be more."""
        is_over = self._process is None or self._process.poll() is not None
        self._hear(is_end=is_over)
        return is_over

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
