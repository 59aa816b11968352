"""A prepared job becomes a job folder and a started job; nothing is ever half-recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from hpckit.core.errors import (
    ConfigError,
    HpckitError,
    NotRecorded,
    ParseError,
    PlanError,
    SchedulerUnreachable,
    StorageFailed,
    SubmissionUnconfirmed,
    ToolFailed,
    ToolMissing,
)
from hpckit.core.files import xdg_folder
from hpckit.core.findings import Level, Notice
from hpckit.core.values import dataclass
from hpckit.jobs.components import in_one_partition
from hpckit.jobs.draft import (
    Caller,
    Draft,
    DraftPart,
    PackedJobFolders,
    record_start,
    request_of,
    write_folder,
)
from hpckit.jobs.limits import AskLimits, Known, known_by_partitions
from hpckit.jobs.order import order_plan
from hpckit.jobs.parts import (
    Submitter,
    TakenBack,
    dependency,
    planned_parts,
    take_back,
    with_started,
)
from hpckit.jobs.prepare import PreparedJob, without_errors
from hpckit.jobs.secrets import secrets_of
from hpckit.script.admission import as_notices, find_obstacles
from hpckit.script.container import container_notices, image_notices, wants_pyxis
from hpckit.script.environment import SubmissionEnvironment, submission_environment
from hpckit.script.launchers.registry import LAUNCHERS
from hpckit.script.live import request_of_plan
from hpckit.script.releases import dialect_findings, is_another_cluster, live_dialect, release_note
from hpckit.slurm.request import Request, read_request
from hpckit.slurm.values import (
    UNCONFIRMED_PREFIX,
    ClusterView,
    JobEntry,
    JobId,
    JobPart,
    JobState,
    SlurmConfig,
    StartedJob,
    is_confirmed,
)
from hpckit.spec.options import StagePlace
from hpckit.spec.pace import SubmitterKind

if TYPE_CHECKING:
    from hpckit.core.files import Clock
    from hpckit.fabric.ask import FabricProbe
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.placement.order_plan import OrderPlan
    from hpckit.spec.store import FileJobFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that was started: its line of the index, and what became of the shell's variables.

    `words` is what the scheduler had to say about it, a line each; `notes` are what checks found.
    `order` is by what the job orders its nodes when it starts, None where it does not.
    """

    entry: JobEntry
    script_sha256: str
    environment: SubmissionEnvironment
    words: tuple[str, ...] = ()
    notes: tuple[Notice, ...] = ()
    order: OrderPlan | None = None

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
    """The adapters that a submission uses.

    Without a probe nobody looks at the cluster first, without `limits` at its partitions alone;
    without `checks` it is asked for MaxArraySize alone, and only by job arrays.
    """

    submitter: Submitter
    folders: PackedJobFolders
    index: SqliteJobIndex
    clock: Clock
    interrupts_held: Callable[[], AbstractContextManager[Callable[[], bool]]]
    probe: FabricProbe | None = None
    limits: AskLimits | None = None
    checks: bool = True


@dataclass(slots=True)
class Progress:
    """What a submission has left in the world so far.

    `is_kept`: it may be a job, or was one that had begun. What is not is undone.
    """

    has_folder: bool = False
    is_indexed: bool = False
    is_kept: bool = False
    started: StartedJob | None = None


def submit(
    job: PreparedJob,
    caller: Caller,
    tools: SubmitTools,
    place: StagePlace | None = None,
    progress: Progress | None = None,
    *,
    payload: Mapping[str, bytes] | None = None,
) -> Submission:
    """Check, write the job folder, start the job, record it.

    `payload` are files that the job folder has beside hpckit's own. Raises JobRefused,
    StorageFailed, AdapterError; `progress`, if given, then tells what is left.

    Interrupted or refused before the job was started, everything written is undone; once it is
    started, an interrupt waits until it is recorded. A job that may have been started
    (SubmissionUnconfirmed) stays on record, so that asking for it tells. An array larger than the
    cluster takes is started in parts, each recorded at once: all of them or none.
    """
    tools.folders.keep_agent()
    draft = replace(draft_of(job, caller, tools, place), payload=payload or {})
    progress = progress or Progress()
    try:
        return _start(draft, tools, progress)
    except KeyboardInterrupt as interrupt:
        if progress.started is None or interrupt.args:
            raise
        job_id = progress.started.job_id
        goes_on = f"the job goes on: hpckit wait {job_id} · hpckit cancel {job_id}"
        raise KeyboardInterrupt(goes_on) from None
    finally:
        if not progress.is_kept:
            _undo(draft, tools, progress)


