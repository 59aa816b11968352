"""The life of submitted jobs: find, ask, wait, list, rebuild the index."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpckit.core.document import convert
from hpckit.core.errors import ConfigError, HpckitError, NoSuchJob, StorageFailed
from hpckit.core.fields import as_json, to_tree
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.jobs.local_record import component_names
from hpckit.slurm.values import (
    JobDetail,
    JobEntry,
    JobId,
    JobRecord,
    JobState,
    JobStatus,
)
from hpckit.spec.folder_in_job import COMPONENTS_FOLDER, SAMPLER_STEP
from hpckit.spec.job_folder import (
    INTENT_FILE,
    RESULT_FILE,
    RESULT_SCHEMA,
    SECRETS_FILE,
    SUBMITTED_FILE,
)

if TYPE_CHECKING:
    from hpckit.core.files import Clock
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.jobs.parts import Submitter
    from hpckit.spec.store import FileJobFolders


_MOST_NAMED = 5


def ambiguous(wanted: str, by_name: Mapping[str, JobEntry]) -> HpckitError:
    """The newest of the jobs, which are given the oldest first by `ID;PLACE`.

    The place is said only where an id is at two places.
    """
    ids = [name.partition(";")[0] for name in by_name]
    is_begin = len(set(ids)) == len(ids)
    names = (ids if is_begin else list(by_name))[::-1]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return HpckitError(
        f"{wanted!r} matches more than one job: {', '.join(names[:_MOST_NAMED])}{more}",
        hint="give more of the job ID; hpckit jobs lists them"
        if is_begin
        else "add the cluster or site: 'ID;PLACE'",
    )


def recalled_end(entry: JobEntry, folders: FileJobFolders) -> JobStatus | None:
    """The end of a job that the index knows to have ended; None where it must be asked for.

    A job can be requeued: then the index knows better than the folder.
    """
    if not entry.state.is_final:
        return None
    status = folder_end(entry, folders)
    return status if status is not None and status.state is entry.state else None


def folder_end(entry: JobEntry, folders: FileJobFolders) -> JobStatus | None:
    """The final status that the folder of a job holds; None where it holds none."""
    try:
        document = dict(folders.read_json(Path(entry.folder), RESULT_FILE))
        if document.pop("schema", None) != RESULT_SCHEMA:
            return None
        status = convert(document, JobStatus, RESULT_FILE)
    except (StorageFailed, ConfigError):
        return None
    return status if status.state.is_final and status.job_id == entry.job_id else None


def record_end(entry: JobEntry, status: JobStatus, folders: FileJobFolders) -> None:
    """Write the final status of a job on Slurm into its folder, unless what ran it has.

    A submission that became no job is left out: Slurm's answer to it can still change. Of a local
    job its folder tells: the script may outlive what ran it.
    """
    folder = Path(entry.folder)
    if not status.state.is_final or status.state is JobState.NOT_SUBMITTED:
        return
    for place in (folder, *(folder / COMPONENTS_FOLDER / name for name in component_names(folder))):
        folders.forget(place, SECRETS_FILE)  # a job that was killed has left it
    if not entry.job_id.isdecimal():
        return
    with contextlib.suppress(StorageFailed):
        if folders.read_json(folder, RESULT_FILE).get("schema") != RESULT_SCHEMA:
            return
    # A folder on a full disk must not hide how the job is: it is asked for again.
    with contextlib.suppress(StorageFailed):
        folders.write(folder, RESULT_FILE, as_json({"schema": RESULT_SCHEMA, **to_tree(status)}))


_COMPONENT: Final = regex(r"([0-9]+)\+([a-z0-9_]{1,31})", re.ASCII)
_JOB_ID: Final = regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_UUID: Final = regex(r"[0-9a-f]{32}")
_LATEST_S: Final = 1e11
_MOST_TASKS: Final = 10**9

_SHARE: Final = 0.2
_LONGEST_S: Final = 60.0


def pause_s(waited_s: float, poll_interval_s: float) -> float:
    """Seconds until the next question after waiting `waited_s`.

    The site's interval at first, then a fifth of the time waited so far, at most a minute (or
    the site's interval, if that is longer): ten minutes cost about thirty questions.
    """
    return min(max(poll_interval_s, _SHARE * waited_s), max(poll_interval_s, _LONGEST_S))


_ENDED_AS_WANTED = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.NOT_SUBMITTED})
_SECOND_LOOK_S = 3600.0  # so long a submission that became no job is asked about again
LOST_LIMIT_S = 60.0
"""How long waiting goes on for a job of which nobody will know more."""
UNKNOWN_LIMIT_S = 3600.0
"""How long waiting goes on while the scheduler cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackTools:
    """The adapters that tracking uses; `submitter_of` gives what started a job.

    `submitter_of` raises HpckitError for a job whose folder does not say.
    """

    submitter_of: Callable[[JobEntry], Submitter]
    index: SqliteJobIndex
    folders: FileJobFolders
    clock: Clock


