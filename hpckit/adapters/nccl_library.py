"""The libraries of this machine and of containers, read where they lie and never executed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from hpckit.adapters.process import CommandRunner
from hpckit.adapters.regular_file import open_regular
from hpckit.adapters.squashfs_library import ImageLibraries
from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.nccl_found import LibraryStrings, SharedLibrary
from hpckit.parse.elf import ReadAt, parse_elf
from hpckit.parse.nccl_library import library_strings
from hpckit.parse.squashfs import squashfs_offset
from hpckit.tune_ports import LibraryFiles

Answer = TypeVar("Answer")

LIMIT_S: Final = 5.0
"""For one question to a file system; a cold file on Lustre takes some tens of milliseconds."""

_FOR_MANY_BYTES: Final = 6
"""Times as long: up to 192 MiB are read, not a few pages."""

ALL_LIMIT_S: Final = 60.0
"""For all questions together, which are some hundreds; each may be answered late but in time."""

_MOST_LATE: Final = 3
_MOST_LINKS: Final = 40
"""As the kernel follows: path_resolution(7)."""

_MOST_NAMES: Final = 100_000


class FolderLibraries:
    """The files below a folder: `/`, or the root of a container that is unpacked.

    A link that leads to `/…` or above the root stays in it. Each question is asked in a thread of
    its own, which is left behind when there is no answer within `limit_s`. All of them together
    may take `all_limit_s`.
    """

    def __init__(
        self, root: Path, limit_s: float = LIMIT_S, all_limit_s: float = ALL_LIMIT_S
    ) -> None:
        self._root = root
        self._limit_s = limit_s
        self._all_limit_s = all_limit_s
        self._spent_s = 0.0
        self._late: list[str] = []

    @property
    def place(self) -> str:
        """Where that is, in words."""
        return "this machine" if self._root == Path("/") else f"container {self._root}"

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder, in order; none where there is none. Raises StorageFailed."""
        return self._in_time(folder, lambda: self._names(folder))

    def real(self, path: str) -> str | None:
        """The path without links, None where nothing is. Raises StorageFailed."""
        return self._in_time(path, lambda: self._real(path))

    def data(self, path: str, most_bytes: int) -> bytes | None:
        """What a file holds, None where there is none; raises StorageFailed."""
        return self._in_time(path, lambda: self._data(path, most_bytes))

    def library(self, path: str) -> SharedLibrary:
        """An executable or shared library. Raises StorageFailed, ParseError."""
        return self._in_time(path, lambda: self._read(path, parse_elf))

    def strings(self, path: str) -> LibraryStrings:
        """What its constants tell. Raises as `library`."""
        limit_s = self._limit_s * _FOR_MANY_BYTES
        return self._in_time(path, lambda: self._read(path, library_strings), limit_s)

    def is_folder(self, path: str) -> bool | None:
        """Whether a path is a folder's, None where nothing is. Raises StorageFailed."""
        return self._in_time(path, lambda: self._is_folder(path))

    def squashfs_offset(self, path: str) -> int:
        """Where the file system begins in an image. Raises as `library`."""
        return self._in_time(path, lambda: self._read(path, squashfs_offset))

    def _in_time(
        self, path: str, ask: Callable[[], Answer], limit_s: float | None = None
    ) -> Answer:
        limit_s = limit_s or self._limit_s
        if len(self._late) >= _MOST_LATE:
            raise StorageFailed(f"nothing more was looked at: {self._late[0]} gave no answer")
        if self._spent_s > self._all_limit_s:
            raise StorageFailed(f"nothing more was looked at: {self._all_limit_s:g} s were spent")
        answer: Future[Answer] = Future()
        began_s = time.monotonic()
        threading.Thread(target=_fulfil, args=(answer, ask), daemon=True).start()
        try:
            return answer.result(limit_s)
        except TimeoutError:
            self._late.append(path)
            raise StorageFailed(f"{path} gave no answer within {limit_s:g} s") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise StorageFailed(f"{path} cannot be read: {why}") from error
        finally:
            self._spent_s += time.monotonic() - began_s

    def _is_folder(self, path: str) -> bool | None:
        real = self._real(path)
        return None if real is None else Path(self._here(real)).is_dir()

    def _names(self, folder: str) -> tuple[str, ...]:
        real = self._real(folder)
        if real is None:
            return ()
        try:
            with os.scandir(self._here(real)) as entries:
                return tuple(sorted(e.name for e, _ in zip(entries, range(_MOST_NAMES))))  # noqa: B905
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _real(self, path: str) -> str | None:
        """Walk a path part by part: the kernel would leave the root at the first absolute link."""
        left = list(reversed(path.split("/")))
        done: list[str] = []
        links = 0
        while left:
            part = left.pop()
            if part == "..":
                del done[-1:]
            if part in ("", ".", ".."):
                continue
            here = self._here("/".join(("", *done, part)))
            target = _target(here)
            if target is None:
                return None
            if not target:
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                done = []
            left.extend(reversed(target.split("/")))
        return "/" + "/".join(done)

    def _here(self, path: str) -> str:
        return f"{self._root}{path}" if self._root != Path("/") else path

    def _data(self, path: str, most_bytes: int) -> bytes | None:
        real = self._real(path)
        if real is None:
            return None
        with open_regular(Path(self._here(real))) as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise OSError(errno.EFBIG, f"it is over {most_bytes} bytes", path)
        return data

    def _read(self, path: str, parse: Callable[[ReadAt, str], Answer]) -> Answer:
        real = self._real(path)
        if real is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with open_regular(Path(self._here(real))) as file:
            size = os.fstat(file.fileno()).st_size

            # Not mapped: a file that is cut meanwhile would end this process with SIGBUS.
            def read(at: int, count: int) -> bytes:
                return os.pread(file.fileno(), count, at) if 0 <= at < size else b""

            return parse(read, path)


class LibraryPlaces:
    """Opens this machine, an unpacked container, or an image through unsquashfs."""

    def __init__(self, runner: CommandRunner, limit_s: float = LIMIT_S) -> None:
        self._runner = runner
        self._limit_s = limit_s

    @contextlib.contextmanager
    def opened(self, container: str | None) -> Iterator[LibraryFiles]:
        """The files of this machine, or of a container; raises as NcclLibraries.opened."""
        if container is None:
            yield FolderLibraries(Path("/"), self._limit_s)
            return
        path = Path(container).absolute()
        machine = FolderLibraries(Path("/"), self._limit_s)
        is_folder = machine.is_folder(str(path))
        if is_folder is None:
            raise StorageFailed(f"{path} is not there: it was to be a container's folder or image")
        if is_folder:
            yield FolderLibraries(path, self._limit_s)
            return
        offset = machine.squashfs_offset(str(path))
        with tempfile.TemporaryDirectory(prefix="hpckit-image-") as folder:
            unpacked = FolderLibraries(Path(folder), self._limit_s)
            yield ImageLibraries(path, offset, self._runner, unpacked, Path(folder))


def _fulfil(answer: Future[Answer], ask: Callable[[], Answer]) -> None:
    try:
        answer.set_result(ask())
    except (OSError, ValueError, HpckitError) as error:
        answer.set_exception(error)


def _target(path: str) -> str | None:
    """Where a link leads; empty for what is no link, None for nothing. Raises OSError."""
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return ""
        return str(Path(path).readlink())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None  # nothing can have such a name, and the loader passes it over
