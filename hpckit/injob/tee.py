"""One output stream of the command, copied byte for byte to this process's own and to the log."""

from __future__ import annotations

import os
import stat

from hpckit.injob.talk import reason, say

READ_BYTES = 65536
# A descriptor that polls as writable takes this much without blocking: PIPE_BUF, pipe(7).
PIPE_BYTES = 4096


class RankLog:
    """An open rank log, given up with one warning at the first write that fails."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        """Take the open descriptor."""
        self._fd: int | None = fd

    def write(self, data: bytes) -> None:
        """Append all of `data`, or give the log up."""
        if self._fd is None:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            say(f"the rank log ends here: {reason(error)}")
            self._fd = None


class Tee:
    """A pipe from the command, this process's own descriptor, and the log, between two events.

    It either waits to read (`pending` is empty) or waits to write, so a reader that stalls holds
    the command back, as without this process, and never holds up a signal.
    """

    __slots__ = ("_chunk_bytes", "_log", "_source", "_target", "open", "pending")

    def __init__(self, source: int, target: int, log: RankLog) -> None:
        """Copy from the pipe end `source`, made non-blocking, to the descriptor `target`."""
        os.set_blocking(source, False)
        self._source = source
        self._target: int | None = target
        self._log = log
        self._chunk_bytes = READ_BYTES if _is_file(target) else PIPE_BYTES
        self.open = True
        self.pending = memoryview(b"")

    def source(self) -> int | None:
        """Give the descriptor to read from, None while bytes wait to be written."""
        return None if self.pending else self._source

    def target(self) -> int | None:
        """Give the descriptor to write to, None while nothing waits."""
        return self._target if self.pending else None

    def read(self) -> int:
        """Take what the pipe holds, to the log at once; return the bytes, 0 for none now."""
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return 0
        self.open = bool(data)
        self._log.write(data)
        if self._target is not None:
            self.pending = memoryview(data)
        return len(data)

    def write(self) -> None:
        """Write one piece of what waits; a target that is closed or broken is given up."""
        if self._target is None:
            return
        try:
            written = os.write(self._target, self.pending[: self._chunk_bytes])
        except BlockingIOError:
            return
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                say(f"output ends here: {reason(error)}")
            self._target = None
            self.pending = memoryview(b"")
            return
        self.pending = self.pending[written:]


def same_file(first: int, second: int) -> bool:
    """Say whether two descriptors are one file, pipe or terminal; a closed one is no file."""
    try:
        a, b = os.fstat(first), os.fstat(second)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
