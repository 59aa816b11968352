"""Modules of the archive that lie in a zip file within it: no rank reads where they are.

zipimport finds modules in files alone, so the inner one becomes a file without a name.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

INNER_ZIP: Final = "probe.zip"
_PACKAGES: Final = (
    "hpckit",
    "hpckit.adapters",
    "hpckit.app",
    "hpckit.decide",
    "hpckit.model",
    "hpckit.parse",
)


def open_inner_zip() -> None:
    """Make the modules of the inner zip file importable; outside of an archive all are already.

    The process keeps a descriptor. Raises OSError where there is no place for the file.
    """
    loader: Any = __spec__.loader
    archive = getattr(loader, "archive", None)
    if archive is None:
        return
    path = f"/proc/self/fd/{_unnamed_file(loader.get_data(f'{archive}/{INNER_ZIP}'))}"
    sys.path.append(path)
    for name in _PACKAGES:
        __import__(name)
        sys.modules[name].__path__.append(f"{path}/{name.replace('.', '/')}")


def _unnamed_file(data: bytes) -> int:
    """A descriptor of a file with these bytes that is gone with it."""
    try:
        fd = os.memfd_create("hpckit-probe")
    except (AttributeError, OSError):
        # A Python that was built for glibc before 2.27 has none, and a kernel may refuse it.
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return fd
