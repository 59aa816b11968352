"""A record of every external command: what a site's operator was asked, when, and for how long."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Protocol

from hpckit.adapters.clock import Clock
from hpckit.adapters.listener import CommandListener, HeardCommand
from hpckit.adapters.process import CommandResult, CommandRunner
from hpckit.errors import StorageFailed

SCHEMA = "hpckit.command/1"


class Runner(CommandRunner, CommandListener, Protocol):
    """What runs commands either way."""


class LoggedRunner:
    """Runs commands through another runner, and appends a JSON line to a file for each."""

    def __init__(self, runner: Runner, path: Path, clock: Clock) -> None:
        self._runner = runner
        self._path = path
        self._clock = clock

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result of `argv`, on record. Raises StorageFailed, and what that runner raises."""
        with self._recorded(argv) as codes:
            result = self._runner.run(argv, timeout_s, environment)
            codes.append(result.returncode)
        return result

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command, on record once all have ended."""
        begun_s = self._clock.now_s()
        ended: Sequence[HeardCommand] = ()
        with self._open() as file:
            try:
                ended = self._runner.listen(commands, timeout_s, heard)
            finally:
                codes = [one.returncode for one in ended] or [None] * len(commands)
                with contextlib.suppress(OSError):
                    for argv, code in zip(commands, codes, strict=True):
                        file.write(self._line(argv, begun_s, code))
        return ended

    @contextlib.contextmanager
    def _recorded(self, argv: Sequence[str]) -> Iterator[list[int]]:
        """Writes the line in the end; the list is for the command's code, if it gave one."""
        begun_s = self._clock.now_s()
        codes: list[int] = []
        with self._open() as file:
            try:
                yield codes
            finally:
                # The command was run: a full disk must not make it look as if it was not.
                with contextlib.suppress(OSError):
                    file.write(self._line(argv, begun_s, codes[0] if codes else None))

    def _open(self) -> FileIO:
        try:
            # Its owner's alone: the words of a command name accounts, jobs and folders.
            # Not to wait either for whoever reads a FIFO.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
            handle = os.open(self._path, flags, 0o600)
            # Unbuffered: what could not be written is not tried again when the file is closed.
            return FileIO(handle, "ab")
        except OSError as error:
            raise StorageFailed(
                f"the command log {self._path} cannot be written: {error.strerror}",
                hint="unset HPCKIT_COMMAND_LOG, or name another file",
            ) from error

    def _line(self, argv: Sequence[str], begun_s: float, returncode: int | None) -> bytes:
        line = {
            "schema": SCHEMA,
            "begun_s": begun_s,
            "duration_s": round(self._clock.now_s() - begun_s, 6),
            "argv": list(argv),
            "returncode": returncode,
        }
        return f"{json.dumps(line)}\n".encode()
