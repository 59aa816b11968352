"""How a submitted job is followed: what its folder remembers of its site.

By itself, so that a question about a job does not load all that a site file can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpckit.core.errors import ConfigError, StorageFailed
from hpckit.spec.job_folder import SITE_FILE

if TYPE_CHECKING:
    from hpckit.slurm.values import JobEntry
    from hpckit.spec.store import FileJobFolders

POLL_INTERVAL_S: Final = 15.0
KILL_WAIT_S: Final = 30.0
"""What holds where a site file says nothing; Slurm's KillWait is the same."""


class SubmitterKind(StrEnum):
    """What starts a job at a site."""

    SLURM = "slurm"
    LOCAL = "local"


class SitePace(NamedTuple):
    """What starts jobs at a site, how often they are asked for, and when KILL follows TERM."""

    submitter: SubmitterKind = SubmitterKind.SLURM
    poll_interval_s: float = POLL_INTERVAL_S
    kill_wait_s: float = KILL_WAIT_S


def recorded_pace(entry: JobEntry, folders: FileJobFolders) -> SitePace:
    """Return the pace of the site that a job was submitted to, as its folder remembers it.

    A job with a number is Slurm's, and goes on without its folder at Slurm's own pace. Raises
    StorageFailed for any other job without one, and ConfigError where the site is damaged.
    """
    folder = Path(entry.folder)
    if not folders.is_folder(folder):
        if entry.job_id.isdecimal():
            return SitePace()
        raise StorageFailed(
            f"the folder of {entry.job_id} is gone: {folder}",
            hint="hpckit jobs --rebuild removes jobs without a folder from the index",
        )
    site, source = folders.read_json(folder, SITE_FILE), str(folder / SITE_FILE)
    return SitePace(*(_value(site, key, source) for key in SitePace._fields))


def _value(site: Mapping[str, Any], key: str, source: str) -> Any:
    """Return a value of a site. Raises ConfigError."""
    try:
        return SubmitterKind(site[key]) if key == "submitter" else float(site[key])
    except KeyError:
        raise ConfigError("is missing", source=source, key=key) from None
    except (TypeError, ValueError):
        raise ConfigError(f"got {site[key]!r}", source=source, key=key) from None
