"""The in-job archive, packed once a process: it takes two seconds."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

from hpckit.injob.archive import pack_injob

_FOLDER = tempfile.TemporaryDirectory(prefix="hpckit-packed-")
PACKED = Path(_FOLDER.name, "cache")
"""A user's cache that keeps it."""


@functools.cache
def packed() -> Path:
    """Return the archive."""
    path = Path(_FOLDER.name, "hpckit-injob.pyz")
    pack_injob(path, PACKED)
    return path


def pack(target: Path) -> None:
    """Put the archive to `target`, as packing it would."""
    shutil.copy(packed(), target)


def warm_cache() -> None:
    """Let submissions find it in the cache of this test's user."""
    packed()
    shutil.copytree(PACKED, Path(os.environ["XDG_CACHE_HOME"], "hpckit"), dirs_exist_ok=True)