def find_job(index: SqliteJobIndex, wanted: str | None) -> JobEntry:
    """The job with this id; None is the newest job.

    A number is a whole id: 12 is not the beginning of 1234. The id of any part of a split array is
    the array's. Of a local (L…) or unconfirmed (U…) id any beginning will do. `4242;north` is the
    job of that cluster or site; `4242+1` and `4242+trainer` are a component of it. Raises
    HpckitError when there is none, or more than one.
    """
    match = _COMPONENT.fullmatch(wanted or "")
    if match is not None:
        return _component_of(find_job(index, match[1]), match[2])
    if wanted is None:
        newest = index.latest(1)
        if not newest:
            raise HpckitError(
                "no job has been submitted yet",
                hint="hpckit submit JOB; hpckit jobs --rebuild finds jobs by their folders",
            )
        return newest[0]
    job_id, _, where = wanted.partition(";")
    if not (job_id and wanted.strip() and wanted.isprintable()):
        raise NoSuchJob(f"invalid job ID {wanted!r}")
    found = [
        entry
        for entry in _named(index, job_id)
        if not where or where in (entry.cluster, entry.site)
    ]
    if not found:
        named = f"by name: hpckit jobs --name {shlex.quote(wanted)}"
        raise NoSuchJob(
            f"no job {wanted!r} was submitted from here with hpckit",
            also=None if wanted[0].isdigit() else named,
        )
    # The newest of each place: a cluster uses its ids again after years.
    by_name = {_name(entry, job_id): entry for entry in reversed(found)}
    if len(by_name) > 1:
        raise ambiguous(wanted, by_name)
    return found[0]


def _component_of(entry: JobEntry, wanted: str) -> JobEntry:
    """The line of an index for a component: its own folder, and its own id to Slurm."""
    names = component_names(Path(entry.folder))
    numbers = [str(number) for number in range(len(names))]
    if wanted not in (*names, *numbers):
        known = ", ".join(names) or "none"
        raise NoSuchJob(f"job {entry.job_id} has no component {wanted!r}; its components: {known}")
    number = names.index(wanted) if wanted in names else int(wanted)
    return replace(
        entry,
        job_id=JobId(f"{entry.job_id}+{number}"),
        name=f"{entry.name}-{names[number]}",
        folder=str(Path(entry.folder) / COMPONENTS_FOLDER / names[number]),
    )


def _named(index: SqliteJobIndex, job_id: str) -> Sequence[JobEntry]:
    if job_id.isdecimal():
        return [entry for entry in index.find(job_id) if job_id in entry.job_ids]
    return index.find(job_id) or index.find(f"L{job_id}")


def _name(entry: JobEntry, wanted: str) -> str:
    job_id = wanted if wanted in entry.job_ids else entry.job_id
    return f"{job_id};{entry.cluster or entry.site}"


def find_task(index: SqliteJobIndex, wanted: str | None) -> tuple[JobEntry, int | None]:
    """The job with this id, and the task when it is written as Slurm writes one: 4242_7.

    After the id of a later part of a split array the task counts in that part, as it does to
    Slurm; the task that is returned counts in the whole.
    """
    match = re.fullmatch(r"(.+)_(\d{1,9})", wanted or "", re.ASCII)
    if match is None:
        return find_job(index, wanted), None
    entry = find_job(index, match[1])
    offsets = {str(part.job_id): part.offset for part in entry.parts[1:]}
    return entry, int(match[2]) + offsets.get(match[1].partition(";")[0], 0)


def job_status(entry: JobEntry, tools: TrackTools) -> JobStatus:
    """What is known of a job now; what has changed is remembered in the index."""
    return job_statuses([entry], tools)[0]


