"""What is known of a job that is reported on: from Slurm, and from its folder."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.account.report import JobFacts
from hpckit.account.store import JobDocuments
from hpckit.core.errors import ConfigError, HpckitError
from hpckit.core.hostlist import expand_hosts
from hpckit.core.units import format_indices, parse_slurm_limit_s
from hpckit.spec.energy_site import EnergySite
from hpckit.spec.folder_in_job import ACCOUNT_FOLDER
from hpckit.spec.job_folder import (
    EFFECTIVE_FILE,
    EFFECTIVE_SCHEMA,
    INTENT_FILE,
    LOCAL_RESULT_SCHEMA,
    RESULT_FILE,
    RESULT_SCHEMA,
    RUN_FILE,
    SITE_FILE,
    SUBMITTED_FILE,
)

if TYPE_CHECKING:
    from hpckit.account.store import FoundAccounts
    from hpckit.account.values import JobReport
    from hpckit.slurm.values import JobEntry, JobStatus
    from hpckit.spec.store import FileJobFolders


def facts_of_job(
    entry: JobEntry, status: JobStatus, task: int | None, folders: FileJobFolders
) -> JobFacts:
    """What Slurm and the folder say of a submitted job."""
    state = status.state
    documents = JobDocuments(Path(entry.folder), folders)
    for name in (INTENT_FILE, SUBMITTED_FILE, RUN_FILE, RESULT_FILE):
        documents.read(name)  # the status was told from these
    resources = _resources(documents)
    return JobFacts(
        job_id=status.job_id,
        name=entry.name,
        array_task=task,
        state=str(state),
        exit_code=status.exit_code,
        folder=entry.folder,
        **_asked(resources),
        started_s=status.started_s,
        ended_s=status.ended_s,
        nodes=_nodes(status.nodelist),
        is_running=not state.is_final and not state.is_waiting,
        missing=documents.damaged,
    )


def facts_of_folder(folder: Path, folders: FileJobFolders) -> JobFacts:
    """What a folder says by itself: it may be a copy, years later, or no job's at all."""
    documents = JobDocuments(folder, folders)
    intent = documents.read(INTENT_FILE)
    if intent is None:
        return JobFacts()
    submitted = documents.read(SUBMITTED_FILE) or {}
    result = _result(documents)
    resources = _resources(documents)
    return JobFacts(
        job_id=_text(submitted.get("job_id", intent.get("job_id"))),
        name=_text(intent.get("name")),
        state=_text(result.get("state")),
        exit_code=_whole(result.get("exit_code")),
        folder=str(folder),
        **_asked(resources),
        started_s=_time_s(result.get("started_s")),
        ended_s=_time_s(result.get("ended_s")),
        nodes=_nodes(_text(result.get("nodelist"))),
        missing=documents.damaged,
    )


def folder_of_job(folder: Path, folders: FileJobFolders) -> Path:
    """The job folder whose `account/` this one is, else this one."""
    job = folder.absolute().parent
    is_account = folder.absolute().name == ACCOUNT_FOLDER
    if not is_account or JobDocuments(job, folders).read(INTENT_FILE) is None:
        return folder
    return job


def energy_site(folder: Path, folders: FileJobFolders) -> tuple[EnergySite, tuple[str, ...]]:
    """The energy factors of the site that the job was submitted to, none where it does not say.

    With a sentence where its file is damaged, or of another version.
    """
    documents = JobDocuments(folder, folders)
    document = documents.read(SITE_FILE)
    if document:  # what `hpckit sample` wrote has none
        from hpckit.core.document import UNKNOWN_KEY, convert
        from hpckit.spec.site import SITE_SCHEMA, SiteSpec

        try:
            if not documents.is_of_other_version(SITE_FILE, SITE_SCHEMA):
                return convert(dict(document), SiteSpec, SITE_FILE).energy, ()
        except ConfigError as error:
            if error.reason == UNKNOWN_KEY:  # hpckit itself wrote the file
                keys = f"the keys of {SITE_SCHEMA}"
                documents.refuse_version(SITE_FILE, f"the key {error.key}", keys)
            documents.refuse(SITE_FILE, error.message.removeprefix(f"{SITE_FILE}: "))
    return EnergySite(), documents.damaged


def not_in_an_archive(report: JobReport, *, has_site: bool) -> tuple[str, ...]:
    """What a Parquet file away from its job's folder does not tell; nothing where it is of no job.

    `has_site` is whether the energy factors come from elsewhere.
    """
    if report.job.job_id is None and not report.ranks:
        return ()
    facts = "the job's name, state, exit code, limits and request"
    none = "not in a Parquet file; use --from JOB_FOLDER"
    if has_site:
        return (f"{facts}: {none}",)
    factors = "its site's energy factors (CPU power, PUE, price)"
    return (f"{facts}, and {factors}: {none}, or --site NAME for the factors",)


