"""A file outside a job: there when all of it is, else what was there before."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpckit.adapters.dead_link import dead_link
from hpckit.errors import StorageFailed

_PREFIX = ".hpckit."
_DESCRIPTORS = "/proc/self/fd"


def write_private(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file of hpckit's own, mode 0600, at once or not at all. Raises OSError.

    One that `is_durable` is on disk before it has its name.
    """
    with _beside(path, _DESCRIPTORS, mode=0o600, is_durable=is_durable) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path, descriptors: str = _DESCRIPTORS) -> Iterator[IO[bytes]]:
    """Yield a file that a user asked for, to write to; its mode is what the umask leaves.

    A link is followed. What is no regular file, and what is this process's output already (such as
    /dev/stdout after `>> FILE`), is written to as it stands. `descriptors` is the folder of this
    process's open files; where there is none, a file has a name before it is whole. Raises
    StorageFailed.
    """
    try:
        with _opened(path, descriptors) as file:
            yield file
    except OSError as error:
        # A link may lead to a file that is not there yet, but to no such folder.
        dead = dead_link(path if error.errno == errno.ELOOP else path.parent)
        why, hint = dead or (error.strerror, _elsewhere(path, error))
        raise StorageFailed(f"{path} cannot be written: {why}", hint=hint) from error


def _elsewhere(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        folder = shlex.quote(str(_target(path).parent if path.is_symlink() else path.parent))
        return f"mkdir -p {folder} first, or name a file in a folder that there is"
    return "name a file in a folder that you may write to, with space left"


@contextlib.contextmanager
def _beside(
    path: Path, descriptors: str, *, mode: int | None = None, is_durable: bool = False
) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of another when it is whole.

    Until then it has no name where the file system can do so: nothing is left of it then, whatever
    ends this process. Elsewhere its name is a short one.
    """
    nameless = _nameless(path.parent, descriptors)
    temporary: str | None = None
    if nameless is None:
        nameless, temporary = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX)
    try:
        with os.fdopen(nameless, "wb") as file:
            yield file
            file.flush()
            os.fchmod(nameless, 0o666 & ~_umask() if mode is None else mode)
            if is_durable:
                os.fsync(nameless)
            temporary = temporary or _named(nameless, path.parent, descriptors)
        Path(temporary).replace(path)
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # it has its place
                Path(temporary).unlink()


def _nameless(folder: Path, descriptors: str) -> int | None:
    """A descriptor of a new file without a name; None where there are none, or no /proc."""
    if not os.path.isdir(descriptors):  # noqa: PTH112  without it none is given a name later
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # EISDIR is of a kernel, and EOPNOTSUPP of a file system, that does not know the flag.
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def _named(handle: int, folder: Path, descriptors: str) -> str:
    """Give the file a name of its own, for the moment until it has its place."""
    name = str(folder / f"{_PREFIX}{os.urandom(4).hex()}")
    # With a descriptor of a folder Python's link() follows links, see linkat(2) on AT_EMPTY_PATH.
    with _folder(descriptors) as opened:
        os.link(str(handle), name, src_dir_fd=opened, follow_symlinks=True)
    return name


@contextlib.contextmanager
def _folder(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _on_the_spot(path: Path) -> Iterator[IO[bytes]]:
    """A device or a FIFO; one that nobody reads is refused, as it would be waited for."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        yield file


def _opened(path: Path, descriptors: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return _beside(_target(path), descriptors)
    if not stat.S_ISREG(status.st_mode):
        return _on_the_spot(path)
    output = next((fd for fd in (1, 2) if _is_open_as(fd, status)), None)
    # What takes the place of a file is not what the shell has open, nor behind what is in that.
    if output is None:
        return _beside(_target(path), descriptors)
    return os.fdopen(os.dup(output), "wb")


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
