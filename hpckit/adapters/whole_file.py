"""A file that a user asked for: there when all of it is, else what was there before."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpckit.errors import StorageFailed


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to; its mode is what the umask leaves. Raises StorageFailed.

    A link is followed. What is no regular file, and what is this process's output already (such as
    /dev/stdout after `>> FILE`), is written to as it stands.
    """
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        raise StorageFailed(
            f"{path} cannot be written: {error.strerror}", hint=_elsewhere(path, error)
        ) from error


def _elsewhere(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        folder = shlex.quote(str(path.parent))
        return f"mkdir -p {folder} first, or name a file in a folder that there is"
    return "name a file in a folder that you may write to, with space left"


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of another when it is whole; its own name is a short one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hpckit.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has its place
            Path(temporary).unlink()


@contextlib.contextmanager
def _on_the_spot(path: Path) -> Iterator[IO[bytes]]:
    """A device or a FIFO; one that nobody reads is refused, as it would be waited for."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        yield file


def _opened(path: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _beside(_target(path))
    if not stat.S_ISREG(found.st_mode):
        return _on_the_spot(path)
    output = next((fd for fd in (1, 2) if _is_open_as(fd, found)), None)
    # What takes the place of a file is not what the shell has open, nor behind what is in that.
    return _beside(_target(path)) if output is None else os.fdopen(os.dup(output), "wb")


def _is_open_as(fd: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), file)
    except OSError:
        return False


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
