"""How jobs are that were handed to Slurm: squeue for the living, sacct for the finished."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpckit.adapters.clock import Clock
from hpckit.adapters.intent import Intent, read_intent
from hpckit.adapters.regular_file import read_regular
from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.adapters.slurm_conf import cluster_name
from hpckit.adapters.slurm_view import SlurmView, look
from hpckit.decide.job_status import (
    CONFIRM_S,
    FAR_CONFIRM_S,
    merge_records,
    own_records,
    runaway_status,
    status_of_records,
    unanswered_status,
    unlisted_status,
    unsettled_status,
)
from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.array import array_ranges
from hpckit.model.job_folder import EFFECTIVE_FILE, LOGS_FOLDER, SUBMITTED_FILE, log_file
from hpckit.model.slurm import JobEntry, JobRecord, JobState, JobStatus, is_confirmed

_SHOWN_AT_MOST = 50
_CODE_MASK = 128
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError)
_MOST_TASKS = 1_000_000


class SlurmStatuses:
    """Answers for many jobs at once, and with the fewest questions."""

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
            view = look(self._slurm, group, cluster)
            left = _SHOWN_AT_MOST
            for job in group:
                records = merge_records(
                    view.queue.get(job.submission, ()), view.accounts.get(job.submission, ())
                )
                if left and _lacks_code(records):
                    records = self._shown(job, records, cluster)
                    left -= 1
                answers[job.submission] = _status(job, records, view, now_s - job.created_s)
        return answers

    def _shown(
        self, job: JobEntry, records: Sequence[JobRecord], cluster: str | None
    ) -> Sequence[JobRecord]:
        """The records with the exit code that slurmctld remembers, where there are no accounts."""
        shown: list[JobRecord] = []
        try:
            for job_id in dict.fromkeys(record.job_id for record in records):
                shown += self._slurm.show(job_id, cluster)
        except HpckitError:
            return records
        return merge_records(records, own_records(job, shown))


def _status(
    job: JobEntry, records: Sequence[JobRecord], view: SlurmView, age_s: float
) -> JobStatus:
    folder = Path(job.folder)
    if not records:
        return _unlisted(job, folder, view, age_s)
    is_array = bool(job.parts) or any(record.task_index is not None for record in records)
    tasks = _tasks(folder) if is_array else None
    status = status_of_records(job, records, answers=view.answers, tasks=tasks)
    if status.state.is_final:
        if not _is_whole(status) and _may_grow(job, folder, age_s):
            return unsettled_status(status)
        return _with_whole_code(status, folder)
    runaway = view.queue_problem is None and not view.queue.get(job.submission)
    if runaway and status.state is not JobState.UNKNOWN and age_s > CONFIRM_S:
        return runaway_status(job, status)
    return status


def _unlisted(job: JobEntry, folder: Path, view: SlurmView, age_s: float) -> JobStatus:
    problem = view.answers.problem
    if problem is not None:
        return unanswered_status(job, problem)
    intent = _intent(folder)
    lives = intent.submitter_lives
    if lives is None and intent.submitter_host is not None:
        elsewhere = _elsewhere(job, intent)
        if elsewhere is not None:
            return unanswered_status(job, elsewhere)
    return unlisted_status(
        job,
        age_s=age_s,
        confirm_s=FAR_CONFIRM_S if lives is None else CONFIRM_S,
        is_submitting=lives is True,
        has_log=_has_log(folder),
        accounts_asked=view.has_accounts,
    )


def _is_whole(status: JobStatus) -> bool:
    return all(is_confirmed(part.job_id) for part in status.parts)


def _may_grow(job: JobEntry, folder: Path, age_s: float) -> bool:
    """Whether parts of a split array may still be submitted or come to be listed.

    Each part has as long for that as a job, from when the one before it was recorded.
    """
    lives = _intent(folder).submitter_lives
    try:
        recorded_s = float(json.loads(read_regular(folder / SUBMITTED_FILE))["submitted_s"])
        age_s = min(age_s, job.created_s + age_s - recorded_s)
    except _UNREADABLE:
        pass
    return lives is True or age_s < (FAR_CONFIRM_S if lives is None else CONFIRM_S)


def _elsewhere(job: JobEntry, intent: Intent) -> str | None:
    """Why this host cannot tell what became of a job that another one submitted; None if it can.

    Hosts that share a home folder, and so the index, need not share a Slurm.
    """
    there, here = intent.slurm_cluster, cluster_name(os.environ)
    if there is not None and here is not None:
        return None if there == here else f"it belongs to the cluster {there}: ask there"
    if job.is_confirmed:
        return None
    return f"only {intent.submitter_host} can tell: it was submitted there"


def _intent(folder: Path) -> Intent:
    try:
        return read_intent(folder) or Intent()
    except StorageFailed:
        return Intent()


def _lacks_code(records: Sequence[JobRecord]) -> bool:
    return any(
        record.state is JobState.FAILED and record.exit_code is None for record in records
    ) and all(record.state.is_final for record in records)


def _tasks(folder: Path) -> Sequence[int] | None:
    """The tasks of the array that the job file asked for; None where the folder does not tell."""
    try:
        text = json.loads(read_regular(folder / EFFECTIVE_FILE))["job"]["slurm"]["array"]
        ranges = array_ranges(str(text))
    except _UNREADABLE:
        return None
    if sum(map(len, ranges)) > _MOST_TASKS:
        return None
    return sorted({task for tasks in ranges for task in tasks})


def _with_whole_code(status: JobStatus, folder: Path) -> JobStatus:
    """The status with the exit code that the rank that failed first has left.

    Slurm's accounts take 128 from a code above that (24.11.5), so that 200 reads as 72 and a
    shell's 137 as 9.
    """
    code = status.exit_code
    if status.state is not JobState.FAILED or not code or status.exit_signal is not None:
        return status
    failed = [task.task_index for task in status.tasks if task.state is JobState.FAILED]
    logs = (folder / log_file(0, failed[0] if failed else None)).parent
    try:
        newest = max(logs.glob("failed-*"), key=lambda path: path.stat().st_mtime)
        whole = int(read_regular(newest).split()[0])
    except (OSError, ValueError, IndexError):
        return status
    return replace(status, exit_code=whole) if whole == code + _CODE_MASK else status


def _has_log(folder: Path) -> bool:
    try:
        return any(path.name.startswith("job") for path in (folder / LOGS_FOLDER).iterdir())
    except OSError:
        return False
