"""A prepared job becomes a job folder and a started job; nothing is ever half-recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from string import Template

import hpckit
from hpckit.app.prepare import PreparedJob, as_json, effective_document
from hpckit.decide.shell_environment import SubmissionEnvironment, submission_environment
from hpckit.errors import ConfigError, StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from hpckit.parse.document import to_tree
from hpckit.ports import Clock, JobFolders, JobIndex, SubmitRequest, Submitter
from hpckit.units import parse_slurm_time_s

INTENT_SCHEMA = "hpckit.intent/1"
PLAN_SCHEMA = "hpckit.plan/1"
SUBMITTED_SCHEMA = "hpckit.submitted/1"
AGENT_FILE = "hpckit-injob.pyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who submits: the shell's environment, folder and Python, and this process."""

    environment: Mapping[str, str]
    workdir: Path
    home: Path
    python: str
    uuid_hex: str
    host: str
    pid: int
    pid_started_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that was started: its id and folder, and the variables that were held back."""

    job_id: JobId
    folder: Path
    script_sha256: str
    held_back: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTools:
    """The adapters that a submission uses."""

    submitter: Submitter
    folders: JobFolders
    index: JobIndex
    clock: Clock
    interrupts_held: Callable[[], AbstractContextManager[None]]


class _Step(Enum):
    """What a submission has left in the world so far."""

    FOLDER = auto()
    INDEX = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """One submission under way: all that its steps share."""

    job: PreparedJob
    caller: Caller
    root: Path
    folder: Path
    job_id: JobId
    created_s: float
    workdir: Path
    environment: SubmissionEnvironment


def submit(job: PreparedJob, caller: Caller, tools: SubmitTools) -> Submission:
    """Write the job folder, start the job, record it. Raises StorageFailed, AdapterError.

    Interrupted or refused before the job was started, everything written is undone; once it is
    started, an interrupt waits until it is recorded.
    """
    request = job.effective.spec.environment
    created_s = tools.clock.now_s()
    root = expand_job_root(job.site.job_root, caller)
    draft = _Draft(
        job=job,
        caller=caller,
        root=root,
        folder=root / _folder_name(job, caller, created_s),
        job_id=JobId(f"L{caller.uuid_hex[:8]}"),
        created_s=created_s,
        workdir=_workdir(job, caller, tools.folders),
        environment=submission_environment(caller.environment, request.inherit, request.pass_),
    )
    done: set[_Step] = set()
    try:
        _start(draft, tools, done)
    except KeyboardInterrupt:
        if _undone(draft, tools, done):
            raise
        job_id = draft.job_id
        raise KeyboardInterrupt(
            f"the job goes on: hpckit wait {job_id} · hpckit cancel {job_id}"
        ) from None
    except BaseException:
        _undone(draft, tools, done)
        raise
    return Submission(
        job_id=draft.job_id,
        folder=draft.folder,
        script_sha256=job.script.sha256,
        held_back=draft.environment.held_back,
    )


def expand_job_root(job_root: str, caller: Caller) -> Path:
    """The job root with `~` and `$NAME` expanded. Raises ConfigError for an unset variable.

    XDG_STATE_HOME has the default that its specification gives it.
    """
    state = caller.environment.get("XDG_STATE_HOME") or str(caller.home / ".local" / "state")
    variables = {**caller.environment, "HOME": str(caller.home), "XDG_STATE_HOME": state}
    try:
        expanded = Template(job_root).substitute(variables)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"job_root {job_root!r} names {error}, which is not set",
            hint="set it in the environment, or change job_root in the site file",
        ) from error
    if expanded == "~" or expanded.startswith("~/"):
        expanded = str(caller.home) + expanded[1:]
    return caller.workdir / expanded


def _workdir(job: PreparedJob, caller: Caller, folders: JobFolders) -> Path:
    """Where the job runs: `chdir` beside the job file, else where submit was called."""
    chdir = job.effective.spec.chdir
    if chdir is None:
        if any("\ud800" <= char <= "\udfff" for char in str(caller.workdir)):
            raise ConfigError(f"this folder's name is not UTF-8: {str(caller.workdir)!r}")
        return caller.workdir
    workdir = Path(os.path.normpath(job.source.folder / chdir))
    if not folders.is_folder(workdir):
        raise ConfigError(
            f"got {chdir!r}, expected a folder that exists: there is no {workdir}", key="chdir"
        )
    return workdir


def _folder_name(job: PreparedJob, caller: Caller, created_s: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only a submission needs it

    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.effective.spec.name).strip("-.")[:40] or "job"
    day = datetime.fromtimestamp(created_s, tz=UTC).date().isoformat()
    return f"{day}-{slug}-{caller.uuid_hex[:8]}"


def _write_folder(draft: _Draft, folders: JobFolders) -> None:
    job, caller = draft.job, draft.caller
    intent = {
        "schema": INTENT_SCHEMA,
        "job_id": draft.job_id,
        "uuid": caller.uuid_hex,
        "name": job.effective.spec.name,
        "site": job.site.name,
        "submitter": str(job.site.submitter),
        "script_sha256": job.script.sha256,
        "created_s": draft.created_s,
        "submitter_host": caller.host,
        "submitter_pid": caller.pid,
        "submitter_started_s": caller.pid_started_s,
    }
    texts = {
        "intent.json": as_json(intent),
        "effective.json": as_json(effective_document(job.effective)),
        "site.json": as_json(to_tree(job.site)),
        "plan.json": as_json({"schema": PLAN_SCHEMA, **to_tree(job.plan)}),
        "job.sbatch": job.script.text,
    }
    if job.source.file_text is not None:
        texts["job.toml"] = job.source.file_text
    for name, text in texts.items():
        folders.write(draft.folder, name, text)
    folders.pack_agent(draft.folder)


def _entry(draft: _Draft) -> JobEntry:
    return JobEntry(
        job_id=draft.job_id,
        name=draft.job.effective.spec.name,
        site=draft.job.site.name,
        folder=str(draft.folder),
        created_s=draft.created_s,
        state=JobState.PENDING,
    )


def _request(draft: _Draft) -> SubmitRequest:
    spec = draft.job.effective.spec
    limit = spec.resources.time_limit
    added = {
        "HPCKIT_JOB_ID": draft.job_id,
        "HPCKIT_JOB_FOLDER": str(draft.folder),
        "HPCKIT_INJOB": str(draft.folder / AGENT_FILE),
        "HPCKIT_PYTHON": draft.caller.python,
    }
    return SubmitRequest(
        job_id=draft.job_id,
        folder=draft.folder,
        workdir=draft.workdir,
        environment={**draft.environment.variables, **added},
        time_limit_s=None if limit is None else parse_slurm_time_s(limit),
        kill_wait_s=draft.job.site.kill_wait_s,
    )


def _record(draft: _Draft, tools: SubmitTools) -> None:
    submitted = {
        "schema": SUBMITTED_SCHEMA,
        "job_id": draft.job_id,
        "submitted_s": tools.clock.now_s(),
        "hpckit": hpckit.__version__,
        "host": draft.caller.host,
        "workdir": str(draft.workdir),
        "held_back": list(draft.environment.held_back),
        "script_sha256": draft.job.script.sha256,
    }
    try:
        tools.folders.write(draft.folder, "submitted.json", as_json(submitted))
        tools.index.update(JobStatus(job_id=draft.job_id, state=JobState.RUNNING))
    except StorageFailed as error:
        raise StorageFailed(
            f"job {draft.job_id} runs in {draft.folder}, but {error.message}", hint=error.hint
        ) from error


def _start(draft: _Draft, tools: SubmitTools, done: set[_Step]) -> None:
    with tools.interrupts_held():
        tools.folders.create(draft.root, draft.folder.name)
        done.add(_Step.FOLDER)
    _write_folder(draft, tools.folders)
    with tools.interrupts_held():
        tools.index.add(_entry(draft))
        done.add(_Step.INDEX)
        tools.submitter.submit(_request(draft))
        _record(draft, tools)


def _undone(draft: _Draft, tools: SubmitTools, done: set[_Step]) -> bool:
    """Remove every trace of a job that was not started; says whether that was so."""
    if _Step.INDEX in done:
        status = tools.submitter.statuses({draft.job_id: draft.folder})[draft.job_id]
        if status.state not in (JobState.NOT_SUBMITTED, JobState.PENDING):
            return False
        tools.index.remove(draft.job_id)
    if _Step.FOLDER in done:
        tools.folders.remove(draft.folder)
    return True
