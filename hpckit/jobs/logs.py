"""The output of a job: merged or by rank, whole or as it grows."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.core.late import regex
from hpckit.jobs.track import pause_s
from hpckit.slurm.values import submission_in
from hpckit.spec.folder_in_job import ACCOUNT_FOLDER, rank_of, restart_of
from hpckit.spec.job_folder import LOGS_FOLDER, LogName, log_file, task_log, task_of_log

if TYPE_CHECKING:
    from hpckit.core.files import Clock


_RANK_FILE = regex(r"rank-(\d+)\.log", re.ASCII)
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES, _MOST_TAIL_BYTES = 1 << 12, 1 << 28


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

    def tail_offset(self, log: LogName, count: int) -> int:
        """Where the last `count` lines begin. Raises StorageFailed."""
        part_bytes = _TAIL_BYTES
        try:
            with self.path(log).open("rb") as file:
                size_bytes = file.seek(0, 2)
                while True:
                    begin = file.seek(max(0, size_bytes - part_bytes))
                    data = file.read(size_bytes - begin)[:-1]
                    is_enough = data.count(b"\n") >= count
                    if is_enough or part_bytes >= min(size_bytes, _MOST_TAIL_BYTES):
                        before, *lines = data.rsplit(b"\n", count)
                        return begin + (len(before) + 1 if len(lines) == count else 0)
                    part_bytes *= 16
        except OSError as error:
            raise _unreadable(self.path(log), error) from error

    def tail(self, log: LogName, count: int, *, is_own: bool = False) -> Sequence[str]:
        """The last `count` lines that are not blank, oldest first, decoded leniently.

        With `is_own` only the command's: hpckit writes into the logs of ranks too.
        """
        part_bytes = _TAIL_BYTES
        while True:
            try:
                with self.path(log).open("rb") as file:
                    size_bytes = file.seek(0, 2)
                    file.seek(max(0, size_bytes - part_bytes))
                    lines = file.read().decode(errors="replace").splitlines()
            except OSError:
                return ()
            lines = [one for one in lines if one.strip() and not (is_own and _is_ours(one))]
            # The first line of a part may be cut.
            if len(lines) > count or part_bytes >= min(size_bytes, _MOST_TAIL_BYTES):
                return lines[-count:]
            part_bytes *= 16

    def first_failed(self, log: LogName) -> tuple[int, int] | None:
        """Return the rank that failed first in the newest attempt, and its code; None if unknown.

        Each rank's entry leaves it beside the ranks' logs.
        """
        folder = self.path(replace(log, rank=0)).parent
        found = [name for name in _names(folder) if _FAILED.fullmatch(name)]
        if not found:
            return None
        newest = max(found, key=lambda name: int(name.partition("-")[2]))
        try:
            code, _, who = (folder / newest).read_text().strip().partition(" ")
            return int(who), int(code)
        except (OSError, ValueError):
            return None


_FAILED: Final = regex(r"failed-[0-9]{1,9}")


def _is_ours(line: str) -> bool:
    """Whether hpckit's rank entry wrote the line, and not the command."""
    return line.startswith("hpckit: ")


def _unreadable(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"{path} cannot be read: {error.strerror}")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _offset(folder: Path, task: int) -> int:
    """Where the part of the array begins that the task is in, from what sbatch was given."""
    offsets = [submission_in(name)[1] for name in _names(folder)]
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


Piece = tuple[LogName, bytes]
"""A log, and some of what is in it."""


def follow_logs(
    logs: FileJobLogs,
    names: Sequence[LogName],
    clock: Clock,
    *,
    job_id: str,
    poll_interval_s: float,
    back_off: bool,
    has_ended: Callable[[], bool],
) -> Iterator[Piece]:
    """The logs as they grow, until the job has ended and all of them was given.

    The files are read every second, or every `poll_interval_s` if that is shorter; whether the job
    has ended is asked at the site's pace, as `wait` does. A file that somebody cut is given from
    its beginning again. Raises HpckitError when the job ended without one of them, when one is
    gone by then, or for an array whose tasks have logs of their own; StorageFailed where the log
    could not be read for half a minute, or at the end.
    """
    readings = [_Reading(logs, log, clock) for log in names]
    begun_s = ask_at_s = clock.now_s()
    while True:
        now_s = clock.now_s()
        ended = now_s >= ask_at_s and has_ended()
        if now_s >= ask_at_s:
            pause = pause_s(now_s - begun_s, poll_interval_s) if back_off else poll_interval_s
            ask_at_s = clock.now_s() + pause
        for reading in readings:
            yield from reading.what_came(is_last=ended)
        for reading in readings:
            reading.refuse_missing(job_id, has_ended=ended)
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
        self._offset = 0
        self._is_there = False

    def what_came(self, *, is_last: bool) -> Iterator[Piece]:
        """What was written since the last look; a file system that fails may go on."""
        try:
            size_bytes = self._logs.size_bytes(self._log)
            self._is_there = size_bytes is not None
            if size_bytes is not None:
                self._offset = 0 if size_bytes < self._offset else self._offset
                for chunk in self._logs.read(self._log, self._offset):
                    self._offset += len(chunk)
                    yield self._log, chunk
            self._went_s = self._clock.now_s()
        except StorageFailed:
            self._is_there = True
            if is_last or self._clock.now_s() - self._went_s >= _PATIENCE_S:
                raise

    def refuse_missing(self, job_id: str, *, has_ended: bool) -> None:
        """Raise HpckitError for a log that is gone, or that does not come any more."""
        if self._is_there:
            return
        if has_ended and self._offset:
            raise _gone(self._logs, self._log)
        is_array = self._log.task is None and self._logs.tasks(self._log.folder)
        if has_ended or is_array:
            raise _no_log(self._logs, self._log, job_id, has_ended=has_ended)


