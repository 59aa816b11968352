"""The logs in a job folder, read byte for byte."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpckit.errors import StorageFailed
from hpckit.model.job_folder import (
    LOGS_FOLDER,
    LogName,
    array_offset_in,
    log_file,
    task_log,
    task_of_log,
)

_RANK_FILE = re.compile(r"rank-(\d+)\.log", re.ASCII)
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 1 << 12


class FileJobLogs:
    """The files of `logs/`; `hpckit.model.job_folder.log_file` says how they are called."""

    def ranks(self, folder: Path, task: int | None = None) -> Sequence[int]:
        """The ranks that have a log, in order; of one task of a job array, or outside of any."""
        matches = map(_RANK_FILE.fullmatch, _names((folder / log_file(0, task)).parent))
        return sorted(int(match[1]) for match in matches if match)

    def tasks(self, folder: Path) -> Sequence[int]:
        """The tasks of a job array that have a merged log, in order."""
        tasks = map(task_of_log, _names(folder / LOGS_FOLDER))
        return sorted({task for task in tasks if task is not None})

    def path(self, log: LogName) -> Path:
        """Where a log lies, or will."""
        return _path(log)

    def size_bytes(self, log: LogName) -> int | None:
        """How large a log is, None where there is none. Raises StorageFailed."""
        path = _path(log)
        try:
            # Opened, for what NFS remembers of a file may be older than what was read of it.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
            finally:
                os.close(fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def read(self, log: LogName, offset: int) -> Iterator[bytes]:
        """The log from byte `offset` to its present end, in chunks. Raises StorageFailed."""
        path = _path(log)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise _unreadable(path, error) from error

    def tail(self, log: LogName, count: int) -> Sequence[str]:
        """The last `count` lines that are not blank, oldest first, decoded leniently."""
        try:
            with _path(log).open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ()
        return [line for line in lines if line.strip()][-count:]


def _unreadable(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"{path} cannot be read: {error.strerror}")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _path(log: LogName) -> Path:
    if log.rank is None and log.task is not None:
        offset = _offset(log.folder, log.task)
        return log.folder / task_log(str(log.task - offset), offset)
    return log.folder / log_file(log.rank, log.task)


def _offset(folder: Path, task: int) -> int:
    """Where the part of the array begins that the task is in, from what sbatch was given."""
    offsets = map(array_offset_in, _names(folder))
    return max((offset for offset in offsets if offset <= task), default=0)