def job_detail(
    entry: JobEntry, status: JobStatus, tools: TrackTools, task: int | None = None
) -> JobDetail | None:
    """The steps of a job, or of one task, that ran and ended badly of itself; else None.

    That is one question more, also about a job of which the folder tells the end.
    """
    ended = status.state.is_final and status.state not in _ENDED_AS_WANTED
    if not ended or status.started_s is None or status.tasks:
        return None
    try:
        detail = tools.submitter_of(entry).detail(entry, task)
    except HpckitError:
        return None
    return None if detail is None else _of_the_job(detail)


def _of_the_job(detail: JobDetail) -> JobDetail:
    """Without the sampler's step, which Slurm ends with the job: that is no failure of the job."""
    steps = tuple(step for step in detail.steps if step.name != SAMPLER_STEP)
    return replace(detail, steps=steps)


def job_statuses(entries: Sequence[JobEntry], tools: TrackTools) -> Sequence[JobStatus]:
    """What is known of these jobs now, in their order, each submitter asked once.

    Of a job whose folder tells how it ended, none is asked.
    """
    answers: dict[str, JobStatus] = {}
    groups: dict[int, tuple[Submitter, list[JobEntry]]] = {}
    for entry in entries:
        recalled = recalled_end(entry, tools.folders)
        if recalled is not None:
            answers[entry.submission] = recalled
            continue
        try:
            submitter = tools.submitter_of(entry)
        except HpckitError as error:
            answers[entry.submission] = JobStatus(
                job_id=entry.job_id,
                cluster=entry.cluster,
                state=JobState.UNKNOWN,
                is_lost=True,
                reason=error.message,
            )
        else:
            groups.setdefault(id(submitter), (submitter, []))[1].append(entry)
    for submitter, group in groups.values():
        answers |= submitter.statuses(group)
    statuses = [_told(entry, answers[entry.submission]) for entry in entries]
    _remember(entries, statuses, tools)
    return statuses


def _told(entry: JobEntry, status: JobStatus) -> JobStatus:
    """An end that was told once stays told while nobody can be asked."""
    is_unknown = status.state is JobState.UNKNOWN and status.job_id == entry.job_id
    return _remembered(entry) if is_unknown and entry.state.is_final else status


def _remember(
    entries: Sequence[JobEntry], statuses: Sequence[JobStatus], tools: TrackTools
) -> None:
    changed: list[JobEntry] = []
    confirmed: list[JobEntry] = []
    for entry, status in zip(entries, statuses, strict=True):
        after = after_status(entry, status)
        if after == entry or entry.is_component:
            continue
        changed.append(after)
        record_end(after, status, tools.folders)
        if after.job_ids != entry.job_ids:
            confirmed.append(after)
    # How the jobs are is true without the index too, as where its disk is full.
    with contextlib.suppress(StorageFailed):
        tools.index.update(changed)
    for entry in confirmed:
        from hpckit.jobs.parts import submitted_document

        document = submitted_document(entry, tools.clock.now_s())
        # The index has it; a folder on a full disk must not hide how the other jobs are.
        with contextlib.suppress(StorageFailed):
            tools.folders.write(Path(entry.folder), SUBMITTED_FILE, as_json(document))


def after_status(entry: JobEntry, status: JobStatus) -> JobEntry:
    """The line of the index after an answer; what is unknown now does not undo what was known."""
    parts = status.parts or entry.parts
    if status.state is JobState.UNKNOWN and (status.job_id, parts) == (entry.job_id, entry.parts):
        return entry
    state = entry.state if status.state is JobState.UNKNOWN else status.state
    return replace(
        entry,
        job_id=status.job_id,
        parts=parts,
        cluster=status.cluster,
        state=state,
        exit_code=status.exit_code,
    )


def list_jobs(tools: TrackTools, limit: int | None) -> Sequence[tuple[JobEntry, JobStatus]]:
    """The newest jobs with their status; only jobs that can still change are asked about."""
    entries = tools.index.latest(limit)
    since_s = tools.clock.now_s() - _SECOND_LOOK_S
    living = [
        entry
        for entry in entries
        if not entry.state.is_final
        or (entry.state is JobState.NOT_SUBMITTED and entry.created_s > since_s)
    ]
    asked = zip(living, job_statuses(living, tools), strict=True)
    fresh = {entry.submission: (after_status(entry, status), status) for entry, status in asked}
    return [fresh.get(entry.submission) or (entry, _remembered(entry)) for entry in entries]


