"""submitit's executor `hpckit`: Python functions and prepared jobs become jobs, and its Job.

submitit finds both classes by the entry points of pyproject.toml: with hpckit installed,
`submitit.AutoExecutor(folder, cluster="hpckit")` takes functions as any of its executors does.
Source: submitit 1.5.4, core/plugins.py, core/core.py, core/submission.py.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import cloudpickle  # type: ignore[import-untyped]  # it has no types, and no stubs
from submitit.core import core, utils

from hpckit import wiring
from hpckit.core.errors import HpckitError
from hpckit.core.trust import must_be_ours
from hpckit.jobs.function import NAME, FunctionPaths, HpckitJobEnvironment, pickle_name

if TYPE_CHECKING:
    from hpckit.jobs.prepare import PreparedJob
    from hpckit.jobs.submit import Submission
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.values import JobEntry, JobPart, JobStatus

_SIGNAL_DELAY_S: Final = 90
_POLL_S: Final = 0.5
_LOG_LINES: Final = 40
_NEVER_MIN: Final = 10 * 365 * 24 * 60
"""In place of a time limit where there is none: submitit asks whether it is near."""

R = TypeVar("R", covariant=True)  # noqa: PLC0105  as submitit calls it


class _Watcher(core.InfoWatcher):
    """Asks about all jobs at once, as `hpckit status` does: squeue, then sacct for the ended."""

    def __init__(self) -> None:
        super().__init__(delay_s=60)
        self._places: dict[str, tuple[Path, int | None]] = {}

    def place(self, job_id: str, folder: Path, index: int | None) -> None:
        """Say where a job's folder is, and which task of an array it is."""
        self._places[job_id] = (folder, index)
        self.register_job(job_id)

    def update(self) -> None:
        """Ask about all jobs that have not ended; one whose folder was removed has."""
        from hpckit.jobs.track import job_statuses

        self._num_calls += 1
        self._last_status_check = time.time()
        asked = self._registered - self._finished
        waiting = {job_id: self._places[job_id] for job_id in asked if job_id in self._places}
        tools = wiring.track_tools()
        found = {folder: _entry(folder, tools) for folder, _ in waiting.values()}
        entries = {folder: entry for folder, entry in found.items() if entry is not None}
        statuses = dict(zip(entries, job_statuses(list(entries.values()), tools), strict=True))
        for job_id, (folder, index) in waiting.items():
            if folder not in entries:
                self._finished.add(job_id)
                continue
            status = _of_task(entries[folder], statuses[folder], index)
            self._info_dict[job_id] = {
                "JobID": job_id,
                "State": str(status.state),
                "NodeList": status.nodelist or "",
                "ExitCode": "" if status.exit_code is None else str(status.exit_code),
                "Reason": status.reason or status.slurm_reason or "",
            }
            if status.state.is_final:
                self._finished.add(job_id)

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return Slurm's word for the job's state; UNKNOWN where it cannot be told now."""
        return self.get_info(job_id, mode=mode).get("State", "UNKNOWN")

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Return whether the job will not change any more."""
        self.get_info(job_id, mode=mode)
        return job_id in self._finished


def _entry(folder: Path, tools: TrackTools) -> JobEntry | None:
    """Return what a job folder says of its job, None where it was removed. Raises HpckitError."""
    from hpckit.core.errors import NoSuchFile
    from hpckit.jobs.track import entry_of_folder

    try:
        return entry_of_folder(tools.folders, folder)
    except NoSuchFile:
        return None


def _of_task(entry: JobEntry, status: JobStatus, index: int | None) -> JobStatus:
    from hpckit.jobs.status import status_of_task

    if index is None:
        return status
    try:
        return status_of_task(entry, status, index)
    except HpckitError:  # not listed: what is known of the whole array
        return status


