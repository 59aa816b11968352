"""Files in places where anything may lie: read where they are files, and of a size that one has."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

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
            raise OSError(errno.EFBIG, f"it is over {MOST_BYTES // 1024**2} MiB", str(path))
        return file.read(size + 1)


def open_regular(path: Path) -> BinaryIO:
    """A file to read from. Raises OSError, also for what is no regular file."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