def _look(
    job: PreparedJob, tools: SubmitTools, cluster: str | None, variables: Mapping[str, str]
) -> tuple[int | None, tuple[Notice, ...]]:
    """The cluster's MaxArraySize, None where nobody tells, and what checks found."""
    size, notes = job.site.slurm.max_array_size, job.notes
    is_array = job.effective.spec.slurm.array is not None
    if tools.probe is None or not (tools.checks or is_array):
        return size, notes
    view, found = None, tuple[Notice, ...]()
    for one in (*job.alone, *in_one_partition(job)):
        view, of_one = check_live(
            one, tools.probe, cluster, variables=variables, limits=tools.limits, refuse=tools.checks
        )
        found += of_one
    if view is not None and (view.config.max_array_size or 0) > 1:
        size = view.config.max_array_size
    return size, tuple(dict.fromkeys((*notes, *found)))


def check_live(
    job: PreparedJob,
    probe: FabricProbe,
    cluster: str | None,
    *,
    variables: Mapping[str, str] | None = None,
    limits: AskLimits | None = None,
    refuse: bool = True,
) -> tuple[ClusterView | None, tuple[Notice, ...]]:
    """The cluster, and what does not keep the job from running there.

    What keeps it is looked at again in the present cluster before the job is refused: what is
    remembered may have changed. `variables` are sbatch's; without `limits` the partitions alone are
    known. Without `refuse` nothing is found. A cluster that cannot be asked,
    or is not understood, holds nothing back: then it is None. Raises JobRefused, and
    SchedulerUnreachable when nobody answers.
    """
    request = _request(job, variables)
    ask = limits or known_by_partitions
    try:
        view = _looked(job, probe.look(cluster, needs_partitions=refuse), probe, cluster)
        known = ask(view, request, cluster) if refuse else None
        findings = () if known is None else _live_findings(job, view, cluster, request, known)
        if any(one.level is Level.ERROR for one in findings):
            view = _looked(job, probe.look(cluster, fresh=True), probe, cluster)
            known = ask(view, request, cluster)
            findings = _live_findings(job, view, cluster, request, known)
    except (ToolFailed, ToolMissing, ParseError) as error:
        text = f"the cluster was not checked: {error.message}"
        unread = Notice(level=Level.NOTE, subject="checks", text=text)
        return None, without_errors((unread, *(about_launch(job, None) if refuse else ())))
    except SchedulerUnreachable as error:
        raise SchedulerUnreachable(
            error.message, hint=f"nothing was submitted; {error.hint}"
        ) from error
    return view, without_errors(findings)


def _looked(
    job: PreparedJob, view: ClusterView, probe: FabricProbe, cluster: str | None
) -> ClusterView:
    """The cluster with what is asked for the sake of this job alone."""
    if cluster is not None or not wants_pyxis(job.plan):
        return view
    return replace(view, config=replace(view.config, has_pyxis=probe.has_pyxis()))


def _request(job: PreparedJob, variables: Mapping[str, str] | None) -> Request:
    """What sbatch is asked for; by the plan where a line of a template's own is not understood."""
    try:
        return read_request(job.script.text, variables)
    except ParseError:
        return request_of_plan(job.plan)


def _live_findings(
    job: PreparedJob, view: ClusterView, cluster: str | None, request: Request, known: Known
) -> tuple[Notice, ...]:
    found = [*about_cluster(job, view.config, cluster), *about_launch(job, view.config)]
    if view.unread is not None:
        text = f"the partitions were not checked: {view.unread}"
        found.append(Notice(level=Level.NOTE, subject="checks", text=text))
    found += dialect_findings(job.plan, live_dialect(job.site, view.config))
    obstacles = find_obstacles(request, known.cluster, known.user, known.now_s)
    return (*found, *known.unsaid, *as_notices(obstacles))


def about_cluster(job: PreparedJob, config: SlurmConfig, cluster: str | None) -> Iterator[Notice]:
    """Yield what is not so of the cluster that answers as the job's site file describes it."""
    rules = job.site.slurm
    if cluster is None and is_another_cluster(rules.cluster, config):
        yield Notice(
            level=Level.ERROR,
            subject="site",
            text=f"site {job.site.name} is cluster {rules.cluster}, but this host submits to "
            f"{config.cluster_name}",
            remedy=f"submit from a login node of {rules.cluster}, or use --site with a site file "
            f"of {config.cluster_name}",
        )
        return
    note = release_note(job.site, config)
    if note is not None:
        yield note


