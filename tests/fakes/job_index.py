"""The job index without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpckit.errors import StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobStatus


class MemoryJobIndex:
    """Jobs in a dictionary, in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: dict[JobId, JobEntry] = {}

    def add(self, entry: JobEntry) -> None:
        """Record a job. Raises StorageFailed for an id that is taken."""
        if entry.job_id in self._entries:
            raise StorageFailed(f"job {entry.job_id} is already in the index")
        self._entries[entry.job_id] = entry

    def update(self, status: JobStatus) -> None:
        """Remember the last state and exit code seen."""
        if status.job_id in self._entries:
            self._entries[status.job_id] = replace(
                self._entries[status.job_id], state=status.state, exit_code=status.exit_code
            )

    def remove(self, job_id: JobId) -> None:
        """Forget a job."""
        self._entries.pop(job_id, None)

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[JobId]) -> None:
        """Put these entries in place of what stands under their ids, forget `gone`."""
        kept = {job_id: entry for job_id, entry in self._entries.items() if job_id not in gone}
        self._entries = kept | {entry.job_id: entry for entry in entries}

    def find(self, job_id_prefix: str) -> Sequence[JobEntry]:
        """The jobs whose id begins so, newest first; an exact id gives exactly that job."""
        found = [entry for entry in self.latest(None) if entry.job_id.startswith(job_id_prefix)]
        return [entry for entry in found if entry.job_id == job_id_prefix] or found

    def latest(self, limit: int | None) -> Sequence[JobEntry]:
        """The newest jobs, newest first; None is all."""
        later_first = reversed(self._entries.values())
        return sorted(later_first, key=lambda entry: -entry.created_s)[:limit]
