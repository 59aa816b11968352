"""What the commands about submitted jobs share: the JOB_ID argument and the parts behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.core.errors import HpckitError, SchedulerUnreachable
from hpckit.core.units import format_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hpckit.jobs.local_record import Served
    from hpckit.jobs.parts import Submitter
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.pending import PendingExplanation
    from hpckit.slurm.values import JobDetail, JobEntry, JobRecord, JobStatus
    from hpckit.spec.pace import SitePace


def id_of(job_id: str, task: int | None) -> str:
    """A job, or a task of it, as one types it."""
    return job_id if task is None else f"{job_id}_{task}"


def log_task(status: JobStatus) -> int | None:
    """The task of an array whose log says most: one that failed, one that runs, the first.

    None where there are no tasks: then the job has a log of its own.
    """
    from hpckit.slurm.values import JobState

    tasks = [task for task in status.tasks if task.task_index is not None]
    if status.state.is_final:
        first = [
            task
            for task in tasks
            if task.state is not JobState.COMPLETED and task.started_s is not None
        ]
    else:
        first = [task for task in tasks if task.state is JobState.RUNNING]
    return next((task.task_index for task in (*first, *tasks)), None)


def task_has_ended(status: JobStatus, task: int | None) -> bool:
    """Whether nothing more comes from a job, or from one task of it."""
    for record in status.tasks:
        if task is not None and record.task_index == task:
            return record.state.is_final
    return status.state.is_final


def _complete(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from hpckit.cli.output import one_line

    try:
        entries = wiring.job_index().find(incomplete)
    except HpckitError:
        return []
    return [CompletionItem(entry.job_id, help=one_line(entry.name)) for entry in entries]


def _argument(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument(name, shell_complete=_complete, **options)


job_argument: Final = _argument("job_id", required=False, metavar="[JOB_ID]")
required_job_argument: Final = _argument("job_id", metavar="JOB_ID")
"""For what cannot be taken back."""
many_jobs_argument: Final = _argument("job_ids", nargs=-1, metavar="[JOB_ID]...")


def pace_of(entry: JobEntry) -> SitePace:
    """Return the pace of the site that the job was submitted to, as its folder remembers it."""
    from hpckit.spec.pace import recorded_pace

    return recorded_pace(entry, wiring.job_folders())


def submitted_script(entry: JobEntry) -> str:
    """Return the script that was submitted as this job, or as the job of this component."""
    folder = Path(entry.folder)
    folder = folder.parents[1] if entry.is_component else folder
    return wiring.job_folders().read(folder, "job.sbatch")


def help_for(status: JobStatus, shown: str) -> PendingExplanation | None:
    """Why a job waits, explained; the commands that help name it as it is `shown`."""
    if status.slurm_reason is None:
        return None
    from hpckit.slurm.pending import explain_pending

    told = explain_pending(status.slurm_reason)
    return replace(told, help=told.help and re.sub(r"\bID\b", shown, told.help))


def status_document(
    entry: JobEntry, status: JobStatus, task: int | None = None, detail: JobDetail | None = None
) -> dict[str, object]:
    """`hpckit.status/1`: a job, or one task of it, and how it is."""
    from hpckit.jobs.local_record import read_placement, requeues

    folder, of_task = Path(entry.folder), log_task(status) if task is None else task
    pending = help_for(status, id_of(status.job_id, task))
    serve = served(entry, status)
    return {
        "schema": "hpckit.status/1",
        "job_id": status.job_id,
        "task": task,
        "part_ids": [part.job_id for part in status.parts],
        "cluster": status.cluster,
        **picked(entry, "name", "site", "folder"),
        **picked(status, "state", "slurm_state=raw", "is_lost", "exit_code", "exit_signal"),
        **picked(status, "reason", "slurm_reason"),
        "pending": pending and picked(pending, "meaning", "help", "hopeless"),
        "submitted_s": entry.created_s,
        **picked(status, "expected_start_s", *_SPAN),
        "serve": serve and picked(serve, "url", "host", "port", "ready_s"),
        "tasks": [
            picked(record, "task=task_index", "state", "exit_code", *_SPAN)
            for record in status.tasks
        ],
        "components": [
            {"component": name, **picked(record, "job_id", "state", "exit_code", *_SPAN)}
            for name, record in named_components(entry, status)
        ],
        "requeues": requeues(folder, of_task),
        "placement": read_placement(folder, of_task),
        "detail": detail
        and {
            **picked(detail, "partition", "account", "qos", "restarts"),
            "tres_allocated": dict(detail.tres_allocated),
            "steps": [picked(step, *_STEP, *_SPAN) for step in detail.steps],
        },
    }


def served(entry: JobEntry, status: JobStatus) -> Served | None:
    """Return where the server of a job that runs answers; None while it does not."""
    from hpckit.jobs.local_record import read_served

    return read_served(Path(entry.folder)) if status.state == "RUNNING" else None


def failed_rows(
    entry: JobEntry, status: JobStatus, task: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the rank that failed first with its last line, where one left that it did."""
    from hpckit.jobs.logs import FileJobLogs
    from hpckit.spec.job_folder import LogName

    log = LogName(folder=Path(entry.folder), task=log_task(status) if task is None else task)
    failed = FileJobLogs().first_failed(log)
    if failed is None or not status.state.is_final:
        return
    rank, code = failed
    lines = FileJobLogs().tail(replace(log, rank=rank), 1, is_own=True)
    said = f": {output.log_line(lines[0])}" if lines else ""
    yield "failed", f"rank {rank} first, with exit code {code}{said}"


