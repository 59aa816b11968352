"""The life of submitted jobs: find, ask, wait, cancel, list, rebuild the index."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpckit.errors import HpckitError, StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from hpckit.ports import Clock, JobFolders, JobIndex, Submitter

_MAX_EPOCH_S = 1e11
UNKNOWN_LIMIT_S = 60.0
"""How long waiting goes on while nobody knows how the job is."""


def find_job(index: JobIndex, wanted: str | None) -> JobEntry:
    """The job with this id or beginning of an id; None is the newest job.

    Raises HpckitError when there is none, or more than one.
    """
    if wanted is None:
        newest = index.latest(1)
        if not newest:
            raise HpckitError("no job has been submitted yet", hint="hpckit submit JOB")
        return newest[0]
    if not wanted.strip():
        raise HpckitError("the job id is empty", hint="hpckit jobs lists them")
    found = index.find(wanted) or index.find(f"L{wanted}")
    if not found:
        raise HpckitError(f"there is no job {wanted!r}", hint="hpckit jobs lists them")
    if len(found) > 1:
        ids = ", ".join(entry.job_id for entry in found[:5])
        raise HpckitError(f"{wanted!r} begins more than one job id: {ids}")
    return found[0]


def job_status(entry: JobEntry, submitter: Submitter, index: JobIndex) -> JobStatus:
    """What is known of a job now; a changed state is remembered in the index."""
    return _ask([entry], submitter, index)[0]


def _ask(entries: Sequence[JobEntry], submitter: Submitter, index: JobIndex) -> Sequence[JobStatus]:
    folders = {entry.job_id: Path(entry.folder) for entry in entries}
    answers = submitter.statuses(folders)
    for entry in entries:
        status = answers[entry.job_id]
        if status.state is not JobState.UNKNOWN and status.state is not entry.state:
            index.update(status)
    return [answers[entry.job_id] for entry in entries]


def list_jobs(
    index: JobIndex, submitter: Submitter, limit: int | None
) -> Sequence[tuple[JobEntry, JobStatus]]:
    """The newest jobs with their status; only jobs that can still change are asked about."""
    entries = index.latest(limit)
    living = [entry for entry in entries if not entry.state.is_final]
    fresh = {status.job_id: status for status in _ask(living, submitter, index)}
    return [(entry, fresh.get(entry.job_id) or _remembered(entry)) for entry in entries]


def _remembered(entry: JobEntry) -> JobStatus:
    return JobStatus(job_id=entry.job_id, state=entry.state, exit_code=entry.exit_code)


def wait_for(
    entry: JobEntry,
    submitter: Submitter,
    index: JobIndex,
    clock: Clock,
    *,
    poll_interval_s: float,
    timeout_s: float | None = None,
    progress: Callable[[JobStatus, float], None],
) -> JobStatus:
    """Ask every `poll_interval_s` until the job has ended; then its final status.

    `progress` is called with the status and the seconds waited after each question. Gives the
    last status when `timeout_s` has passed first. Raises HpckitError when the job's state has
    been unknown for UNKNOWN_LIMIT_S.
    """
    begun_s = known_s = clock.now_s()
    while True:
        status = job_status(entry, submitter, index)
        now_s = clock.now_s()
        waited_s = now_s - begun_s
        if status.state is not JobState.UNKNOWN:
            known_s = now_s
        if status.state.is_final or (timeout_s is not None and waited_s >= timeout_s):
            return status
        if now_s - known_s >= UNKNOWN_LIMIT_S:
            raise HpckitError(f"what became of {entry.job_id} is not known: {status.reason}")
        progress(status, waited_s)
        clock.sleep(poll_interval_s)


def rebuild(
    index: JobIndex, folders: JobFolders, submitter: Submitter, roots: Sequence[Path]
) -> tuple[int, tuple[str, ...]]:
    """Fill the index from the job folders under `roots`, and forget jobs without a folder.

    Gives the number of jobs found and a sentence for each folder that could not be read.
    """
    entries, wrong = [], []
    for root in roots:
        for folder in folders.scan(root):
            try:
                entries.append(_entry_of(folders.read_json(folder, "intent.json"), folder))
            except (StorageFailed, KeyError, TypeError, ValueError) as error:
                wrong.append(f"{folder}: {error}")
    states = submitter.statuses({entry.job_id: Path(entry.folder) for entry in entries})
    found = [_with_status(entry, states[entry.job_id]) for entry in entries]
    index.rebuild(found, _gone(index, folders))
    return len(entries), tuple(wrong)


def _with_status(entry: JobEntry, status: JobStatus) -> JobEntry:
    if status.state is JobState.UNKNOWN:
        return entry
    return replace(entry, state=status.state, exit_code=status.exit_code)


def _gone(index: JobIndex, folders: JobFolders) -> Sequence[JobId]:
    try:
        known = index.latest(None)
    except StorageFailed:
        return ()
    return [entry.job_id for entry in known if not folders.is_folder(Path(entry.folder))]


def _entry_of(intent: Mapping[str, object], folder: Path) -> JobEntry:
    job_id, created_s = str(intent["job_id"]), float(str(intent["created_s"]))
    if not re.fullmatch(r"[A-Za-z0-9_.+-]{1,64}", job_id) or not 0 <= created_s < _MAX_EPOCH_S:
        raise ValueError("intent.json holds a job id or time that cannot be")
    return JobEntry(
        job_id=JobId(job_id),
        name=str(intent["name"]),
        site=str(intent["site"]),
        folder=str(folder),
        created_s=created_s,
        state=JobState.PENDING,
    )
