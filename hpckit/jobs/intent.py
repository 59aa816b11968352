"""Who submits, or submitted, a job: the part of `intent.json` that tells whether it goes on."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from hpckit.jobs.local_record import read_record
from hpckit.jobs.process_tree import is_running_since
from hpckit.spec.job_folder import INTENT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The submitting process: its host, id and start, in seconds since the epoch.

    `slurm_cluster` is the cluster of that host, None where its slurm.conf does not tell.
    """

    submitter_host: str | None = None
    submitter_pid: int | None = None
    submitter_started_s: float | None = None
    slurm_cluster: str | None = None

    @property
    def submitter_lives(self) -> bool | None:
        """Whether that process lives; None where this cannot be seen from here."""
        if self.submitter_host not in (None, socket.gethostname()):
            return None
        if self.submitter_pid is None or self.submitter_started_s is None:
            return None
        return is_running_since(self.submitter_pid, self.submitter_started_s)


def read_intent(folder: Path) -> Intent | None:
    """Who submits the job of a folder; None without an intent. Raises StorageFailed."""
    return read_record(folder, INTENT_FILE, Intent)
