"""How jobs are that were handed to Slurm: squeue for the living, sacct for the finished."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.core.errors import HpckitError, StorageFailed, ToolFailed
from hpckit.core.files import Clock
from hpckit.core.files_in_job import read_regular
from hpckit.core.late import Late
from hpckit.jobs.local_record import (
    Intent,
    LocalResult,
    LocalRun,
    component_names,
    read_intent,
    read_record,
)
from hpckit.jobs.process_tree import find_process
from hpckit.jobs.status import (
    CONFIRM_S,
    FAR_CONFIRM_S,
    SlurmView,
    merge_records,
    own_records,
    runaway_status,
    status_of_records,
    unknown_status,
    unlisted_status,
    unsettled_status,
)
from hpckit.slurm.values import JobEntry, JobId, JobRecord, JobState, JobStatus, is_confirmed
from hpckit.spec.folder_in_job import COMPONENT_END, COMPONENTS_FOLDER
from hpckit.spec.job_folder import (
    EFFECTIVE_FILE,
    INTENT_FILE,
    LOGS_FOLDER,
    RESULT_FILE,
    RUN_FILE,
    SUBMITTED_FILE,
    log_file,
)

if TYPE_CHECKING:
    import socket

    from hpckit.slurm.ask import SlurmCli
else:
    socket = Late("socket")

_SINCE_MARGIN_S = 60.0
_MOST_TASKS = 1_000_000


def look(slurm: SlurmCli, jobs: Sequence[JobEntry], cluster: str | None) -> SlurmView:
    """Ask about these jobs; what goes wrong is in the view."""
    view = SlurmView()
    try:
        view.queue = _grouped(jobs, slurm.queue(cluster))
    except HpckitError as error:
        view.queue_problem = _sentence(error)
    left = [job for job in jobs if _is_open(view.queue.get(job.submission, ()))]
    confirmed = [job for job in left if job.is_whole]
    unconfirmed = [job for job in left if not job.is_whole]
    if confirmed:
        ids = list(dict.fromkeys(job_id for job in confirmed for job_id in job.job_ids))
        _ask_accounts(view, confirmed, lambda: slurm.accounts(ids, cluster))
    if unconfirmed and view.has_accounts:
        since_s = min(job.created_s for job in unconfirmed) - _SINCE_MARGIN_S
        _ask_accounts(view, unconfirmed, lambda: slurm.accounts_since(since_s, cluster))
    return view


def _ask_accounts(
    view: SlurmView,
    jobs: Sequence[JobEntry],
    question: Callable[[], Sequence[JobRecord] | None],
) -> None:
    try:
        records = question()
    except HpckitError as error:
        view.accounts_problem = _sentence(error)
        return
    if records is None:
        view.has_accounts = False
        return
    view.accounts = {**view.accounts, **_grouped(jobs, records)}


def _grouped(
    jobs: Sequence[JobEntry], records: Sequence[JobRecord]
) -> Mapping[str, Sequence[JobRecord]]:
    named: dict[str, list[JobRecord]] = {}
    for record in records:
        if record.submission is not None:
            named.setdefault(record.submission, []).append(record)
    return {job.submission: own_records(job, named.get(job.submission, ())) for job in jobs}


def _is_open(records: Sequence[JobRecord]) -> bool:
    """Whether squeue leaves something open: it lists no exit codes, and not every ended task."""
    if not records:
        return True
    if any(not record.state.is_final for record in records):
        return False
    if any(record.task_index is not None for record in records):
        return True
    return records[0].state is not JobState.COMPLETED


def _sentence(error: HpckitError) -> str:
    if isinstance(error, ToolFailed):
        from hpckit.slurm.sbatch import refusal_words

        return f"{error.argv[0]} failed: {refusal_words(error.stderr) or error.returncode}"
    return error.message


_SHOWN_AT_MOST = 50
_CODE_MASK = 128
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError)


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
            for job_id in dict.fromkeys(record.leader_id for record in records):
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
    tasks = tasks_asked_for(folder) if is_array else None
    status = status_of_records(job, records, view, tasks)
    if job.is_component:
        status = replace(status, **_own_end(status.state, folder))
    elif status.components:
        status = replace(status, components=_component_ends(status.components, folder))
    if status.state.is_final:
        is_whole = all(is_confirmed(part.job_id) for part in status.parts)
        if not is_whole and _may_grow(job, folder, age_s):
            return unsettled_status(status)
        return _with_whole_code(status, folder)
    runaway = view.queue_problem is None and not view.queue.get(job.submission)
    if runaway and status.state is not JobState.UNKNOWN and age_s > CONFIRM_S:
        return runaway_status(job, status)
    return status


def _unlisted(job: JobEntry, folder: Path, view: SlurmView, age_s: float) -> JobStatus:
    problem = view.problem
    if problem is not None:
        return unknown_status(job, problem)
    intent = _intent(folder)
    lives = intent.submitter_lives
    if lives is None and intent.submitter_host is not None:
        elsewhere = _elsewhere(job, intent)
        if elsewhere is not None:
            return unknown_status(job, elsewhere)
    return unlisted_status(
        job,
        age_s=age_s,
        confirm_s=FAR_CONFIRM_S if lives is None else CONFIRM_S,
        is_submitting=lives is True,
        has_log=_has_log(folder),
        accounts_asked=view.has_accounts,
    )


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
    from hpckit.slurm.conf import cluster_name

    there, here = intent.slurm_cluster, cluster_name(os.environ)
    if there is not None and here is not None:
        return None if there == here else f"it belongs to cluster {there}: run this command there"
    if job.is_confirmed:
        return None
    return f"unknown on this host: it was submitted on {intent.submitter_host}, ask there"


def _intent(folder: Path) -> Intent:
    try:
        return read_intent(folder) or Intent()
    except StorageFailed:
        return Intent()


def _lacks_code(records: Sequence[JobRecord]) -> bool:
    return any(
        record.state is JobState.FAILED and record.exit_code is None for record in records
    ) and all(record.state.is_final for record in records)


def tasks_asked_for(folder: Path) -> Sequence[int] | None:
    """The tasks of the array that the job file asked for; None where the folder does not tell."""
    from hpckit.slurm.text import array_ranges

    try:
        text = json.loads(read_regular(folder / EFFECTIVE_FILE))["job"]["slurm"]["array"]
        ranges = array_ranges(str(text))
        count = sum(map(len, ranges))
    except _UNREADABLE:
        return None
    if count > _MOST_TASKS:
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


def _component_ends(components: Sequence[JobRecord], folder: Path) -> tuple[JobRecord, ...]:
    names = component_names(folder)
    if len(names) != len(components):
        return tuple(components)
    return tuple(
        replace(record, **_own_end(record.state, folder / COMPONENTS_FOLDER / name))
        for name, record in zip(names, components, strict=True)
    )


_SCRIPT_STATES = frozenset(
    {JobState.RUNNING, JobState.COMPLETING, JobState.COMPLETED, JobState.FAILED}
)
"""What Slurm says of the script, and so of each component."""


def _own_end(state: JobState, folder: Path) -> dict[str, Any]:
    """Return the fields in which a component's own record differs from Slurm's; {} without one.

    To Slurm each component of a heterogeneous job ends when and as the script does.
    """
    if state not in _SCRIPT_STATES:
        return {}
    try:
        newest = max(folder.glob(f"{COMPONENT_END}-*"), key=lambda path: path.stat().st_mtime)
        code, *asked = read_regular(newest).split()
        exit_code = int(code)
    except (OSError, ValueError):
        return {}
    if asked:
        reason = "stopped when the other components ended"
        return {"state": JobState.CANCELLED, "exit_code": exit_code, "reason": reason}
    return {"state": JobState.FAILED if exit_code else JobState.COMPLETED, "exit_code": exit_code}


def _has_log(folder: Path) -> bool:
    try:
        return any(path.name.startswith("job") for path in (folder / LOGS_FOLDER).iterdir())
    except OSError:
        return False


LOST_REASON = "the supervisor ended without recording a result (killed, or the machine restarted)"
_SUBMISSION_S = 60.0


def local_status(job_id: JobId, folder: Path) -> JobStatus:
    """The status of the job in a folder; what cannot be read is UNKNOWN with the reason."""
    try:
        if result := read_record(folder, RESULT_FILE, LocalResult):
            return _ended(job_id, result)
        run = read_record(folder, RUN_FILE, LocalRun)
        alive = run is not None and is_here(run) and find_process(run.supervisor) is not None
        # It may have ended between the questions.
        if not alive and (result := read_record(folder, RESULT_FILE, LocalResult)):
            return _ended(job_id, result)
        if run is not None:
            return _started(job_id, run, alive=alive)
        return _intended(job_id, folder)
    except StorageFailed as error:
        return _lost(job_id, error.message)


def _lost(job_id: JobId, reason: str) -> JobStatus:
    return JobStatus(job_id=job_id, state=JobState.UNKNOWN, is_lost=True, reason=reason)


def is_here(run: LocalRun) -> bool:
    """Whether the job runs on this machine."""
    return run.host == socket.gethostname()


def _ended(job_id: JobId, result: LocalResult) -> JobStatus:
    return JobStatus(
        job_id=job_id,
        state=result.state,
        exit_code=result.exit_code,
        exit_signal=result.exit_signal,
        started_s=result.started_s,
        ended_s=result.ended_s,
        reason=result.reason,
    )


def _started(job_id: JobId, run: LocalRun, *, alive: bool) -> JobStatus:
    if not is_here(run):
        state, reason = JobState.UNKNOWN, f"it runs on {run.host}: run this command there"
    elif alive:
        return JobStatus(job_id=job_id, state=JobState.RUNNING, started_s=run.started_s)
    else:
        state, reason = JobState.FAILED, LOST_REASON
        if run.script is not None and find_process(run.script) is not None:
            reason += "; its script still runs: hpckit cancel ends it"
    return JobStatus(job_id=job_id, state=state, started_s=run.started_s, reason=reason)


def _intended(job_id: JobId, folder: Path) -> JobStatus:
    intent = read_intent(folder)
    if intent is None:
        is_there = folder.is_dir()
        return _lost(
            job_id, f"{folder} {f'has no {INTENT_FILE}' if is_there else 'does not exist'}"
        )
    if (folder / SUBMITTED_FILE).exists():
        return _lost(job_id, "it was started, but its run.json is gone")
    if _submission_is_over(intent, folder):
        reason = "the submission ended before the job started"
        return JobStatus(job_id=job_id, state=JobState.NOT_SUBMITTED, reason=reason)
    return JobStatus(job_id=job_id, state=JobState.PENDING, reason="submission in progress")


def _submission_is_over(intent: Intent, folder: Path) -> bool:
    try:
        age_s = time.time() - (folder / INTENT_FILE).stat().st_mtime
    except OSError:
        return True
    return age_s > _SUBMISSION_S or intent.submitter_lives is False
