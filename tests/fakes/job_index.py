"""A job index for a test that has no place for one."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from hpckit.jobs.index import SqliteJobIndex


class TemporaryJobIndex(SqliteJobIndex):
    """An index in a folder of its own, which goes with it."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="hpckit-index-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(Path(folder) / "jobs.sqlite")
