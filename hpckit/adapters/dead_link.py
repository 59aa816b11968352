"""A symbolic link that leads nowhere, on the way to what a user named."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path


def dead_link(path: Path) -> tuple[str, str] | None:
    """What the first such link on the way to `path` is, and what to do; None where none is."""
    for part in (*reversed(path.parents), path):
        why = _why_dead(part) if os.path.islink(part) else None  # noqa: PTH114  this one never raises
        if why is None:
            continue
        if why == errno.ELOOP:
            return f"{part} is a link that leads back to itself", f"rm {shlex.quote(str(part))}"
        target = os.path.realpath(part)
        return f"{part} is a link to {target}, which is not there", (
            f"mkdir -p {shlex.quote(target)} first, or rm {shlex.quote(str(part))}"
        )
    return None


def _why_dead(link: Path) -> int | None:
    try:
        link.stat()
    except OSError as error:
        return error.errno if error.errno in (errno.ENOENT, errno.ELOOP) else None
    return None
