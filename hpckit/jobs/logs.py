"""The output of a job: merged or by rank, whole or as it grows."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.jobs.track import pause_s
from hpckit.slurm.values import array_offset_in
from hpckit.spec.job_folder import LOGS_FOLDER, LogName, log_file, task_log, task_of_log

if TYPE_CHECKING:
    from hpckit.core.files import Clock


_RANK_FILE = re.compile(r"rank-(\d+)\.log", re.ASCII)
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 1 << 12


class FileJobLogs:
    """The files of `logs/`; `hpckit.spec.job_folder.log_file` says how they are called."""

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
        if log.rank is None and log.task is not None:
            offset = _offset(log.folder, log.task)
            return log.folder / task_log(str(log.task - offset), offset)
        return log.folder / log_file(log.rank, log.task)

    def size_bytes(self, log: LogName) -> int | None:
        """How large a log is, None where there is none. Raises StorageFailed."""
        path = self.path(log)
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
        path = self.path(log)
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
            with self.path(log).open("rb") as file:
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


def _offset(folder: Path, task: int) -> int:
    """Where the part of the array begins that the task is in, from what sbatch was given."""
    offsets = map(array_offset_in, _names(folder))
    return max((offset for offset in offsets if offset <= task), default=0)


_READ_INTERVAL_S = 1.0
_PATIENCE_S = 30.0


def read_log(
    logs: FileJobLogs, log: LogName, job_id: str, *, has_ended: bool = False
) -> Iterator[bytes]:
    """The log so far, byte for byte. Raises HpckitError when there is none."""
    if logs.size_bytes(log) is None:
        raise _no_log(logs, log, job_id, has_ended=has_ended)
    return logs.read(log, 0)


def follow_log(
    logs: FileJobLogs,
    log: LogName,
    clock: Clock,
    *,
    job_id: str,
    poll_interval_s: float,
    back_off: bool,
    has_ended: Callable[[], bool],
) -> Iterator[bytes]:
    """The log as it grows, until the job has ended and all of it was given.

    The file is read every second, or every `poll_interval_s` if that is shorter; whether the job
    has ended is asked at the site's pace, as `wait` does. A file that somebody cut is given from
    its beginning again. Raises HpckitError when the job ended without this log, when the log is
    gone by then, or for an array whose tasks have logs of their own; StorageFailed where the log
    could not be read for half a minute, or at the end.
    """
    reading = _Reading(logs, log, clock)
    begun_s = ask_at_s = clock.now_s()
    while True:
        now_s = clock.now_s()
        ended = now_s >= ask_at_s and has_ended()
        if now_s >= ask_at_s:
            pause = pause_s(now_s - begun_s, poll_interval_s) if back_off else poll_interval_s
            ask_at_s = clock.now_s() + pause
        yield from reading.what_came(is_last=ended)
        if not reading.is_there:
            if ended and reading.offset:
                raise _gone(logs, log)
            if ended or (log.task is None and logs.tasks(log.folder)):
                raise _no_log(logs, log, job_id, has_ended=ended)
        if ended:
            return
        clock.sleep(min(poll_interval_s, _READ_INTERVAL_S))


class _Reading:
    """How far a log was read, and since when it could not be."""

    def __init__(self, logs: FileJobLogs, log: LogName, clock: Clock) -> None:
        self._logs = logs
        self._log = log
        self._clock = clock
        self._went_s = clock.now_s()
        self.offset = 0
        self.is_there = False

    def what_came(self, *, is_last: bool) -> Iterator[bytes]:
        """What was written since the last look; a file system that fails may go on."""
        try:
            size_bytes = self._logs.size_bytes(self._log)
            self.is_there = size_bytes is not None
            if size_bytes is not None:
                self.offset = 0 if size_bytes < self.offset else self.offset
                for chunk in self._logs.read(self._log, self.offset):
                    self.offset += len(chunk)
                    yield chunk
            self._went_s = self._clock.now_s()
        except StorageFailed:
            self.is_there = True
            if is_last or self._clock.now_s() - self._went_s >= _PATIENCE_S:
                raise


def _gone(logs: FileJobLogs, log: LogName) -> HpckitError:
    return HpckitError(
        f"the log is not there any more: {logs.path(log)}",
        hint="somebody removed or moved it, with what the job has printed since",
    )


def _no_log(logs: FileJobLogs, log: LogName, job_id: str, *, has_ended: bool) -> HpckitError:
    tasks = logs.tasks(log.folder)
    if log.task is None and tasks:
        return HpckitError(
            "this is a job array: each of its tasks has its own log",
            hint=f"hpckit logs {job_id}_{tasks[0]}; tasks with a log: {_span(tasks)}",
        )
    whose = "the job" if log.task is None else f"task {log.task}"
    if log.rank is None:
        folder = log.folder / "logs"
        if has_ended:
            return HpckitError(
                f"{whose} has left no log in {folder}",
                hint="if it ran, its node does not see that folder: job_root must lie on a file "
                "system that all nodes share",
            )
        hint = f"tasks with a log: {_span(tasks)}" if tasks else None
        return HpckitError(f"{whose} has written no log yet in {folder}", hint=hint)
    known = logs.ranks(log.folder, log.task)
    if not known:
        there = "no rank has written one yet"
    elif len(known) == 1:
        there = f"only rank {known[0]} has one"
    else:
        there = f"ranks with a log: {_span(known)}"
    return HpckitError(f"there is no log of rank {log.rank}", hint=there)


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