def _gone(logs: FileJobLogs, log: LogName) -> HpckitError:
    return HpckitError(
        f"the log is gone: {logs.path(log)}",
        hint="somebody removed or moved it, and all later output with it",
    )


def _no_log(logs: FileJobLogs, log: LogName, job_id: str, *, has_ended: bool) -> HpckitError:
    tasks = logs.tasks(log.folder)
    if log.task is None and tasks:
        return HpckitError(
            "this is a job array: each task has its own log",
            hint=f"hpckit logs {job_id}_{tasks[0]}; tasks with a log: {_span(tasks)}",
        )
    whose = "the job" if log.task is None else f"task {log.task}"
    if log.rank is None:
        folder = log.folder / "logs"
        if has_ended:
            return HpckitError(
                f"{whose} has no log in {folder}",
                hint="if it ran, its node does not have that folder: job_root must be on a file "
                "system that all nodes share",
            )
        hint = f"tasks with a log: {_span(tasks)}" if tasks else None
        return HpckitError(f"{whose} has written no log yet in {folder}", hint=hint)
    known = logs.ranks(log.folder, log.task)
    if not known:
        there = "no rank has written a log yet"
    elif len(known) == 1:
        there = f"only rank {known[0]} has a log"
    else:
        there = f"ranks with a log: {_span(known)}"
    return HpckitError(f"rank {log.rank} has no log", hint=there)


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


_AHEAD = 32
"""So many lines of a rank's log are known beforehand: lines that two ranks wrote at once are cut in
the merged log, and are in no rank's."""


class RankLabels:
    """Tells which rank wrote a line of the merged log: the one whose own log has it next.

    Of several ranks that have the same line next it is the one that has waited longest. A line of
    the script is in no rank's log.
    """

    def __init__(
        self, paths: Mapping[int, Path], find: Callable[[], Mapping[int, Path]] | None = None
    ) -> None:
        self._paths = dict(paths)
        self._find = find
        self._read_bytes = dict.fromkeys(paths, 0)
        self._lines: dict[int, deque[bytes]] = {rank: deque() for rank in paths}
        self._first: dict[bytes, deque[int]] = {}
        self.look()

    @property
    def width(self) -> int:
        """The columns of a label; 0 where one rank alone needs none."""
        return len(str(max(self._paths))) + 1 if len(self._paths) > 1 else 0

    def look(self) -> None:
        """Read on in the logs that had no more lines, and with `find` in those that are new."""
        for rank, path in ({} if self._find is None else self._find()).items():
            self._paths[rank] = path
            self._read_bytes.setdefault(rank, 0)
            self._lines.setdefault(rank, deque())
        for rank in [rank for rank, lines in self._lines.items() if not lines]:
            self._file(rank)

    def of(self, line: bytes) -> int | None:
        """The rank; None for a line of none, or of one whose log does not have it yet."""
        ranks = self._first.get(line)
        rank = ranks.popleft() if ranks else self._further(line)
        if rank is None:
            return None
        if not ranks:
            self._first.pop(line, None)
        lines = self._lines[rank]
        while lines.popleft() != line:
            pass
        self._file(rank)
        return rank

    def _further(self, line: bytes) -> int | None:
        for rank, lines in self._lines.items():
            if line in lines:
                self._first[lines[0]].remove(rank)
                return rank
        return None

    def _file(self, rank: int) -> None:
        """Have lines of a rank's log, and the rank among those that have its first line next."""
        lines = self._lines[rank]
        if len(lines) < _AHEAD:
            self._fill(rank, lines)
        if lines:
            self._first.setdefault(lines[0], deque()).append(rank)

    def _fill(self, rank: int, lines: deque[bytes]) -> None:
        try:
            with self._paths[rank].open("rb") as file:
                file.seek(self._read_bytes[rank])
                data = file.read(_CHUNK_BYTES)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes[rank] += len(whole)
        lines.extend(whole.splitlines(keepends=True))


def labelled_lines(
    pieces: Iterable[Piece], labels: RankLabels | None, *, width: int = 0
) -> Iterator[bytes]:
    """The lines of logs with a rank before each, as srun --label has it; 0 is no label's width.

    `labels` tells whose the lines of a merged log are, and the width; without, each rank's are in
    its own.
    """
    rests: dict[LogName, bytes] = {}
    for log, chunk in pieces:
        if labels is not None:
            labels.look()
        *whole, rests[log] = (rests.get(log, b"") + chunk).split(b"\n")
        for line in whole:
            yield _labelled(log, line + b"\n", labels, width)
    for log, rest in rests.items():
        if rest:
            yield _labelled(log, rest + (b"" if labels else b"\n"), labels, width)


def _labelled(log: LogName, line: bytes, labels: RankLabels | None, width: int) -> bytes:
    rank, width = (log.rank, width) if labels is None else (labels.of(line), labels.width)
    label = "" if rank is None else f"{rank}:"
    return (f"{label:>{width}} ".encode() if width else b"") + line


def ranks_on(folder: Path, node: str, task: int | None = None) -> Sequence[int]:
    """The ranks that ran on a node in the job's latest start, by their ledgers."""
    found: dict[int, dict[int, str]] = {}
    accounts = folder / ACCOUNT_FOLDER / (f"array-{task}" if task is not None else "")
    for path in accounts.glob("restart-*/rank-*.ledger"):
        start, rank = restart_of(path.parent.name), rank_of(path.name)
        try:
            with path.open("rb") as file:
                told = json.loads(file.readline(_CHUNK_BYTES))["node"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if start is not None and rank is not None:
            found.setdefault(start, {})[rank] = str(told)
    latest = found[max(found)] if found else {}
    return sorted(rank for rank, where in latest.items() if where.split(".")[0] == node)