def no_accounts(
    facts: JobFacts, found: FoundAccounts, folders: FileJobFolders, folder: Path
) -> HpckitError:
    """Why there is nothing to report on in `folder`, and what to do."""
    what = f"job {facts.job_id}" if facts.job_id else f"the folder {folder}"
    if found.array_tasks:
        first = f"{facts.job_id or 'ID'}_{found.array_tasks[0]}"
        tasks = format_indices(found.array_tasks)
        none = f"is a job array, each task has its own report: {tasks}"
        if facts.array_task is not None:
            none = f"has no accounts of task {facts.array_task}, only of: {tasks}"
        return HpckitError(
            f"{what} {none}",
            hint=f"hpckit report {first}, or --from the folder of one task below account/",
        )
    if found.missing:
        return HpckitError(
            f"{what} has no readable accounts: {'; '.join((*found.missing, *facts.missing))}",
            hint="the files below account/ of the job folder must be readable for you: "
            f"ls -lR {shlex.quote(str(folder))}",
        )
    why = "; ".join((_why(facts, folders), *facts.missing))
    none = "was not measured" if facts.job_id else "has no accounts"
    return HpckitError(f"{what} {none}: {why}", hint=_hint(facts, folders))


def _switched_off(facts: JobFacts, folders: FileJobFolders) -> str | None:
    documents = JobDocuments(Path(facts.folder or "."), folders)
    effective = documents.read(EFFECTIVE_FILE) if facts.folder else None
    switches = _of_job(effective, "account") or {}
    off = [key for key, value in switches.items() if value is False]
    return f"account.{off[0]}" if off else None


def _why(facts: JobFacts, folders: FileJobFolders) -> str:
    if facts.state == "NOT_SUBMITTED":
        return "it was never submitted"
    if _is_waiting(facts):
        again = "has not run yet" if facts.state == "PENDING" else "waits to run again"
        return f"it {again} ({facts.state})"
    if facts.state is not None and facts.started_s is None and not facts.is_running:
        return f"it did not run ({facts.state})"
    off = _switched_off(facts, folders)
    if off is not None:
        return f"it was submitted with {off} = false"
    if facts.is_running:
        return "no rank has started yet"
    if facts.job_id is None:
        return "no rank or sampler wrote any"
    return "its script ended before the ranks and the sampler started, or does not start them"


def _is_waiting(facts: JobFacts) -> bool:
    from hpckit.slurm.values import JobState

    return facts.state in set(JobState) and JobState(facts.state).is_waiting


def _hint(facts: JobFacts, folders: FileJobFolders) -> str | None:
    if facts.job_id is None:
        return "expected a job folder, its account/, or the output of `hpckit sample --out`"
    if (
        facts.is_running
        or _is_waiting(facts)
        or (facts.started_s is None and facts.state is not None)
    ):
        return f"hpckit status {facts.job_id}"
    if _switched_off(facts, folders) is not None:
        return f"hpckit show {facts.job_id} shows where it is set; unset it to measure the next run"
    if facts.state != "COMPLETED":
        return f"hpckit logs {facts.job_id}"
    return f"hpckit show {facts.job_id} --script shows what ran"


def _result(documents: JobDocuments) -> Mapping[str, Any]:
    result = documents.read(RESULT_FILE) or {}
    known = (RESULT_SCHEMA, LOCAL_RESULT_SCHEMA)
    if not result or result.get("schema") in known:
        return result
    if not documents.is_of_other_version(RESULT_FILE, *known):
        got = result.get("schema")
        documents.refuse(RESULT_FILE, f"its schema is {got!r}, expected {' or '.join(known)}")
    return {}


def _resources(documents: JobDocuments) -> Mapping[str, Any] | None:
    effective = documents.read(EFFECTIVE_FILE)
    if not effective:
        return None
    resources = _of_job(effective, "resources")
    if resources is None and not documents.is_of_other_version(EFFECTIVE_FILE, EFFECTIVE_SCHEMA):
        documents.refuse(EFFECTIVE_FILE, "it has no job.resources (the job's request)")
    return resources


def _of_job(effective: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    """A table of the job in its effective.json."""
    job = (effective or {}).get("job")
    table = job.get(name) if isinstance(job, Mapping) else None
    return table if isinstance(table, Mapping) else None


def _asked(resources: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of JobFacts that tell what was asked for."""
    return {
        "time_limit_s": _time_limit_s(resources),
        "gpus_asked": _gpus_asked(resources),
        "gpus_per_node": _gpus_per_node(resources),
    }


def _gpus_asked(resources: Mapping[str, Any] | None) -> int | None:
    """On all nodes together, None where the folder does not say, or what cannot be."""
    if resources is None:
        return None
    if resources.get("gpus_per_node") is None:
        return 0
    nodes, each = _whole(resources.get("nodes", 1)), _gpus_per_node(resources)
    return None if nodes is None or nodes < 1 or each is None else nodes * each


def _gpus_per_node(resources: Mapping[str, Any] | None) -> int | None:
    asked = _whole((resources or {}).get("gpus_per_node"))
    return asked if asked is not None and asked >= 0 else None


def _time_limit_s(resources: Mapping[str, Any] | None) -> float | None:
    limit = (resources or {}).get("time_limit")
    with contextlib.suppress(ValueError):
        return float(parse_slurm_limit_s(limit)) if isinstance(limit, str) else None
    return None


def _nodes(nodelist: str | None) -> tuple[str, ...]:
    with contextlib.suppress(ValueError):
        return expand_hosts(nodelist) if nodelist else ()
    return ()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value


def _time_s(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value)
