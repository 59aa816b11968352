"""A prepared job becomes a job folder and a started job; nothing is ever half-recorded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from string import Template

import hpckit
from hpckit.app.prepare import PreparedJob
from hpckit.decide.shell_environment import SubmissionEnvironment, submission_environment
from hpckit.errors import ConfigError
from hpckit.model.origin import EffectiveJob
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from hpckit.parse.document import to_tree
from hpckit.ports import Clock, JobFolders, JobIndex, Submitter, SubmitRequest
from hpckit.units import parse_slurm_time_s

INTENT_SCHEMA = "hpckit.intent/1"
SUBMITTED_SCHEMA = "hpckit.submitted/1"
EFFECTIVE_SCHEMA = "hpckit.effective-job/1"


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


def submit(job: PreparedJob, caller: Caller, tools: SubmitTools) -> Submission:
    """Write the job folder, start the job, record it. Raises StorageFailed, AdapterError.

    Interrupted or refused before the job was started, everything written is undone; once it is
    started, an interrupt waits until it is recorded.
    """
    created_s = tools.clock.now_s()
    job_id = JobId(f"L{caller.uuid_hex[:8]}")
    root = expand_job_root(job.site.job_root, caller)
    environment = _environment(job, caller)
    folder = tools.folders.create(root, _folder_name(job, caller, created_s))
    try:
        _write_folder(job, caller, tools, folder, job_id, created_s)
        tools.index.add(_entry(job, folder, job_id, created_s))
        with tools.interrupts_held():
            tools.submitter.submit(_request(job, caller, folder, job_id, environment))
            _record(job, caller, tools, folder, job_id, environment)
    except BaseException:
        _undo_unless_started(tools, folder, job_id)
        raise
    return Submission(
        job_id=job_id,
        folder=folder,
        script_sha256=job.script.sha256,
        held_back=environment.held_back,
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
            f"job_root {job_root!r} names {error}, which is not set", hint="set it, or write $$"
        ) from error
    if expanded == "~" or expanded.startswith("~/"):
        expanded = str(caller.home) + expanded[1:]
    return caller.workdir / expanded


def _folder_name(job: PreparedJob, caller: Caller, created_s: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only a submission needs it

    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.effective.spec.name).strip("-.")[:40] or "job"
    day = datetime.fromtimestamp(created_s, tz=UTC).date().isoformat()
    return f"{day}-{slug}-{caller.uuid_hex[:8]}"


def _environment(job: PreparedJob, caller: Caller) -> SubmissionEnvironment:
    request = job.effective.spec.environment
    return submission_environment(caller.environment, request.inherit, request.pass_)


def _write_folder(
    job: PreparedJob,
    caller: Caller,
    tools: SubmitTools,
    folder: Path,
    job_id: JobId,
    created_s: float,
) -> None:
    write = tools.folders.write
    intent = {
        "schema": INTENT_SCHEMA,
        "job_id": job_id,
        "uuid": caller.uuid_hex,
        "name": job.effective.spec.name,
        "site": job.site.name,
        "submitter": str(job.site.submitter),
        "script_sha256": job.script.sha256,
        "created_s": created_s,
        "submitter_host": caller.host,
        "submitter_pid": caller.pid,
        "submitter_started_s": caller.pid_started_s,
    }
    write(folder, "intent.json", as_json(intent))
    if job.source.file_text is not None:
        write(folder, "job.toml", job.source.file_text)
    write(folder, "effective.json", as_json(effective_document(job.effective)))
    write(folder, "site.json", as_json(to_tree(job.site)))
    write(folder, "plan.json", as_json(to_tree(job.plan)))
    write(folder, "job.sbatch", job.script.text)
    tools.folders.pack_agent(folder)


def _entry(job: PreparedJob, folder: Path, job_id: JobId, created_s: float) -> JobEntry:
    return JobEntry(
        job_id=job_id,
        name=job.effective.spec.name,
        site=job.site.name,
        folder=str(folder),
        created_s=created_s,
        state=JobState.PENDING,
    )


def _request(
    job: PreparedJob,
    caller: Caller,
    folder: Path,
    job_id: JobId,
    environment: SubmissionEnvironment,
) -> SubmitRequest:
    spec = job.effective.spec
    limit = spec.resources.time_limit
    workdir = caller.workdir if spec.chdir is None else job.source.folder / spec.chdir
    added = {
        "HPCKIT_JOB_ID": job_id,
        "HPCKIT_JOB_FOLDER": str(folder),
        "HPCKIT_INJOB": str(folder / "hpckit-injob.pyz"),
        "HPCKIT_PYTHON": caller.python,
    }
    return SubmitRequest(
        job_id=job_id,
        folder=folder,
        workdir=Path(os.path.normpath(workdir)),
        environment={**environment.variables, **added},
        time_limit_s=None if limit is None else parse_slurm_time_s(limit),
        kill_wait_s=job.site.kill_wait_s,
    )


def _record(
    job: PreparedJob,
    caller: Caller,
    tools: SubmitTools,
    folder: Path,
    job_id: JobId,
    environment: SubmissionEnvironment,
) -> None:
    submitted = {
        "schema": SUBMITTED_SCHEMA,
        "job_id": job_id,
        "submitted_s": tools.clock.now_s(),
        "hpckit": hpckit.__version__,
        "host": caller.host,
        "workdir": str(caller.workdir),
        "held_back": list(environment.held_back),
        "script_sha256": job.script.sha256,
    }
    tools.folders.write(folder, "submitted.json", as_json(submitted))
    tools.index.update(JobStatus(job_id=job_id, state=JobState.RUNNING))


def _undo_unless_started(tools: SubmitTools, folder: Path, job_id: JobId) -> None:
    status = tools.submitter.statuses({job_id: folder})[job_id]
    if status.state in (JobState.NOT_SUBMITTED, JobState.PENDING):
        tools.folders.remove(folder)
        tools.index.remove(job_id)


def effective_document(effective: EffectiveJob) -> dict[str, object]:
    """The effective job with the origin of each value, as `effective.json` and --explain hold it."""
    return {
        "schema": EFFECTIVE_SCHEMA,
        "digest": effective.digest,
        "job": to_tree(effective.spec),
        "origins": [to_tree(origin) for origin in effective.origins],
    }


def as_json(document: object) -> str:
    """A document as people and programs read it: indented UTF-8 JSON, one final newline."""
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