def limit_of(entry: JobEntry) -> str | None:
    """Return the job's time limit, as its folder has it."""
    resources = resources_of(entry)
    limit = resources.get("time_limit")
    return str(limit) if limit else None


def resources_of(entry: JobEntry) -> Mapping[str, Any]:
    """Return what the job asked for, as its folder has it; nothing where that is unreadable."""
    try:
        effective = wiring.job_folders().read_json(Path(entry.folder), "effective.json")
        resources = effective["job"]["resources"]
    except (HpckitError, KeyError, TypeError):
        return {}
    return resources if isinstance(resources, Mapping) else {}


def placed_rows(
    entry: JobEntry, status: JobStatus, task: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield a row of what the ranks proved about their places, of each component that has one."""
    from hpckit.jobs.local_record import placement_words
    from hpckit.spec.folder_in_job import COMPONENTS_FOLDER

    folder = Path(entry.folder)
    task = log_task(status) if task is None else task
    names = [name for name, _ in named_components(entry, status)]
    folders = {f"{name}: ": folder / COMPONENTS_FOLDER / name for name in names} or {"": folder}
    told = {label: placement_words(where, task) for label, where in folders.items()}
    lines = [label + words for label, words in told.items() if words]
    if lines:
        yield "placed", output.prose("\n".join(lines))


def named_components(entry: JobEntry, status: JobStatus) -> list[tuple[str, JobRecord]]:
    """Return the components of a heterogeneous job with what they are called."""
    from hpckit.jobs.local_record import component_names

    if not status.components:
        return []
    names = dict(enumerate(component_names(Path(entry.folder))))
    return [
        (names.get(record.component or 0, str(record.component)), record)
        for record in status.components
    ]


_SPAN: Final = ("started_s", "ended_s", "nodelist")
_STEP: Final = ("step=step_id", "name", "state", "slurm_state=raw", "exit_code", "exit_signal")


def picked(value: object, *names: str) -> dict[str, object]:
    """Return attributes by their names, all None of None; `key=attribute` renames one."""
    pairs = (name.partition("=") for name in names)
    return {key: value and getattr(value, attribute or key) for key, _, attribute in pairs}


def complete_site(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the sites whose name begins so."""
    from click.shell_completion import CompletionItem

    names = sorted(wiring.resources().site_files())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def site_here(site_dirs: Sequence[Path] = (), *, quiet: bool = False) -> str | None:
    """Return the site whose file names the cluster that is here, and say so; None without one."""
    here = wiring.cluster_site(site_dirs)
    if here is None:
        return None
    name, cluster = here
    if not quiet:
        output.talk(
            f" site {name}: its file names this cluster ({cluster}) · --site none ignores it"
        )
    return name


ASKING = "asking Slurm …"
_LOCAL_PREFIX = "L"


@contextmanager
def asking(tools: TrackTools) -> Iterator[TrackTools]:
    """The same tools; on a terminal a line says so from when Slurm is asked to the block's end."""
    line = output.Progress()

    def submitter_of(entry: JobEntry) -> Submitter:
        if not entry.job_id.startswith(_LOCAL_PREFIX):
            line.show(ASKING)
        return tools.submitter_of(entry)

    try:
        yield replace(tools, submitter_of=submitter_of)
    finally:
        line.clear()


@contextmanager
def jobs_go_on(ids: Sequence[str]) -> Iterator[None]:
    """Say on Ctrl-C that these jobs go on: it ends the command alone."""
    try:
        yield
    except KeyboardInterrupt:
        first = ids[0] if len(ids) == 1 else f"{ids[0]} …"
        words = f"the job goes on: hpckit wait {first} · hpckit cancel {first}"
        raise KeyboardInterrupt(words) from None


def wait_at_terminal(
    entries: Sequence[JobEntry], tools: TrackTools, *, timeout_s: float | None = None
) -> Sequence[JobStatus]:
    """Wait for the jobs' end with a progress line; Ctrl-C ends the waiting, not the jobs."""
    from hpckit.jobs.track import wait_for
    from hpckit.spec.pace import SubmitterKind

    line = output.Progress()

    def progress(statuses: Sequence[JobStatus], waited_s: float) -> None:
        runs = len(statuses) == 1 and statuses[0].state == "RUNNING"
        now_s = tools.clock.now_s()
        text = _running(entries[0], statuses[0], now_s) if runs else _progress(statuses)
        line.show(text if runs else f"{text} · waiting {format_duration(waited_s)}")

    paces = [pace_of(entry) for entry in entries]
    try:
        with jobs_go_on([entry.job_id for entry in entries]):
            return wait_for(
                entries,
                tools,
                poll_interval_s=max(pace.poll_interval_s for pace in paces),
                back_off=any(pace.submitter is SubmitterKind.SLURM for pace in paces),
                timeout_s=timeout_s,
                progress=progress,
            )
    finally:
        line.clear()


def say_open(jobs: Sequence[tuple[JobEntry, JobStatus]], timed_out_s: float | None) -> int:
    """Say on stderr why waiting ended before these jobs did; gives the exit code of the command.

    `timed_out_s` is the time limit that ran out, None where none did.
    """
    code = 0 if all(status.state == "COMPLETED" for _, status in jobs) else 1
    for entry, status in jobs:
        if status.state.is_final:
            continue
        if timed_out_s is not None:
            output.talk(f" {entry.job_id} did not end within {timed_out_s:g} s")
        elif status.is_lost:
            output.talk(f" {not_known(entry, status)}")
        else:
            output.talk(f" {entry.job_id}: Slurm has not answered for an hour: {status.reason}")
            code = SchedulerUnreachable.exit_code
    return code


def not_known(entry: JobEntry, status: JobStatus) -> str:
    """The sentence about a job of which nobody will know more."""
    return f"the outcome of {entry.job_id} is unknown: {status.reason}"


def _running(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    """Return how long a job runs, of its limit, and the last line of rank 0."""
    from hpckit.jobs.logs import FileJobLogs
    from hpckit.spec.job_folder import LogName

    parts = [f"{status.job_id} RUNNING"]
    if status.started_s is not None:
        limit = f" of {found}" if (found := limit_of(entry)) else ""
        parts[0] += f" {format_duration(max(0.0, now_s - status.started_s))}{limit}"
    log = LogName(folder=Path(entry.folder), rank=0, task=log_task(status))
    lines = FileJobLogs().tail(log, 1, is_own=True)
    return " · ".join([*parts, *(f"rank 0: {output.log_line(line)}" for line in lines)])


def _progress(statuses: Sequence[JobStatus]) -> str:
    if len(statuses) > 1:
        counts = Counter(str(status.state) for status in statuses)
        return f"{len(statuses)} jobs: " + ", ".join(
            f"{count} {state}" for state, count in counts.most_common()
        )
    status = statuses[0]
    why = status.slurm_reason or (status.reason if status.tasks else None)
    if status.state == "UNKNOWN":
        why = status.reason
    return f"{status.job_id} {status.state}" + (f" · {why}" if why else "")