def about_launch(job: PreparedJob, config: SlurmConfig | None) -> Iterator[Notice]:
    """Yield what keeps the job's ranks from starting, or from finding each other, there."""
    yield from LAUNCHERS[job.plan.kind].live_findings(job.plan, config)
    yield from container_notices(job.plan, config)


def about_images(job: PreparedJob, caller: Caller, folders: FileJobFolders) -> Iterator[Notice]:
    """Yield which images the job's ranks will not find, as far as this host sees."""
    workdir = _workdir(job, caller, folders)
    for one in job.alone:
        yield from image_notices(one.plan, lambda image: folders.is_there(workdir, image))


def draft_of(
    job: PreparedJob, caller: Caller, tools: SubmitTools, place: StagePlace | None = None
) -> Draft:
    """A submission before its first step: checked, and nothing outside has been touched.

    Raises ConfigError, PlanError, JobRefused, SchedulerUnreachable.
    """
    slurm = job.site.submitter is SubmitterKind.SLURM
    root = expand_job_root(job.site.job_root, caller)
    environment = environment_of(job, caller, by_sbatch=slurm)
    cluster = cluster_of(environment.variables) if slurm else None
    max_array_size, notes = _look(job, tools, cluster, environment.variables)
    partition = environment.variables.get("SBATCH_PARTITION")
    whole, components, remarks = _parts_of(job, caller, tools.probe, cluster, partition)
    # After the look, which may take long: from here on a submission is not to be held up.
    created_s = tools.clock.now_s()
    parts = planned_parts(job.effective.spec.slurm, max_array_size, place)
    job_id = JobId(f"{UNCONFIRMED_PREFIX if slurm else 'L'}{caller.uuid_hex[:8]}")
    entry = JobEntry(
        submission=caller.uuid_hex,
        job_id=job_id,
        cluster=cluster,
        name=job.name,
        site=job.site.name,
        folder=str(root / _folder_name(job, caller, created_s)),
        created_s=created_s,
        state=JobState.UNKNOWN if slurm else JobState.PENDING,
        parts=tuple(JobPart(offset=part.offset, job_id=job_id) for part in parts),
        chain=None if place is None else place.chain,
        stage=None if place is None else place.stage,
    )
    return Draft(
        job=job,
        caller=caller,
        root=root,
        entry=entry,
        workdir=_workdir(job, caller, tools.folders),
        environment=environment,
        parts=parts,
        place=place,
        whole=whole,
        components=components,
        notes=tuple(dict.fromkeys((*notes, *remarks, *about_images(job, caller, tools.folders)))),
    )


def _parts_of(
    job: PreparedJob,
    caller: Caller,
    probe: FabricProbe | None,
    cluster: str | None,
    partition: str | None,
) -> tuple[DraftPart, tuple[DraftPart, ...], tuple[Notice, ...]]:
    """Return what the job folder says, and the folder of each component; and notes.

    A heterogeneous job has orders and secrets in its components' folders alone.
    """
    parts, notes = list[DraftPart](), list[Notice]()
    for one in job.alone:
        order, remarks = order_plan(one, probe, cluster, partition)
        secrets = secrets_for(one, caller)
        parts.append(DraftPart(name=one.name, job=one, order=order, secrets=secrets))
        notes += remarks
    if not job.components:
        return parts[0], (), tuple(notes)
    named = zip(job.components, parts, strict=True)
    components = tuple(replace(part, name=component.name) for component, part in named)
    return DraftPart(name=job.name, job=job), components, tuple(notes)


def secrets_for(job: PreparedJob, caller: Caller) -> Mapping[str, str]:
    """Return the job's secrets by name. Raises ConfigError, StorageFailed."""
    request = job.effective.spec.environment
    return secrets_of(request, caller.environment, caller.home, job.source.folder)


def environment_of(job: PreparedJob, caller: Caller, *, by_sbatch: bool) -> SubmissionEnvironment:
    """Return what of the caller's environment a job gets, and what is held back."""
    jobs = job.alone
    requests = [one.effective.spec.environment for one in jobs]
    stated = [option.name for one in jobs for option in one.plan.directives] if by_sbatch else None
    shell = dict(caller.environment)
    for request in requests:
        for name in (*request.secrets, *request.secret_files):
            shell.pop(name, None)  # sbatch would have it, and so may Slurm's records
    passed = dict.fromkeys(name for request in requests for name in request.pass_)
    return submission_environment(shell, requests[0].inherit, tuple(passed), stated=stated)


