"""Compiled templates, kept in a folder that is this user's alone."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

from hpckit.core.errors import StorageFailed
from hpckit.core.trust import make_private

# What pickle and marshal raise for an entry that was cut off or overwritten.
_DAMAGED = (
    *(OSError, ValueError, EOFError, TypeError, pickle.UnpicklingError),
    *(AttributeError, ImportError, LookupError, OverflowError, MemoryError),
)


class TemplateCache(FileSystemBytecodeCache):
    """jinja2's own cache in a private folder; a folder that cannot be used costs only time.

    A cached template is keyed by name, jinja2 and Python version, and the digest of its source.
    """

    def __init__(self, folder: Path) -> None:
        self._usable = _private(folder)
        super().__init__(str(folder))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if there is one."""
        if not self._usable:
            return
        try:
            super().load_bytecode(bucket)
        except _DAMAGED:
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template, if that can be done."""
        if not self._usable:
            return
        try:
            super().dump_bytecode(bucket)
        except OSError:
            self._usable = False


def _private(folder: Path) -> bool:
    """Whether the folder is this user's alone: compiled code is run as it is found."""
    try:
        make_private(folder)
        found = folder.stat()
    except (OSError, StorageFailed):
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022
