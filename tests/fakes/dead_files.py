"""A machine of which one folder answers, and nothing else does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from hpckit.errors import StorageFailed
from hpckit.model.nccl_found import LibraryStrings, SharedLibrary
from hpckit.tune_ports import LibraryFiles, NcclLibraries


class DeadFiles:
    """Files of which only those below `prefix` can be asked for."""

    place = "a dead place"

    def __init__(self, alive: LibraryFiles, prefix: str) -> None:
        self._alive = alive
        self._prefix = prefix

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder. Raises StorageFailed, as all others do."""
        return self._asked(folder).names(folder)

    def real(self, path: str) -> str | None:
        """The path without links."""
        return self._asked(path).real(path)

    def data(self, path: str, most_bytes: int) -> bytes | None:
        """What a file holds."""
        return self._asked(path).data(path, most_bytes)

    def library(self, path: str) -> SharedLibrary:
        """A shared library."""
        return self._asked(path).library(path)

    def strings(self, path: str) -> LibraryStrings:
        """What its constants tell."""
        return self._asked(path).strings(path)

    def _asked(self, path: str) -> LibraryFiles:
        if not path.startswith(self._prefix):
            raise StorageFailed(f"{path} gave no answer within 5 s")
        return self._alive


class DeadPlaces:
    """Opens that machine."""

    def __init__(self, tools: NcclLibraries, prefix: str) -> None:
        self._tools = tools
        self._prefix = prefix

    @contextlib.contextmanager
    def opened(self, container: str | None) -> Iterator[LibraryFiles]:
        """Its files."""
        with self._tools.opened(container) as alive:
            yield DeadFiles(alive, self._prefix)
