"""What `hpckit tune` needs from the world: the files from which a job loads its libraries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from hpckit.model.nccl_found import LibraryStrings, SharedLibrary


class LibraryFiles(Protocol):
    """The files of this machine, or of a container: every path is one in there.

    Whatever lies there is read in bounded time. Where a file system gives no answer, what was asked
    raises StorageFailed; after a few of these, at once.
    """

    @property
    def place(self) -> str:
        """Where that is, in words."""
        ...

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder, in order; none where there is none. Raises StorageFailed."""
        ...

    def real(self, path: str) -> str | None:
        """The path without links, None where nothing is. Raises StorageFailed."""
        ...

    def data(self, path: str, most_bytes: int) -> bytes | None:
        """What a file holds, None where there is none.

        Raises StorageFailed, also for what is larger or no regular file.
        """
        ...

    def library(self, path: str) -> SharedLibrary:
        """An executable or shared library. Raises StorageFailed, ParseError."""
        ...

    def strings(self, path: str) -> LibraryStrings:
        """What its constants tell. Raises as `library`."""
        ...


class NcclLibraries(Protocol):
    """Opens the places from which jobs load libraries."""

    def opened(self, container: str | None) -> AbstractContextManager[LibraryFiles]:
        """This machine, or a container: the folder or the image (.sqsh, .sif) of one.

        Raises StorageFailed, ParseError; ToolMissing and ToolFailed for an image.
        """
        ...
