"""How jobs are that were handed to Slurm: squeue for the living, sacct for the finished."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpckit.adapters.intent import read_intent
from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.decide.job_status import (
    CONFIRM_S,
    FAR_CONFIRM_S,
    merge_records,
    stale_status,
    status_of_records,
    unanswered_status,
    unlisted_status,
)
from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.job_folder import LOGS_FOLDER
from hpckit.model.slurm import JobEntry, JobRecord, JobState, JobStatus
from hpckit.ports import Clock

_SHOWN_AT_MOST = 5
_SINCE_MARGIN_S = 60.0


@dataclass(slots=True)
class _View:
    """What Slurm said when asked about some jobs of one cluster."""

    queue: Mapping[str, Sequence[JobRecord]] = field(default_factory=dict)
    accounts: Mapping[str, Sequence[JobRecord]] = field(default_factory=dict)
    has_accounts: bool = True
    queue_problem: str | None = None
    accounts_problem: str | None = None


class SlurmStatuses:
    """Answers for many jobs at once: one squeue a cluster, sacct for what it leaves open."""

    def __init__(self, slurm: SlurmCli, clock: Clock) -> None:
        self._slurm = slurm
        self._clock = clock

    def of(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Submission → status. What Slurm does not tell is UNKNOWN, with the reason."""
        answers: dict[str, JobStatus] = {}
        # Before the questions: what they do not list was not there when this time was taken.
        now_s = self._clock.now_s()
        for cluster in dict.fromkeys(job.cluster for job in jobs):
            group = [job for job in jobs if job.cluster == cluster]
            view = self._look(group, cluster)
            left = _SHOWN_AT_MOST
            for job in group:
                records = merge_records(
                    view.queue.get(job.submission, ()), view.accounts.get(job.submission, ())
                )
                if left and _lacks_code(records):
                    records = self._shown(job, records, cluster)
                    left -= 1
                answers[job.submission] = self._status(job, records, view, now_s)
        return answers

    def _look(self, jobs: Sequence[JobEntry], cluster: str | None) -> _View:
        view = _View()
        try:
            view.queue = _by_submission(self._slurm.queue(cluster), ())
        except HpckitError as error:
            view.queue_problem = error.message
        open_jobs = [job for job in jobs if _is_open(view.queue.get(job.submission, ()))]
        try:
            self._look_into_accounts(open_jobs, cluster, view)
        except HpckitError as error:
            view.accounts_problem = error.message
        return view

    def _look_into_accounts(
        self, jobs: Sequence[JobEntry], cluster: str | None, view: _View
    ) -> None:
        confirmed = [job for job in jobs if job.is_confirmed]
        found: list[JobRecord] = []
        if confirmed:
            ids = list(dict.fromkeys(job.job_id for job in confirmed))
            records = self._slurm.accounts(ids, cluster)
            view.has_accounts = records is not None
            found += records or ()
        unconfirmed = [job for job in jobs if not job.is_confirmed]
        if unconfirmed and view.has_accounts:
            since_s = min(job.created_s for job in unconfirmed) - _SINCE_MARGIN_S
            records = self._slurm.accounts_since(getpass.getuser(), since_s, cluster)
            view.has_accounts = records is not None
            found += records or ()
        view.accounts = _by_submission(found, confirmed)

    def _shown(
        self, job: JobEntry, records: Sequence[JobRecord], cluster: str | None
    ) -> Sequence[JobRecord]:
        """The records with the exit code that slurmctld remembers, where there are no accounts."""
        try:
            shown = self._slurm.show(records[0].job_id, cluster)
        except HpckitError:
            return records
        return merge_records(records, [one for one in shown if one.submission == job.submission])

    def _status(
        self, job: JobEntry, records: Sequence[JobRecord], view: _View, now_s: float
    ) -> JobStatus:
        if records:
            status = status_of_records(job, records)
            if view.queue_problem is None or status.state.is_final:
                return status
            return stale_status(status, view.queue_problem)
        problem = view.queue_problem or view.accounts_problem
        if problem is not None:
            return unanswered_status(job, problem)
        folder = Path(job.folder)
        lives = _submitter_lives(folder)
        return unlisted_status(
            job,
            age_s=now_s - job.created_s,
            confirm_s=FAR_CONFIRM_S if lives is None else CONFIRM_S,
            is_submitting=lives is True,
            has_log=_has_log(folder),
            accounts_asked=view.has_accounts,
        )


def _by_submission(
    records: Sequence[JobRecord], by_id: Sequence[JobEntry]
) -> Mapping[str, Sequence[JobRecord]]:
    """Records by the uuid that they name; one that names none, by the id of a confirmed job.

    A record that names another uuid is another job's whose id was used again.
    """
    ids = {job.job_id: job.submission for job in by_id}
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        submission = record.submission or ids.get(record.job_id)
        if submission is not None:
            found.setdefault(submission, []).append(record)
    return found


def _is_open(records: Sequence[JobRecord]) -> bool:
    """Whether squeue leaves something open: it lists no exit codes, and not every ended task."""
    if not records:
        return True
    if any(not record.state.is_final for record in records):
        return False
    if any(record.task_index is not None for record in records):
        return True
    return records[0].state is not JobState.COMPLETED


def _lacks_code(records: Sequence[JobRecord]) -> bool:
    return any(
        record.state is JobState.FAILED and record.exit_code is None for record in records
    ) and all(record.state.is_final for record in records)


def _submitter_lives(folder: Path) -> bool | None:
    try:
        intent = read_intent(folder)
    except StorageFailed:
        return None
    return None if intent is None else intent.submitter_lives


def _has_log(folder: Path) -> bool:
    try:
        return any(path.name.startswith("job") for path in (folder / LOGS_FOLDER).iterdir())
    except OSError:
        return False
