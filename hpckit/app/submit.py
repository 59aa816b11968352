"""A prepared job becomes a job folder and a started job; nothing is ever half-recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import hpckit
from hpckit.app.live_checks import check_live
from hpckit.app.prepare import PreparedJob, as_json, effective_document
from hpckit.decide.shell_environment import SubmissionEnvironment, submission_environment
from hpckit.errors import ConfigError, HpckitError, StorageFailed, SubmissionUnconfirmed
from hpckit.model.finding import Finding
from hpckit.model.job_folder import (
    AGENT_FILE,
    EFFECTIVE_FILE,
    INTENT_FILE,
    JOB_FILE,
    PLAN_FILE,
    SCRIPT_FILE,
    SITE_FILE,
    SUBMITTED_FILE,
)
from hpckit.model.site import SubmitterKind
from hpckit.model.slurm import UNCONFIRMED_PREFIX, JobEntry, JobId, JobState
from hpckit.parse.document import to_tree
from hpckit.ports import (
    Clock,
    ClusterProbe,
    JobFolders,
    JobIndex,
    StartedJob,
    SubmitRequest,
    Submitter,
)
from hpckit.units import parse_slurm_time_s

INTENT_SCHEMA = "hpckit.intent/1"
PLAN_SCHEMA = "hpckit.plan/1"
SUBMITTED_SCHEMA = "hpckit.submitted/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who submits: the shell's environment, folder and Python, and this process.

    `slurm_cluster` is the cluster of this host, None where no slurm.conf tells.
    """

    environment: Mapping[str, str]
    workdir: Path
    home: Path
    python: str
    uuid_hex: str
    host: str
    pid: int
    pid_started_s: float
    slurm_cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that was started: its line of the index, and what became of the shell's variables.

    `words` is what the scheduler had to say about it, a line each; `notes` are what checks found.
    """

    entry: JobEntry
    script_sha256: str
    environment: SubmissionEnvironment
    words: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def job_id(self) -> JobId:
        """The scheduler's id of the job."""
        return self.entry.job_id

    @property
    def folder(self) -> Path:
        """The job folder."""
        return Path(self.entry.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTools:
    """The adapters that a submission uses; without a probe nobody looks at the cluster first."""

    submitter: Submitter
    folders: JobFolders
    index: JobIndex
    clock: Clock
    interrupts_held: Callable[[], AbstractContextManager[None]]
    probe: ClusterProbe | None = None


@dataclass(slots=True)
class _Progress:
    """What a submission has left in the world so far; once it has started, nothing is undone."""

    has_folder: bool = False
    is_indexed: bool = False
    started: StartedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """One submission under way: all that its steps share."""

    job: PreparedJob
    caller: Caller
    root: Path
    entry: JobEntry
    workdir: Path
    environment: SubmissionEnvironment
    notes: tuple[Finding, ...] = ()

    @property
    def folder(self) -> Path:
        return Path(self.entry.folder)


def submit(job: PreparedJob, caller: Caller, tools: SubmitTools) -> Submission:
    """Check, write the job folder, start the job, record it.

    Raises JobRefused, StorageFailed, AdapterError.

    Interrupted or refused before the job was started, everything written is undone; once it is
    started, an interrupt waits until it is recorded. A job that may have been started
    (SubmissionUnconfirmed) stays on record, so that asking for it tells.
    """
    draft = _checked(_draft(job, caller, tools), tools)
    progress = _Progress()
    try:
        return _start(draft, tools, progress)
    except KeyboardInterrupt:
        if progress.started is None:
            _undo(draft, tools, progress)
            raise
        job_id = progress.started.job_id
        raise KeyboardInterrupt(
            f"the job goes on: hpckit wait {job_id} · hpckit cancel {job_id}"
        ) from None
    except SubmissionUnconfirmed:
        raise
    except HpckitError:
        if progress.started is None:
            _undo(draft, tools, progress)
        raise
    except BaseException:
        # A bug: what was handed to the submitter may be a job, what was not is none.
        if not progress.is_indexed:
            _undo(draft, tools, progress)
        raise


def _checked(draft: _Draft, tools: SubmitTools) -> _Draft:
    """The draft with what the cluster does not refuse of it. Raises JobRefused."""
    if tools.probe is None:
        return replace(draft, notes=draft.job.notes)
    _, notes = check_live(draft.job, tools.probe, draft.entry.cluster)
    return replace(draft, notes=tuple(dict.fromkeys((*draft.job.notes, *notes))))


def _draft(job: PreparedJob, caller: Caller, tools: SubmitTools) -> _Draft:
    request = job.effective.spec.environment
    slurm = job.site.submitter is SubmitterKind.SLURM
    created_s = tools.clock.now_s()
    root = expand_job_root(job.site.job_root, caller)
    environment = submission_environment(
        caller.environment,
        request.inherit,
        request.pass_,
        stated=[option.name for option in job.plan.directives] if slurm else None,
    )
    entry = JobEntry(
        submission=caller.uuid_hex,
        job_id=JobId(f"{UNCONFIRMED_PREFIX if slurm else 'L'}{caller.uuid_hex[:8]}"),
        cluster=_cluster(environment.variables) if slurm else None,
        name=job.effective.spec.name,
        site=job.site.name,
        folder=str(root / _folder_name(job, caller, created_s)),
        created_s=created_s,
        state=JobState.UNKNOWN if slurm else JobState.PENDING,
    )
    return _Draft(
        job=job,
        caller=caller,
        root=root,
        entry=entry,
        workdir=_workdir(job, caller, tools.folders),
        environment=environment,
    )


def _cluster(environment: Mapping[str, str]) -> str | None:
    """The cluster to which variables that were let through send the job; None for this one.

    Raises ConfigError for several: a submission whose answer is lost could not be looked for.
    """
    for name in ("SBATCH_CLUSTERS", "SLURM_CLUSTERS"):
        cluster = environment.get(name)
        if cluster and ("," in cluster or cluster == "all"):
            raise ConfigError(f"{name} names more than one cluster: {cluster}", key="--pass")
        if cluster:
            return cluster
    return None


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
    if not _is_path(expanded) or not all(variables.get(name) for name in _names(job_root)):
        raise ConfigError(
            f"job_root {job_root!r} becomes {expanded!r}, which is no place for job folders",
            hint="set the variables that it names, or change job_root in the site file",
        )
    if expanded == "~" or expanded.startswith("~/"):
        expanded = str(caller.home) + expanded[1:]
    return caller.workdir / expanded


def _names(job_root: str) -> Sequence[str]:
    return Template(job_root).get_identifiers()


def _is_path(text: str) -> bool:
    """Whether a text is a path that a script, a document and a person can hold."""
    return bool(text) and text.isprintable()


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
        "job_id": draft.entry.job_id,
        "uuid": caller.uuid_hex,
        "name": draft.entry.name,
        "site": job.site.name,
        "submitter": str(job.site.submitter),
        "script_sha256": job.script.sha256,
        "created_s": draft.entry.created_s,
        "submitter_host": caller.host,
        "submitter_pid": caller.pid,
        "submitter_started_s": caller.pid_started_s,
        "slurm_cluster": caller.slurm_cluster,
    }
    texts = {
        INTENT_FILE: as_json(intent),
        EFFECTIVE_FILE: as_json(effective_document(job.effective)),
        SITE_FILE: as_json(to_tree(job.site)),
        PLAN_FILE: as_json({"schema": PLAN_SCHEMA, **to_tree(job.plan)}),
        SCRIPT_FILE: job.script.text,
    }
    if job.source.file_text is not None:
        texts[JOB_FILE] = job.source.file_text
    for name, text in texts.items():
        folders.write(draft.folder, name, text)
    folders.pack_agent(draft.folder)