class HpckitJob(core.Job[R]):
    """A submitted job: submitit's Job, which knows its job folder.

    A job of a command has as its result its exit code, 0.
    """

    watcher = _Watcher()
    started: Submission
    """What was done to submit it; a copy that came out of a pickle has none."""

    def __init__(
        self, folder: Path | str, job_id: str, tasks: Sequence[int] = (0,), index: int | None = None
    ) -> None:
        self._index = index
        super().__init__(folder, job_id, tasks[:1])
        self._tasks = tuple(tasks)
        if len(self._tasks) > 1:
            kind = type(self)
            self._sub_jobs = [kind(folder, job_id, (task,), index) for task in self._tasks]
        self._paths = FunctionPaths(folder, job_id, self.task_id, index)

    def _register_in_watcher(self) -> None:
        self.watcher.place(self.job_id, self._paths._folder, self._index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "started"}

    @property
    def folder(self) -> Path:
        """The job folder."""
        return self._paths.folder

    def submission(self) -> utils.DelayedSubmission:
        """Return the function and its arguments. Raises Untrusted, HpckitError of a command."""
        must_be_ours(self.folder)
        if not self._is_function:
            raise HpckitError(f"job {self.job_id} runs a command, not a function")
        return super().submission()

    @property
    def _is_function(self) -> bool:
        return self.paths.submitted_pickle.exists()

    def results(self) -> list[R]:
        """Wait, and return what each rank returned. Raises what `exception` returns."""
        error = self.exception()
        if error is not None:
            raise error
        return super().results()

    def exception(self) -> utils.UncompletedJobError | None:
        """Wait, and return how the job failed, None where it did not: by the rank that began it.

        The others are ended when one fails, and most leave nothing. A result that a network file
        system shows late is waited for, once for all ranks.
        """
        self.wait()
        if not self._is_function:
            is_well = self.status().state == "COMPLETED"
            return None if is_well else self._failure()
        ranks: Sequence[Any] = self._sub_jobs or (self,)
        until_s = time.monotonic() + self._results_timeout_s
        while True:
            told = [rank for rank in ranks if rank.paths.result_pickle.exists()]
            failures = (rank._told_failure() for rank in told)
            first = next((error for error in failures if error is not None), None)
            if first is not None or len(told) == len(ranks):
                return first
            if time.monotonic() > until_s or self._has_failed():
                return self._failure()
            time.sleep(_POLL_S)

    def _told_failure(self) -> utils.UncompletedJobError | None:
        """Return what this rank has left, None for a result."""
        outcome, trace = self._get_outcome_and_result()
        if outcome != "error":
            return None
        where = f"rank {self.task_id} of job {self.job_id}"
        return utils.FailedJobError(f"{where} failed; log: {self.paths.stdout}\n{trace}")

    def _has_failed(self) -> bool:
        """Return whether a rank has ended with a code: of those that it ended nothing comes."""
        return self._failing() is not None and self.status().state.is_final

    def _failing(self) -> tuple[int, str] | None:
        """Return the code and the number of the rank that failed first in the last attempt."""
        logs = self.paths.stdout.parent
        try:
            newest = max(logs.glob("failed-*"), key=lambda path: path.stat().st_mtime)
            code, rank = newest.read_text(encoding="utf-8").split()
            return int(code), rank
        except (OSError, ValueError):
            return None

    def _failure(self) -> utils.UncompletedJobError:
        """Return what is known of a job that has ended without all results."""
        status, failing = self.status(), self._failing()
        state = " · ".join(filter(None, (str(status.state), status.reason)))
        said, rank = [f"job {self.job_id} has no result: {state}"], 0
        if failing is not None:
            said.append(f"rank {failing[1]} failed first, with exit code {failing[0]}")
            rank = int(failing[1]) if failing[1].isdigit() else 0
        log = FunctionPaths(self.folder, self.job_id, rank, self._index).stdout
        with contextlib.suppress(OSError):
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            said += [f"last lines of {log}:", *last]
        kind = utils.UncompletedJobError if failing is None else utils.FailedJobError
        return kind("\n".join(said))

    def status(self) -> JobStatus:
        """Return how the job is now, of an array task how that is. Raises HpckitError."""
        from hpckit.jobs.track import entry_of_folder, job_status

        tools = wiring.track_tools()
        entry = entry_of_folder(tools.folders, self.folder)
        return _of_task(entry, job_status(entry, tools), self._index)

    def cancel(self, check: bool = True) -> None:
        """End the job, or this task of an array. Raises HpckitError where `check` and it cannot."""
        try:
            self._send(None)
        except HpckitError:
            if check:
                raise

    def _interrupt(self, timeout: bool = False) -> None:
        """Send what a preemption sends, or only the signal before a time limit (for tests)."""
        for name in () if timeout else ("TERM",):
            self._send(name)
        self._send(HpckitJobEnvironment.USR_SIG)

    def _send(self, signal_name: str | None) -> None:
        from hpckit.jobs.track import entry_of_folder

        tools = wiring.track_tools()
        entry = entry_of_folder(tools.folders, self.folder)
        tools.submitter_of(entry).cancel(entry, signal_name, self._index)

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        must_be_ours(self.folder)
        if self._is_function:
            return super()._get_outcome_and_result()
        return "success", self.status().exit_code


_GENERIC: Final[Mapping[str, str]] = {
    "name": "name",
    "nodes": "resources.nodes",
    "cpus_per_task": "resources.cpus_per_task",
    "gpus_per_node": "resources.gpus_per_node",
    "tasks_per_node": "resources.ntasks_per_node",
}
"""What all executors of submitit take alike, where only the key differs."""
_OWN: Final = (
    "launch",
    "timeout_min",
    "mem_gb",
    "stderr_to_stdout",
    "array_parallelism",
    "signal_delay_s",
)


