"""Job folders with the archive of what runs inside the job."""

from __future__ import annotations

from pathlib import Path

from hpckit.core.errors import StorageFailed
from hpckit.injob.archive import pack_injob
from hpckit.spec.job_folder import AGENT_FILE
from hpckit.spec.store import FileJobFolders


class PackedJobFolders(FileJobFolders):
    """Job folders of a submission; `cache` is a folder that keeps what was packed for them."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache

    def pack_agent(self, folder: Path) -> None:
        """Put the archive into the folder. Raises StorageFailed."""
        try:
            pack_injob(folder / AGENT_FILE, self._cache)
        except OSError as error:
            raise StorageFailed(
                f"{folder / AGENT_FILE} cannot be written: {error.strerror}"
            ) from error
