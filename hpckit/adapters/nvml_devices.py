"""The device files of NVIDIA's GPUs: which of them a control group lets this process open."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_DENIED = (errno.EPERM, errno.EACCES)
_NAME = "nvidia"


def opens(path: str) -> bool:
    """Whether the control group lets this process open a device; another fault is no answer."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in _DENIED
    return True


def opens_others(known: Collection[int], dev: str = "/dev") -> bool:
    """Whether this process may open a GPU beside those with the minor numbers `known`.

    A GPU that is lost to its driver does not tell its own number. Where there are no files, nothing
    keeps a process from any GPU.
    """
    try:
        names = [name.removeprefix(_NAME) for name in os.listdir(dev) if name.startswith(_NAME)]
    except OSError:
        names = []
    minors = [int(name) for name in names if name.isascii() and name.isdigit()]
    others = [minor for minor in minors if minor not in known]
    return not minors or any(opens(f"{dev}/{_NAME}{minor}") for minor in others)
