"""The job index without a file."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.core.errors import StorageFailed
from hpckit.slurm.values import JobEntry


class MemoryJobIndex:
    """Jobs in a dictionary, in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: dict[str, JobEntry] = {}

    def add(self, entry: JobEntry) -> None:
        """Record a job. Raises StorageFailed for a submission that is there already."""
        if entry.submission in self._entries:
            raise StorageFailed(f"job {entry.job_id} is already in the index")
        self._entries[entry.submission] = entry

    def update(self, entries: Sequence[JobEntry]) -> None:
        """Put these entries in place of theirs."""
        for entry in entries:
            if entry.submission in self._entries:
                self._entries[entry.submission] = entry

    def remove(self, submission: str) -> None:
        """Forget a job."""
        self._entries.pop(submission, None)

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[str]) -> None:
        """Put these entries in place of their submissions', forget `gone`."""
        for key in (*gone, *(entry.submission for entry in entries)):
            self._entries.pop(key, None)
        self._entries |= {entry.submission: entry for entry in entries}

    def find(self, job_id_prefix: str) -> Sequence[JobEntry]:
        """The jobs whose id begins so, newest first; an exact id gives those of that id."""
        known = self.latest(None)
        found = [
            entry
            for entry in known
            if entry.job_id.startswith(job_id_prefix)
            or job_id_prefix in entry.job_ids
            or (len(job_id_prefix) > 1 and f"U{entry.submission}".startswith(job_id_prefix))
        ]
        return [entry for entry in found if job_id_prefix in entry.job_ids] or found

    def of_chain(self, chain: str) -> Sequence[JobEntry]:
        """The jobs of a chain, in the order of its stages."""
        of_it = [entry for entry in self._entries.values() if entry.chain == chain]
        return sorted(of_it, key=lambda entry: entry.created_s)

    def latest(self, limit: int | None) -> Sequence[JobEntry]:
        """The newest jobs, newest first; None is all."""
        later_first = reversed(self._entries.values())
        return sorted(later_first, key=lambda entry: -entry.created_s)[:limit]

    def readable(self) -> tuple[Sequence[JobEntry], str | None]:
        """All jobs: what is in memory can be read."""
        return self.latest(None), None
