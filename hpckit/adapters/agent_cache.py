"""The packed in-job code between two submissions: packing it compiles two hundred files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from hpckit.adapters.whole_file import write_private

MOST_BYTES: Final = 8 * 1024**2
"""More than an archive has."""
MOST_KEPT: Final = 8
"""Archives of other versions that are kept: a home may be shared by machines."""


class AgentCache:
    """One archive in a folder of the user's; a folder that cannot be used costs only time.

    The file is the archive behind a digest of its key and its bytes. It is run in the user's jobs:
    it is taken only if it is the user's, and nobody else may write it.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._key = key.encode()
        self._path = folder / f"injob-{key}.pyz"

    def read(self) -> bytes | None:
        """The archive, None where there is none that is whole."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                kept = file.read(MOST_BYTES)
        except OSError:
            return None
        digest, data = kept[: hashlib.sha256().digest_size], kept[hashlib.sha256().digest_size :]
        return data if digest == self._digest(data) else None

    def write(self, data: bytes) -> None:
        """Keep an archive, if that can be done, and not more than a few others."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self._path, self._digest(data) + data)
            self._forget()

    def _digest(self, data: bytes) -> bytes:
        return hashlib.sha256(self._key + data).digest()

    def _forget(self) -> None:
        """Remove the oldest of many."""
        kept = sorted(self._folder.glob("injob-*.pyz"), key=lambda one: one.lstat().st_mtime)
        for path in kept[:-MOST_KEPT]:
            path.unlink(missing_ok=True)


def _is_ours(found: os.stat_result) -> bool:
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & 0o022
        and found.st_size < MOST_BYTES
    )
