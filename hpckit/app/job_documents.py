"""The JSON files of a job folder: those that are not there, and those that are damaged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.errors import NoSuchFile, StorageFailed

if TYPE_CHECKING:
    from hpckit.adapters.job_folder import FileJobFolders


class JobDocuments:
    """The files of one folder, each read once; `damaged` tells those that are not understood."""

    def __init__(self, folder: Path, folders: FileJobFolders) -> None:
        self._folder = folder
        self._folders = folders
        self._read: dict[str, Mapping[str, Any] | None] = {}
        self._damaged: dict[str, str] = {}

    def read(self, name: str) -> Mapping[str, Any] | None:
        """The document, empty where it is damaged, None where there is no such file."""
        if name not in self._read:
            self._read[name] = self._document(name)
        return self._read[name]

    def refuse(self, name: str, why: str) -> None:
        """Tell a file as damaged: it is JSON, and not what it should be."""
        self._damaged.setdefault(name, f"{name} is damaged: {why}")

    def refuse_version(self, name: str, got: str, expected: str) -> None:
        """Tell a file as one of another version: it may be whole, and is not understood."""
        why = f"{name} is of another version: got {got}, expected {expected}"
        self._damaged.setdefault(name, why)

    def is_of_other_version(self, name: str, *known: str) -> bool:
        """Whether its schema is one of `known` with another number, which then is told."""
        schema = (self.read(name) or {}).get("schema")
        if not isinstance(schema, str) or schema in known:
            return False
        is_other = schema.rpartition("/")[0] in {one.rpartition("/")[0] for one in known}
        if is_other:
            self.refuse_version(name, repr(schema), " or ".join(known))
        return is_other

    @property
    def damaged(self) -> tuple[str, ...]:
        """A sentence for each file that is damaged or of another version."""
        return tuple(self._damaged.values())

    def _document(self, name: str) -> Mapping[str, Any] | None:
        try:
            document = self._folders.read_json(self._folder, name)
        except NoSuchFile:
            return None
        except StorageFailed as error:
            self._damaged[name] = error.message.removeprefix(f"{self._folder}/")
            return {}
        if not document:
            self.refuse(name, "it is an empty JSON object")
        return document
