"""One submission under way: what its steps share, and what of it is written and handed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import hpckit
from hpckit.core.fields import as_json, to_tree
from hpckit.core.files import not_written, write_private
from hpckit.core.findings import Notice
from hpckit.core.units import parse_slurm_time_s
from hpckit.core.values import dataclass
from hpckit.injob.archive import packed_injob
from hpckit.jobs.parts import submitted_document
from hpckit.jobs.prepare import PreparedJob, effective_document
from hpckit.jobs.secrets import secrets_text
from hpckit.script.environment import SubmissionEnvironment
from hpckit.slurm.values import JobEntry, JobId, SubmitRequest
from hpckit.spec.folder_in_job import COMPONENTS_FOLDER, PLAN_FILE
from hpckit.spec.job_folder import (
    ADVICE_FILE,
    AGENT_FILE,
    EFFECTIVE_FILE,
    INTENT_FILE,
    JOB_FILE,
    SCRIPT_FILE,
    SECRETS_FILE,
    SITE_FILE,
    SUBMITTED_FILE,
    TOPOLOGY_FILE,
)
from hpckit.spec.options import ArrayPart, StagePlace
from hpckit.spec.store import FileJobFolders

if TYPE_CHECKING:
    from hpckit.placement.order_plan import OrderPlan

_OFFSET = "HPCKIT_ARRAY_OFFSET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who submits: the shell's environment, folder and Python, and this process.

    `user` is what USER says, else what the password database has for this process's user, None
    where it has none. `slurm_cluster` is the cluster of this host, None where no slurm.conf tells.
    """

    environment: Mapping[str, str]
    workdir: Path
    home: Path
    python: str
    uuid_hex: str
    host: str
    pid: int
    pid_started_s: float
    user: str | None = None
    slurm_cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPart:
    """What a job folder says of a job, or the folder of a component of a component."""

    name: str
    job: PreparedJob
    order: OrderPlan | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One submission under way: all that its steps share.

    `components` are those of a heterogeneous job, none for another.
    """

    job: PreparedJob
    caller: Caller
    root: Path
    entry: JobEntry
    workdir: Path
    environment: SubmissionEnvironment
    parts: tuple[ArrayPart, ...]
    place: StagePlace | None
    whole: DraftPart
    components: tuple[DraftPart, ...] = ()
    notes: tuple[Notice, ...] = ()
    payload: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        """The job folder."""
        return Path(self.entry.folder)

    @property
    def after(self) -> tuple[JobId, ...]:
        """The jobs that must end well before this one begins."""
        return () if self.place is None else self.place.after


class PackedJobFolders(FileJobFolders):
    """Job folders of a submission; `cache` is a folder that keeps what was packed for them."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache
        self._agent: bytes | None = None

    def keep_agent(self) -> None:
        """Pack the archive, which takes seconds once a version: the cache keeps it."""
        self._agent = packed_injob(self._cache)

    def pack_agent(self, folder: Path) -> None:
        """Put the archive into the folder. Raises StorageFailed."""
        try:
            write_private(folder / AGENT_FILE, self._agent or packed_injob(self._cache))
        except OSError as error:
            raise not_written(folder / AGENT_FILE, error) from error


def _intent(draft: Draft) -> dict[str, object]:
    job, caller = draft.job, draft.caller
    return {
        "schema": "hpckit.intent/1",
        "job_id": draft.entry.job_id,
        "uuid": caller.uuid_hex,
        "name": draft.entry.name,
        "file": job.source.file_name,
        "site": job.site.name,
        "submitter": str(job.site.submitter),
        "script_sha256": job.script.sha256,
        "created_s": draft.entry.created_s,
        "submitter_host": caller.host,
        "submitter_pid": caller.pid,
        "submitter_started_s": caller.pid_started_s,
        "slurm_cluster": caller.slurm_cluster,
        "parts": [{"offset": part.offset, "array": part.expression} for part in draft.parts],
        "chain": draft.entry.chain,
        "stage": draft.entry.stage,
        "stages": [] if draft.place is None else list(draft.place.stages),
        "components": [component.name for component in job.components],
    }


def write_folder(draft: Draft, folders: PackedJobFolders) -> None:
    """Write all that is known before the start into the new job folder. Raises StorageFailed.

    Of a heterogeneous job each component has a folder of the same shape in it.
    """
    job = draft.job
    texts: dict[str, str | bytes] = {
        INTENT_FILE: as_json(_intent(draft)),
        SCRIPT_FILE: job.script.text,
    }
    for component in draft.components:
        name = f"{COMPONENTS_FOLDER}/{component.name}"
        folders.create(draft.folder / COMPONENTS_FOLDER, component.name)
        texts |= {f"{name}/{file}": text for file, text in _decided(component).items()}
    texts |= _decided(draft.whole)
    if job.source.file_text is not None:
        texts[JOB_FILE] = job.source.file_text
    if job.source.advised is not None:
        from hpckit.account.advice.outcome import applied_document

        texts[ADVICE_FILE] = as_json(applied_document(job.source.advised, job.effective))
    if job.source.topology is not None:
        from hpckit.node.topology import TOPOLOGY_SCHEMA

        head = {"schema": TOPOLOGY_SCHEMA, "hpckit": hpckit.__version__}
        texts[TOPOLOGY_FILE] = as_json({**head, **to_tree(job.source.topology)})
    texts.update(draft.payload)
    for name, content in texts.items():
        folders.write(draft.folder, name, content)
    folders.pack_agent(draft.folder)


def _decided(part: DraftPart) -> dict[str, str]:
    """Return the files that say what was decided of a job, or of a component of one."""
    texts = {
        EFFECTIVE_FILE: as_json(effective_document(part.job.effective)),
        SITE_FILE: as_json(to_tree(part.job.site)),
        PLAN_FILE: as_json({"schema": "hpckit.plan/1", **to_tree(part.job.plan)}),
    }
    if part.secrets:
        texts[SECRETS_FILE] = secrets_text(part.secrets)
    if part.order is not None:
        from hpckit.placement.order_plan import ORDER_FILE, order_tree

        texts[ORDER_FILE] = as_json(order_tree(part.order))
    return texts


def request_of(
    draft: Draft, part: ArrayPart | None, waits_for: str | None, begun_s: float
) -> SubmitRequest:
    """What the submitter is asked to start: the job, or a part of its array."""
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
    if part is not None:
        added[_OFFSET] = str(part.offset)
    given = {name: text for name, text in draft.environment.variables.items() if name != _OFFSET}
    return SubmitRequest(
        submission=entry.submission,
        job_id=entry.job_id,
        folder=draft.folder,
        script=draft.job.script.text,
        workdir=draft.workdir,
        environment={**given, **added},
        time_limit_s=None if limit is None else parse_slurm_time_s(limit),
        kill_wait_s=draft.job.site.kill_wait_s,
        begun_s=begun_s,
        is_array=spec.slurm.array is not None,
        cluster=entry.cluster,
        array_part=None if part is None else part.expression,
        array_offset=0 if part is None else part.offset,
        dependency=waits_for,
        ends_with_it=bool(draft.after),
    )


def record_start(draft: Draft, entry: JobEntry, folders: FileJobFolders, now_s: float) -> None:
    """Write `submitted.json`. Raises StorageFailed."""
    submitted = {
        **submitted_document(entry, now_s),
        "host": draft.caller.host,
        "workdir": str(draft.workdir),
        "held_back": list(draft.environment.held_back),
        "script_sha256": draft.job.script.sha256,
    }
    folders.write(draft.folder, SUBMITTED_FILE, as_json(submitted))