def _remembered(entry: JobEntry) -> JobStatus:
    return JobStatus(
        job_id=entry.job_id, cluster=entry.cluster, state=entry.state, exit_code=entry.exit_code
    )


@dataclass(slots=True)
class _Wait:
    """Jobs that are waited for: the last answer about each, and which have not ended.

    `is_vain` is True when nobody has known for long how any of those that are left is.
    """

    entries: dict[str, JobEntry]
    begun_s: float
    known_s: float
    statuses: dict[str, JobStatus] = field(default_factory=dict)
    is_vain: bool = False

    @property
    def open(self) -> list[JobEntry]:
        ended = {key for key, status in self.statuses.items() if status.state.is_final}
        return [entry for key, entry in self.entries.items() if key not in ended]

    def ask(self, tools: TrackTools) -> float:
        """Ask about the jobs that have not ended; gives the seconds waited so far."""
        asked = self.open
        for entry, status in zip(asked, job_statuses(asked, tools), strict=True):
            self.statuses[entry.submission] = status
            self.entries[entry.submission] = after_status(entry, status)
        now_s = tools.clock.now_s()
        unknown = [self.statuses[entry.submission] for entry in self.open]
        unknown = [status for status in unknown if status.state is JobState.UNKNOWN]
        if len(unknown) < len(self.open):
            self.known_s = now_s
        lost = all(status.is_lost for status in unknown)
        self.is_vain = now_s - self.known_s >= (LOST_LIMIT_S if lost else UNKNOWN_LIMIT_S)
        return now_s - self.begun_s


def wait_for(
    entries: Sequence[JobEntry],
    tools: TrackTools,
    *,
    poll_interval_s: float,
    back_off: bool,
    timeout_s: float | None = None,
    progress: Callable[[Sequence[JobStatus], float], None],
) -> Sequence[JobStatus]:
    """Ask until all jobs have ended; then their statuses, in order.

    Only jobs that have not ended are asked about, every `poll_interval_s` or, with `back_off`,
    ever less often. `progress` is called with all statuses and the seconds waited after each
    question. Gives the last statuses when `timeout_s` has passed first, and when nobody has known
    for LOST_LIMIT_S or UNKNOWN_LIMIT_S how any job that is left is.
    """
    begun_s = tools.clock.now_s()
    wait = _Wait({entry.submission: entry for entry in entries}, begun_s, begun_s)
    while True:
        waited_s = wait.ask(tools)
        statuses = [wait.statuses[entry.submission] for entry in entries]
        left_s = inf if timeout_s is None else timeout_s - waited_s
        if not wait.open or wait.is_vain or left_s <= 0:
            return statuses
        progress(statuses, waited_s)
        pause = pause_s(waited_s, poll_interval_s) if back_off else poll_interval_s
        tools.clock.sleep(min(pause, left_s))


def rebuild(tools: TrackTools, roots: Sequence[Path]) -> tuple[int, tuple[str, ...]]:
    """Fill the index from the job folders under `roots`, and forget jobs without a folder.

    What the index or a folder knows of a job's id and end stays; the others are asked about.
    Gives the number of jobs found and a sentence for each folder that could not be read.
    """
    known, _ = tools.index.readable()
    lines = {entry.submission: entry for entry in known}
    entries, wrong = [], []
    for root in roots:
        for folder in tools.folders.scan(root):
            try:
                entry = entry_of_folder(tools.folders, folder)
            except (StorageFailed, LookupError, TypeError, ValueError, OverflowError) as error:
                wrong.append(f"{folder}: {error}")
            else:
                entries.append(_with_end(entry, lines.get(entry.submission), tools.folders))
    tools.index.rebuild(entries, _gone(tools.folders, known))
    job_statuses([entry for entry in entries if not _has_ended(entry)], tools)
    return len(entries), tuple(wrong)


def _with_end(entry: JobEntry, line: JobEntry | None, folders: FileJobFolders) -> JobEntry:
    if line is not None and line.is_confirmed:
        entry = replace(
            entry,
            job_id=line.job_id,
            cluster=line.cluster or entry.cluster,
            state=line.state,
            exit_code=line.exit_code,
            parts=line.parts or entry.parts,
        )
    end = folder_end(entry, folders)
    if end is None or (entry.state.is_final and end.state is not entry.state):
        return entry
    return replace(entry, state=end.state, exit_code=end.exit_code)


