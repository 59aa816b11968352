"""A report and what it was made of, for the command that prints it."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hpckit.errors import HpckitError, NoSuchJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.account_ports import FoundAccounts, SampleStore, SlurmEnergy
    from hpckit.app.report import JobFacts
    from hpckit.model.account import JobReport
    from hpckit.model.energy_site import EnergySite


class MadeReport(Struct, frozen=True, kw_only=True):
    """The report, and the accounts that it is of."""

    report: JobReport
    found: FoundAccounts
    store: SampleStore


def made_report(params: dict[str, Any], progress: Callable[[int, int], None]) -> MadeReport:
    """The report that the command line asks for. Raises HpckitError."""
    from hpckit import wiring
    from hpckit.app.report import ReportTools, report_of
    from hpckit.app.report_facts import no_accounts

    asked = _asked(params)
    facts, folder, store = asked.facts, asked.folder, asked.store
    try:
        found = store.find(folder, facts.array_task)
    except HpckitError as error:
        if params["from_"]:
            raise
        raise HpckitError(
            f"the folder of job {facts.job_id}: {error}",
            hint="where it was removed or moved: hpckit report --from FOLDER reads a copy of it",
        ) from None
    if not found.incarnations:
        raise no_accounts(facts, found, wiring.job_folders(), folder)
    tools = ReportTools(
        store=store,
        fold_all=wiring.fold_all,
        progress=progress,
        slurm_energy=asked.slurm_energy,
    )
    curves = bool(params["curves"] or params["html"])
    report = report_of(found, tools, facts, _site(params, folder), curves=curves)
    if facts.folder is not None and not facts.is_running:
        from hpckit.app.advice import with_advice_of

        report = with_advice_of(report, Path(facts.folder), wiring.job_folders())
    return MadeReport(report=report, found=found, store=store)


class _Asked(Struct, frozen=True, kw_only=True):
    """What is known of the job, where its accounts lie, and what reads them."""

    facts: JobFacts
    folder: Path
    store: SampleStore
    slurm_energy: Callable[[], SlurmEnergy] | None = None


def _asked(params: dict[str, Any]) -> _Asked:
    from hpckit import wiring
    from hpckit.app.report_facts import facts_of_folder

    if not params["from_"]:
        return _job(params["job_id"])
    path = Path(params["from_"])
    is_folder = path.is_dir()
    store = wiring.sample_store() if is_folder else wiring.archive_store(path)
    folder = path if is_folder else path.parent
    return _Asked(facts=facts_of_folder(folder, wiring.job_folders()), folder=path, store=store)


def _job(job_id: str | None) -> _Asked:
    from hpckit import wiring
    from hpckit.app.report_facts import facts_of_job
    from hpckit.app.track import find_task, job_status
    from hpckit.cli.tasks import status_of_task
    from hpckit.cli.waiting import asking

    tools = wiring.track_tools()
    try:
        entry, task = find_task(tools.index, job_id)
    except NoSuchJob as error:
        if job_id is None or not os.path.isdir(job_id):  # noqa: PTH112  no error of long names
            raise
        folder = f"of that folder: hpckit report --from {shlex.quote(job_id)}"
        raise NoSuchJob(error.message, also=folder) from None
    with asking(tools) as asked:
        status = job_status(entry, asked)
    if task is not None:
        status = status_of_task(entry, status, task)
    # A job of this machine has no number, and tasks of an array share nodes.
    asks_slurm = task is None and not entry.parts and entry.job_id.isdecimal()
    return _Asked(
        facts=facts_of_job(entry, status, task, tools.folders),
        folder=Path(entry.folder),
        store=wiring.sample_store(),
        slurm_energy=partial(wiring.slurm_energies().of, entry.job_id, entry.cluster)
        if asks_slurm
        else None,
    )


def _site(params: dict[str, Any], folder: Path) -> EnergySite:
    from hpckit import wiring
    from hpckit.app.report_facts import energy_site

    if params["site"]:
        from hpckit.app.sites import load_site

        return load_site(wiring.resources(), params["site"]).energy
    return energy_site(folder, wiring.job_folders())