def _request(draft: _Draft) -> SubmitRequest:
    spec, entry = draft.job.effective.spec, draft.entry
    limit = spec.resources.time_limit
    added = {
        "HPCKIT_JOB_FOLDER": entry.folder,
        "HPCKIT_INJOB": str(draft.folder / AGENT_FILE),
        "HPCKIT_PYTHON": draft.caller.python,
    }
    if entry.is_confirmed:
        added["HPCKIT_JOB_ID"] = entry.job_id
    else:
        added["HPCKIT_WORKDIR"] = str(draft.workdir)
    return SubmitRequest(
        submission=entry.submission,
        job_id=entry.job_id,
        folder=draft.folder,
        workdir=draft.workdir,
        environment={**draft.environment.variables, **added},
        time_limit_s=None if limit is None else parse_slurm_time_s(limit),
        kill_wait_s=draft.job.site.kill_wait_s,
        begun_s=entry.created_s,
        is_array=spec.slurm.array is not None,
        cluster=entry.cluster,
    )


def _record(draft: _Draft, started: StartedJob, tools: SubmitTools) -> JobEntry:
    entry = replace(
        draft.entry, job_id=started.job_id, cluster=started.cluster, state=started.state
    )
    submitted = {
        **submitted_document(entry, tools.clock.now_s()),
        "host": draft.caller.host,
        "workdir": str(draft.workdir),
        "held_back": list(draft.environment.held_back),
        "script_sha256": draft.job.script.sha256,
    }
    try:
        tools.folders.write(draft.folder, SUBMITTED_FILE, as_json(submitted))
        tools.index.update([entry])
    except StorageFailed as error:
        raise StorageFailed(
            f"job {entry.job_id} was started from {draft.folder}, but {error.message}",
            hint=error.hint,
        ) from error
    return entry


def submitted_document(entry: JobEntry, now_s: float) -> dict[str, object]:
    """`submitted.json`: under which id the scheduler has the job, as known since `now_s`."""
    return {
        "schema": SUBMITTED_SCHEMA,
        "job_id": entry.job_id,
        "cluster": entry.cluster,
        "submitted_s": now_s,
        "hpckit": hpckit.__version__,
    }


def _start(draft: _Draft, tools: SubmitTools, progress: _Progress) -> Submission:
    with tools.interrupts_held():
        tools.folders.create(draft.root, draft.folder.name)
        progress.has_folder = True
        _write_folder(draft, tools.folders)
    with tools.interrupts_held():
        tools.index.add(draft.entry)
        progress.is_indexed = True
        progress.started = tools.submitter.submit(_request(draft))
        return Submission(
            entry=_record(draft, progress.started, tools),
            script_sha256=draft.job.script.sha256,
            environment=draft.environment,
            words=progress.started.words,
            notes=draft.notes,
        )


def _undo(draft: _Draft, tools: SubmitTools, progress: _Progress) -> None:
    """Remove every trace of a job that was not started."""
    if progress.is_indexed:
        tools.index.remove(draft.entry.submission)
    if progress.has_folder:
        tools.folders.remove(draft.folder)
