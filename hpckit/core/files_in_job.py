"""Files in places where anything may lie: read where they are files, and of a size that one has."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

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


def read_bytes(path: str, most: int = 4096) -> bytes:
    """The beginning of a file, also of one that gives a page at a time; empty for none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    data = b""
    try:
        while len(data) < most and (more := os.read(fd, most - len(data))):
            data += more
    except OSError:
        return data
    finally:
        os.close(fd)
    return data


MOST_BYTES = 64 * 1024**2
"""More than any file that hpckit writes."""


def read_regular(path: Path) -> bytes:
    """The bytes of a file.

    Raises OSError, also for what is no regular file (a FIFO would hang, a device never end) and
    for one over MOST_BYTES.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MOST_BYTES // 1024**2} MiB", str(path))
        return file.read(size + 1)


def open_regular(path: Path) -> BinaryIO:
    """A file to read from. Raises OSError, also for what is no regular file."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def write_whole(path: str, data: bytes, *, keeps_first: bool = False) -> None:
    """Write a file, mode 0600, at once or not at all. Raises OSError.

    With `keeps_first` a file that is there already stays: of several writers, the first one's is
    everybody's.
    """
    folder, name = os.path.split(path)
    temporary = f"{folder}/.{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(temporary, flags, 0o600)
    put = os.link if keeps_first else os.replace
    try:
        with open(handle, "wb") as file:
            file.write(data)
        put(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        if not keeps_first or not isinstance(error, FileExistsError):
            raise
        return
    if keeps_first:
        os.unlink(temporary)


def make_folder(folder: str) -> None:
    """Make a folder for its owner alone; one that another rank has made will do."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return


def make_folders(folder: str) -> None:
    """Make a folder and each one above it that is missing, for their owner alone. Raises OSError.

    The mode that `os.makedirs` takes is that of the last one only.
    """
    if not os.path.isdir(folder):
        if parent := os.path.dirname(folder):
            make_folders(parent)
        make_folder(folder)