def _keys() -> dict[str, str]:
    """Return the names that a parameter may have, each with its key of a job file."""
    from hpckit.spec.job import ResourceRequest
    from hpckit.spec.slurm_options import SlurmOptions

    tables = {"resources": ResourceRequest, "slurm": SlurmOptions}
    names = {
        field.name: f"{table}.{field.name}"
        for table, kind in tables.items()
        for field in fields(kind)
        if field.name not in ("array", "extra", "srun_extra")
    }
    return {**names, **_GENERIC, "setup": "environment.setup"}


class HpckitExecutor(core.Executor):
    """Submits Python functions, and jobs that are prepared, as `hpckit submit` does.

    `folder` is where the job folders are made, in place of the site's job_root: nodes must see it.
    `python` is the command that runs Python there, as a shell splits it; this Python unless said.
    Parameters are submitit's own, those keys of a job file's [resources] and [slurm] that it has
    no word for, `site` (by default as for `hpckit submit`), `template`, and `settings`, a mapping
    of any other keys.
    """

    job_class = HpckitJob

    def __init__(
        self,
        folder: Path | str,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
    ) -> None:
        root = utils.JobPaths.get_first_id_independent_folder(folder)
        super().__init__(root)
        self.max_num_timeout = max_num_timeout
        self.max_pickle_size_gb = max_pickle_size_gb
        self._python = [sys.executable] if python is None else shlex.split(python)

    @classmethod
    def name(cls) -> str:
        """The name by which AutoExecutor has it."""
        return NAME

    @classmethod
    def affinity(cls) -> int:
        """Return 0: used where it is named, never by itself."""
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*_keys(), *_OWN, "site", "template", "settings"}

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - self._valid_parameters())
        if unknown:
            known = ", ".join(sorted(self._valid_parameters()))
            raise ValueError(f"no such parameter: {', '.join(unknown)}; valid: {known}")
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(
        self, delayed_submissions: list[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        first = delayed_submissions[0]
        job = self._prepared(first, len(delayed_submissions))
        if job.effective.spec.slurm.array is None:
            jobs = [job, *(self._prepared(one, 1) for one in delayed_submissions[1:])]
            payloads = [{pickle_name(None): self._pickled(one, job)} for one in delayed_submissions]
            self._refuse_large(payloads)
            pairs = zip(jobs, payloads, strict=True)
            return [submit_job(job, payload=payload) for job, payload in pairs]
        numbered = enumerate(delayed_submissions)
        payload = {pickle_name(index): self._pickled(one, job) for index, one in numbered}
        self._refuse_large([payload])
        return list(tasks_of(submit_job(job, payload=payload), len(payload)))

    def _pickled(self, delayed: utils.DelayedSubmission, job: PreparedJob) -> bytes:
        from hpckit.core.units import parse_slurm_time_s

        limit = job.effective.spec.resources.time_limit
        limit_s = None if limit is None else parse_slurm_time_s(limit)
        delayed.set_timeout(
            _NEVER_MIN if limit_s is None else int(limit_s // 60), self.max_num_timeout
        )
        pickled: bytes = cloudpickle.dumps(delayed)
        return pickled

    def _refuse_large(self, payloads: Sequence[Mapping[str, bytes]]) -> None:
        size_gib = sum(len(one) for payload in payloads for one in payload.values()) / 1024**3
        if size_gib > self.max_pickle_size_gb:
            raise RuntimeError(
                f"the pickled functions and arguments have {size_gib:.2f} GiB, more than "
                f"{self.max_pickle_size_gb} GiB: pass file names instead, or raise "
                "max_pickle_size_gb"
            )

    def _prepared(self, delayed: utils.DelayedSubmission, count: int) -> PreparedJob:
        from hpckit.jobs.prepare import prepare
        from hpckit.jobs.sites import load_site
        from hpckit.jobs.source import source_of
        from hpckit.spec.pace import SubmitterKind

        given = dict(self.parameters)
        site, defaults = wiring.site_and_defaults(given.pop("site", None))
        template = given.pop("template", None)
        resources = wiring.resources()
        is_slurm = load_site(resources, site).submitter is SubmitterKind.SLURM
        settings = _settings_of(delayed.function, given, count if is_slurm else 1)
        command = (*self._python, "-u", "-m", "submitit.core._submit", str(self.folder))
        source = source_of(
            command, settings, site=site, folder=wiring.workdir(), template=template,
            defaults=defaults,
        )  # fmt: skip
        job = prepare(source, resources, wiring.template_cache())
        root = str(self.folder).replace("$", "$$")
        return replace(job, site=replace(job.site, job_root=root))


def _settings_of(
    function: Callable[..., Any], given: Mapping[str, Any], count: int
) -> dict[str, object]:
    """Return the keys of a job file for a job of `count` functions, an array where there are some.

    As submitit has it, the signal before the time limit goes to all ranks, where the launcher hands
    it on, and the job may be started again.
    """
    from hpckit.script.launchers.registry import LAUNCHERS
    from hpckit.spec.job import PLAIN

    said = dict(given)
    extra = dict(said.pop("settings", None) or {})
    kind = said.pop("launch", None) or extra.pop("launch.kind", PLAIN)
    minutes, mem_gb = said.pop("timeout_min", None), said.pop("mem_gb", None)
    delay_s = said.pop("signal_delay_s", _SIGNAL_DELAY_S)
    throttle = said.pop("array_parallelism", None)
    said.pop("stderr_to_stdout", None)
    settings: dict[str, object] = {
        "name": getattr(function, "__name__", type(function).__name__),
        "launch.kind": kind,
        "slurm.requeue": True,
        "resources.time_limit": None if minutes is None else str(minutes),
        # 0 would be all of a node's.
        "resources.mem": None if mem_gb is None else f"{max(1, round(mem_gb * 1024))}M",
        "environment.set.SUBMITIT_EXECUTOR": NAME,
    }
    if kind in LAUNCHERS and LAUNCHERS[kind].hands_signals_on:
        settings["slurm.signal"] = f"{HpckitJobEnvironment.USR_SIG}@{delay_s}"
    if kind == "deepspeed":  # submitit's own program takes no such option
        settings["launch.args"] = ["--no_local_rank"]
    if count > 1:
        settings["slurm.array"] = f"0-{count - 1}" + (f"%{throttle}" if throttle else "")
    keys = _keys()
    return {**settings, **{keys[name]: value for name, value in said.items()}, **extra}


def submit_job(
    job: PreparedJob, *, payload: Mapping[str, bytes] | None = None, checks: bool = True
) -> HpckitJob[Any]:
    """Submit a prepared job and return it; `payload` are more files of its folder, by name.

    Raises what `hpckit.jobs.submit.submit` raises.
    """
    from hpckit.jobs.submit import submit

    tools = wiring.submit_tools(job.site.submitter, checks=checks)
    started = submit(job, wiring.caller(), tools, payload=payload)
    ranks = _ranks(job.plan.kind, job.plan.ntasks)
    submitted = HpckitJob[Any](started.folder, started.job_id, ranks)
    submitted.started = started
    return submitted


def _ranks(kind: str, count: int) -> tuple[int, ...]:
    """Return the ranks that run the command: of Ray's nodes the first alone."""
    return (0,) if kind == "ray" else tuple(range(count))


def job_of(entry: JobEntry, index: int | None = None) -> HpckitJob[Any]:
    """Return a job that was submitted before, or the task `index` of an array.

    Raises StorageFailed for a folder without its plan, HpckitError for a task that the array does
    not have, and for an array of functions without one.
    """
    from hpckit.core.units import format_indices
    from hpckit.jobs.slurm_status import tasks_asked_for
    from hpckit.spec.folder_in_job import PLAN_FILE

    folder = Path(entry.folder)
    plan = wiring.job_folders().read_json(folder, PLAN_FILE, "ntasks", "kind")
    tasks = tasks_asked_for(folder) or ()
    if index is not None and index not in tasks:
        hint = f"its tasks: {format_indices(tasks)}" if tasks else "it is not a job array"
        raise HpckitError(f"job {entry.job_id} has no task {index}", hint=hint)
    if index is None and tasks and (folder / pickle_name(tasks[0])).exists():
        raise HpckitError(
            f"job {entry.job_id} is an array of functions, each with a separate result",
            hint=f"attach one task, such as {entry.job_id}_{tasks[0]}; its tasks: "
            f"{format_indices(tasks)}",
        )
    part = part_of(entry, index or 0)
    task = "" if index is None else f"_{index - part.offset}"
    ranks = _ranks(str(plan["kind"]), int(plan["ntasks"]))
    return HpckitJob[Any](folder, f"{part.job_id}{task}", ranks, index)


def tasks_of(job: HpckitJob[Any], count: int) -> Sequence[HpckitJob[Any]]:
    """Return the tasks 0 to `count` - 1 of a job array, each as a job of its own."""
    tasks = []
    for index in range(count):
        part = part_of(job.started.entry, index)
        job_id = f"{part.job_id}_{index - part.offset}"
        tasks.append(HpckitJob[Any](job.folder, job_id, job._tasks, index))
    return tasks


def part_of(entry: JobEntry, index: int) -> JobPart:
    """Return the part of a job array that has the task `index`; the whole job where none are."""
    from hpckit.slurm.values import JobPart

    parts = entry.parts or (JobPart(offset=0, job_id=entry.job_id),)
    return max((part for part in parts if part.offset <= index), key=attrgetter("offset"))
