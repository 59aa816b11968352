"""The logs in a job folder, read byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpckit.errors import StorageFailed

_RANK_FILE = re.compile(r"rank-(\d+)\.log", re.ASCII)
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 1 << 12


class FileJobLogs:
    """`logs/job.log`, the merged output, and `logs/rank-<n>.log`, one for each rank."""

    def ranks(self, folder: Path) -> Sequence[int]:
        """The ranks that have a log, in order."""
        try:
            names = [path.name for path in (folder / "logs").iterdir()]
        except OSError:
            return ()
        return sorted(int(match[1]) for match in map(_RANK_FILE.fullmatch, names) if match)

    def exists(self, folder: Path, rank: int | None) -> bool:
        """Whether the merged log (rank None) or that of one rank is there."""
        return _path(folder, rank).is_file()

    def read(self, folder: Path, rank: int | None, offset: int) -> Iterator[bytes]:
        """The log from byte `offset` to its present end, in chunks. Raises StorageFailed."""
        path = _path(folder, rank)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise StorageFailed(f"{path} cannot be read: {error.strerror}") from error

    def tail(self, folder: Path, rank: int | None, count: int) -> Sequence[str]:
        """The last `count` lines that are not blank, oldest first, decoded leniently."""
        try:
            with _path(folder, rank).open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ()
        return [line for line in lines if line.strip()][-count:]


def _path(folder: Path, rank: int | None) -> Path:
    return folder / "logs" / ("job.log" if rank is None else f"rank-{rank}.log")
