"""The output of a job: merged or by rank, whole or as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from hpckit.errors import HpckitError
from hpckit.ports import Clock, JobLogs


def read_log(logs: JobLogs, folder: Path, rank: int | None) -> Iterator[bytes]:
    """The log so far, byte for byte. Raises HpckitError when there is none."""
    if not logs.exists(folder, rank):
        raise _no_log(logs, folder, rank)
    return logs.read(folder, rank, 0)


def follow_log(
    logs: JobLogs,
    folder: Path,
    rank: int | None,
    clock: Clock,
    *,
    poll_interval_s: float,
    has_ended: Callable[[], bool],
) -> Iterator[bytes]:
    """The log as it grows, until the job has ended and all of it was given.

    Raises HpckitError when the job ended without this log.
    """
    offset = 0
    while True:
        ended = has_ended()
        if logs.exists(folder, rank):
            for chunk in logs.read(folder, rank, offset):
                offset += len(chunk)
                yield chunk
        elif ended:
            raise _no_log(logs, folder, rank)
        if ended:
            return
        clock.sleep(poll_interval_s)


def _no_log(logs: JobLogs, folder: Path, rank: int | None) -> HpckitError:
    if rank is None:
        return HpckitError(f"the job has written no log yet in {folder / 'logs'}")
    known = logs.ranks(folder)
    if not known:
        there = "no rank has written one yet"
    elif len(known) == 1:
        there = f"only rank {known[0]} has one"
    else:
        there = f"ranks with a log: {known[0]}-{known[-1]}"
    return HpckitError(f"there is no log of rank {rank}", hint=there)
