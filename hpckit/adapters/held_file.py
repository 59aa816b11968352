"""A small file of the kernel that is read again and again through one descriptor."""

from __future__ import annotations

import os

_MOST_BYTES = 8192


class HeldFile:
    """The file at `path`; a pread at 0 makes the kernel write it anew."""

    def __init__(self, path: str) -> None:
        """Raises OSError where it cannot be opened or read."""
        self.path = path
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        self._fd = os.open(path, flags)
        try:
            os.pread(self._fd, _MOST_BYTES, 0)
        except OSError:
            os.close(self._fd)
            raise

    def read(self) -> bytes:
        """Its first 8 KiB, empty once it is gone or refuses."""
        try:
            return os.pread(self._fd, _MOST_BYTES, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


def hold(path: str) -> HeldFile | None:
    """The file, None where it cannot be read."""
    try:
        return HeldFile(path)
    except OSError:
        return None
