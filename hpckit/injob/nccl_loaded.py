"""Which NCCL or RCCL rank 0 has loaded, seen in its memory map and kept in its ledger."""

from __future__ import annotations

import _thread
import os
import time

from hpckit.core.files_in_job import read_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[[dict[str, object]], None]

LOOKS_AFTER_S = (20, 60, 240, 960)
"""Waits between the looks: frameworks load it at import or with the first communicator."""
_PARTS_OF_RELEASE = 3


def watch_library(pid: int, write: Write) -> None:
    """Look in a thread, a few times, and give `write` what is found first."""

    def watch() -> None:
        for wait_s in LOOKS_AFTER_S:
            time.sleep(wait_s)
            found = loaded_library(pid)
            if found is not None:
                write({"record": "library", **found})
                break
        # The IO of a thread that has ended would count as the command's (ledger.py).
        forever = _thread.allocate_lock()
        forever.acquire()
        forever.acquire()

    try:
        _thread.start_new_thread(watch, ())
    except RuntimeError:
        return


def loaded_library(pid: int) -> dict[str, object] | None:
    """Return `path` and `release` of what a process or a child has loaded; None for nothing.

    A release None is not known.
    """
    waiting = [str(pid)]
    while waiting:
        process = waiting.pop(0)
        for line in _text(f"/proc/{process}/maps").splitlines():
            path = line[line.find("/") :] if "/" in line else ""
            if path.rpartition("/")[2].startswith(("libnccl.so", "librccl.so")):
                return {"path": path, "release": _release(path, f"/proc/{process}/root")}
        waiting += _text(f"/proc/{process}/task/{process}/children").split()
    return None


def _release(path: str, root: str) -> str | None:
    """Return the release in the file's name, or of the wheel that brought it."""
    named = path.rpartition("libnccl.so.")[2]
    if len(named.split(".")) == _PARTS_OF_RELEASE and named.replace(".", "").isdigit():
        return named
    site, is_wheel, _ = path.rpartition("/nvidia/nccl/lib/")
    try:
        names = os.listdir(root + site) if is_wheel else []
    except OSError:
        return None
    wheels = [
        name for name in names if name.startswith("nvidia_nccl_") and name.endswith(".dist-info")
    ]
    if len(wheels) != 1:
        return None
    return ".".join(wheels[0].split("-")[1].split(".")[:_PARTS_OF_RELEASE])


def _text(path: str) -> str:
    return read_bytes(path, 1 << 22).decode("utf-8", "replace")