def cluster_of(environment: Mapping[str, str]) -> str | None:
    """The cluster to which variables that were let through send the job; None for this one.

    Raises ConfigError for several: a submission whose answer is lost could not be looked for.
    """
    for name in ("SBATCH_CLUSTERS", "SLURM_CLUSTERS"):
        cluster = environment.get(name)
        if cluster and ("," in cluster or cluster == "all"):
            raise ConfigError(f"{name} has more than one cluster: {cluster}", key="--pass")
        if cluster:
            return cluster
    return None


def expand_job_root(job_root: str, caller: Caller) -> Path:
    """The job root with `~` and `$NAME` expanded. Raises ConfigError for an unset variable.

    XDG_STATE_HOME has the default that its specification gives it, and USER is the name of the
    process's user where the environment (of a container, of cron) has none.
    """
    state = str(xdg_folder(caller.environment, "XDG_STATE_HOME", caller.home))
    variables = {**caller.environment, "HOME": str(caller.home), "XDG_STATE_HOME": state}
    if caller.user is not None and not variables.get("USER"):
        variables["USER"] = caller.user
    try:
        expanded = Template(job_root).substitute(variables)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"job_root {job_root!r} uses {error}, which is not set",
            hint="set it in the environment, or change job_root in the site file",
        ) from error
    names = Template(job_root).get_identifiers()
    if not (expanded and expanded.isprintable() and all(map(variables.get, names))):
        raise ConfigError(
            f"job_root {job_root!r} expands to {expanded!r}, which cannot hold job folders",
            hint="set the variables that it uses, or change job_root in the site file",
        )
    if expanded == "~" or expanded.startswith("~/"):
        expanded = str(caller.home) + expanded[1:]
    return caller.workdir / expanded


def _workdir(job: PreparedJob, caller: Caller, folders: FileJobFolders) -> Path:
    """Where the job runs: `chdir` beside the job file, else where submit was called."""
    chdir = job.effective.spec.chdir
    if chdir is None:
        if any("\ud800" <= char <= "\udfff" for char in str(caller.workdir)):
            raise ConfigError(f"the name of this folder is not UTF-8: {str(caller.workdir)!r}")
        return caller.workdir
    workdir = Path(os.path.normpath(job.source.folder / chdir))
    if not folders.is_folder(workdir):
        raise ConfigError(
            f"got {chdir!r}, expected an existing folder: {workdir} does not exist", key="chdir"
        )
    return workdir


def _folder_name(job: PreparedJob, caller: Caller, created_s: float) -> str:
    from datetime import UTC, datetime

    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.name).strip("-.")[:40] or "job"
    day = datetime.fromtimestamp(created_s, tz=UTC).date().isoformat()
    return f"{day}-{slug}-{caller.uuid_hex[:8]}"


def _record(draft: Draft, entry: JobEntry, tools: SubmitTools) -> None:
    try:
        record_start(draft, entry, tools.folders, tools.clock.now_s())
        tools.index.update([entry])
    except StorageFailed as error:
        raise NotRecorded(
            f"job {entry.job_id} was started from {draft.folder}, but {error.message}",
            hint="do not submit it again: fix this, then hpckit jobs --rebuild finds the job",
        ) from error


def _start(draft: Draft, tools: SubmitTools, progress: Progress) -> Submission:
    with tools.interrupts_held():
        tools.folders.create(draft.root, draft.folder.name)
        progress.has_folder = True
        write_folder(draft, tools.folders)
    with tools.interrupts_held() as interrupted:
        tools.index.add(draft.entry)
        progress.is_indexed = True
        entry, words = _start_parts(draft, tools, progress, interrupted)
        return Submission(
            entry=entry,
            script_sha256=draft.job.script.sha256,
            environment=draft.environment,
            words=words,
            notes=draft.notes,
            order=draft.whole.order,
        )


