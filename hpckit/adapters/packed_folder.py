"""Job folders with the archive of what runs inside the job."""

from __future__ import annotations

from pathlib import Path

from hpckit.adapters.injob_archive import pack_injob
from hpckit.adapters.job_folder import FileJobFolders
from hpckit.errors import StorageFailed
from hpckit.model.job_folder import AGENT_FILE


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