def _has_ended(entry: JobEntry) -> bool:
    """Whether nothing new can be learnt of a job; Slurm can still come up with a lost one."""
    return entry.state.is_final and entry.state is not JobState.NOT_SUBMITTED


def _gone(folders: FileJobFolders, known: Sequence[JobEntry]) -> Sequence[str]:
    """Lines without a folder.

    A job on Slurm that has not ended stays: it runs without its folder, and can be cancelled.
    """
    return [
        entry.submission
        for entry in known
        if (entry.state.is_final or not entry.job_id.isdecimal())
        and not folders.is_folder(Path(entry.folder))
    ]


def entry_of_folder(folders: FileJobFolders, folder: Path) -> JobEntry:
    """The line of the index for a job folder; `submitted.json` holds the scheduler's id."""
    from hpckit.jobs.parts import recorded_parts

    intent = folders.read_json(folder, INTENT_FILE)
    try:
        confirmed = folders.read_json(folder, SUBMITTED_FILE)
    except StorageFailed:
        confirmed = {}
    entry = JobEntry(
        job_id=JobId(str(confirmed.get("job_id", intent["job_id"]))),
        submission=str(intent["uuid"]),
        cluster=_text(confirmed.get("cluster")),
        name=str(intent["name"]),
        site=str(intent["site"]),
        folder=str(folder),
        created_s=float(intent["created_s"]),
        state=JobState.PENDING,
        parts=recorded_parts(intent, confirmed),
        chain=_text(intent.get("chain")),
        stage=_text(intent.get("stage")),
    )
    ids = (entry.job_id, *(part.job_id for part in entry.parts))
    if not (
        all(map(_JOB_ID.fullmatch, ids))
        and _UUID.fullmatch(entry.submission)
        and 0 <= entry.created_s < _LATEST_S
        and all(0 <= part.offset < _MOST_TASKS for part in entry.parts)
    ):
        raise ValueError("its job ID, time or parts are invalid")
    entry.folder.encode()  # else the index cannot hold it
    return entry


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def signal_word(name: str | None, known: Sequence[str], whose: str) -> str | None:
    """The signal's name without SIG. Raises HpckitError for one that is not known."""
    word = None if name is None else name.upper().removeprefix("SIG")
    if word not in (None, *known):
        raise HpckitError(f"cannot send {name} to {whose}", hint=f"one of {', '.join(known)}")
    return word


def cancel_targets(status: JobStatus, task: int | None, signal: str | None) -> Sequence[str]:
    """The ids for scancel. `signal` None ends the job, KILL ends it at once.

    Another signal goes to what runs: scancel tries for half a minute to signal a task that waits.
    Raises HpckitError for what has not begun, has ended, or is not there.
    """
    job_id = status.job_id
    ends = signal in (None, "KILL")
    if task is not None:
        return (_task_to_cancel(status, task, ends=ends).slurm_id,)
    if ends:
        # Each part of a split array is a job to Slurm, and one that has ended cannot be cancelled.
        living = [one.job_id for one in status.tasks if not one.state.is_final]
        return tuple(dict.fromkeys(living)) or (job_id,)
    if status.tasks:
        running = [
            task for task in status.tasks if not task.state.is_final and not task.state.is_waiting
        ]
        if running:
            return [task.slurm_id for task in running]
        raise HpckitError(f"no task of job {job_id} is running")
    if status.state.is_waiting:
        raise HpckitError(f"job {job_id} has not started: {status.state}")
    return (job_id,)


def _task_to_cancel(status: JobStatus, task: int, *, ends: bool) -> JobRecord:
    job_id = status.job_id
    record = next((record for record in status.tasks if record.task_index == task), None)
    if record is None and not status.tasks:
        raise HpckitError(f"job {job_id} is not a job array: it has no task {task}")
    if record is None:
        raise HpckitError(f"job {job_id} has no task {task} in Slurm")
    if record.state.is_final:
        raise HpckitError(f"task {task} of job {job_id} has already ended: {record.state}")
    if record.state.is_waiting and not ends:
        raise HpckitError(f"task {task} of job {job_id} has not started: {record.state}")
    return record