def _start_parts(
    draft: Draft, tools: SubmitTools, progress: Progress, interrupted: Callable[[], bool]
) -> tuple[JobEntry, tuple[str, ...]]:
    """Start every part of the job, or the one that it is; what was started is on record at once.

    An interrupt between two parts takes back those before it.
    """
    entry, begun_s = draft.entry, draft.entry.created_s
    words: tuple[str, ...] = ()
    for number, part in enumerate(draft.parts or (None,)):
        if number and interrupted():
            error = HpckitError("not all parts were submitted")
            _give_up(draft, entry, error, tools, progress, number=number)
            raise interrupt_of(error)
        waits_for = dependency(draft.job.effective.spec.slurm, entry, draft.after)
        request = request_of(draft, part, waits_for, begun_s)
        try:
            progress.is_kept = True
            started = tools.submitter.submit(request)
            progress.started = progress.started or started
            entry = with_started(entry, number, started)
            _record(draft, entry, tools)
        except SubmissionUnconfirmed as error:
            if part is not None:
                error.message += (
                    f" (part {number + 1} of {len(draft.parts)}; later parts were not submitted)"
                )
            raise
        except HpckitError as error:
            progress.is_kept = progress.started is not None
            if part is not None and progress.is_kept:
                _give_up(draft, entry, error, tools, progress, number=number)
            if interrupted() and not progress.is_kept:
                # Ctrl-C also reaches what is being started: that it failed is no fault of its own.
                raise interrupt_of(error) from error
            raise
        words = (*words, *(word for word in started.words if word not in words))
        begun_s = tools.clock.now_s()
    return entry, words


def _give_up(
    draft: Draft,
    entry: JobEntry,
    error: HpckitError,
    tools: SubmitTools,
    progress: Progress,
    *,
    number: int,
) -> None:
    """Take back what was started of an array whose part `number` was not, and say so in the error.

    Of tasks that have begun the folder and the record stay, and no other part is awaited.
    """
    which = f"part {number + 1} of {len(entry.parts)} (array {draft.parts[number].expression})"
    before = "this and the earlier parts" if isinstance(error, NotRecorded) else "the earlier parts"
    silent = isinstance(error, SchedulerUnreachable)
    taken_back = TakenBack.NOT if silent else take_back(entry, tools.submitter)
    if taken_back is TakenBack.NOT:
        error.message = f"{error.message} ({which}; {before} could not be cancelled)"
        error.hint = f"hpckit cancel {entry.job_id}"
        return
    error.message = f"{error.message} ({which}; {before} were cancelled)"
    if taken_back is TakenBack.WHOLLY:
        progress.is_kept = False
        error.hint = None if isinstance(error, NotRecorded) else error.hint
        return
    error.hint = f"some tasks had already started or ended: hpckit status {entry.job_id}"
    sent = tuple(part for part in entry.parts if is_confirmed(part.job_id))
    with suppress(StorageFailed):
        tools.index.update([replace(entry, parts=sent)])


def interrupt_of(error: HpckitError) -> KeyboardInterrupt:
    """An interrupt that says what became of what was interrupted."""
    return KeyboardInterrupt(" · ".join(filter(None, (error.message, error.hint))))


def _undo(draft: Draft, tools: SubmitTools, progress: Progress) -> None:
    """Remove every trace of a job that was not started. Why it was not is what is to be told."""
    if progress.is_indexed:
        with suppress(StorageFailed):
            tools.index.remove(draft.entry.submission)
    if progress.has_folder:
        with suppress(StorageFailed):
            tools.folders.remove(draft.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A job that the scheduler would take: its words, a line each, and what checks found."""

    words: tuple[str, ...]
    notes: tuple[Notice, ...]


def try_out(
    job: PreparedJob, caller: Caller, tools: SubmitTools, place: StagePlace | None = None
) -> Trial:
    """Check the job and have the scheduler look at it; nothing is written, queued or recorded.

    Of an array in parts each kind of part is tried once. Raises JobRefused, SchedulerRefused and
    what else a submission raises; PlanError at a site without a scheduler.
    """
    if job.site.submitter is SubmitterKind.LOCAL:
        raise PlanError(
            f"site {job.site.name} has no scheduler to ask",
            have="this machine only",
            need="a scheduler for --test-only",
            hint="use --dry-run to see the script, or a site with Slurm",
        )
    draft = draft_of(job, caller, tools, place)
    kinds = {part.expression: part for part in draft.parts}
    words: list[str] = []
    for part in kinds.values() or (None,):
        request = request_of(draft, part, None, tools.clock.now_s())
        words += tools.submitter.test(request)
    return Trial(words=tuple(words), notes=draft.notes)
