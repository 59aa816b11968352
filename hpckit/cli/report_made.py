"""A report and what it was made of, for the command that prints it."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hpckit.errors import HpckitError, NoSuchJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.app.accounts import Gathered, SampleStore
    from hpckit.app.report import JobFacts
    from hpckit.cli.cmd_report import ReportOptions
    from hpckit.model.account import JobReport
    from hpckit.model.energy_reason import SlurmEnergy
    from hpckit.model.energy_site import EnergySite


class MadeReport(Struct, frozen=True, kw_only=True):
    """The report, and the accounts that it is of."""

    report: JobReport
    gathered: Gathered
    store: SampleStore


def made_report(options: ReportOptions, progress: Callable[[int, int], None]) -> MadeReport:
    """Return the report that the command line asks for. Raises HpckitError."""
    from hpckit import wiring
    from hpckit.app.accounts import gather
    from hpckit.app.report import ReportTools, report_of
    from hpckit.app.report_facts import no_accounts, not_in_an_archive

    asked = _asked(options)
    facts, folder, store = asked.facts, asked.folder, asked.store
    try:
        accounts = store.find(folder, facts.array_task)
    except HpckitError as error:
        if options.from_:
            raise
        raise HpckitError(
            f"the folder of job {facts.job_id}: {error}",
            hint="where it was removed or moved: hpckit report --from FOLDER reads a copy of it",
        ) from None
    if not accounts.incarnations:
        raise no_accounts(facts, accounts, wiring.job_folders(), folder)
    tools = ReportTools(
        store=store, fold_all=wiring.fold_all, progress=progress, slurm_energy=asked.slurm_energy
    )
    curves = bool(options.curves or options.html)
    site, unread = _site(options, facts.folder)
    facts = replace(facts, missing=(*facts.missing, *unread))
    gathered = gather(store, accounts)
    report = report_of(gathered, tools, facts, site, curves=curves)
    if facts.folder is not None and not facts.is_running:
        from hpckit.app.advice import with_advice_of

        report = with_advice_of(report, Path(facts.folder), wiring.job_folders())
    if asked.is_archive and facts.folder is None:
        lacks = not_in_an_archive(report, has_site=bool(options.site))
        report = replace(report, missing=(*report.missing, *lacks))
    return MadeReport(report=report, gathered=gathered, store=store)


class _Asked(Struct, frozen=True, kw_only=True):
    """What is known of the job, where its accounts and it lie, and what reads the accounts.

    `is_archive` where a Parquet file has the accounts.
    """

    facts: JobFacts
    folder: Path
    store: SampleStore
    slurm_energy: Callable[[], SlurmEnergy] | None = None
    is_archive: bool = False


def _asked(options: ReportOptions) -> _Asked:
    from hpckit import wiring
    from hpckit.app.report_facts import facts_of_folder, folder_of_job

    if not options.from_:
        return _job(options.job_id)
    path = Path(options.from_)
    is_folder = path.is_dir()
    store = wiring.sample_store() if is_folder else wiring.archive_store(path)
    folders = wiring.job_folders()
    folder = folder_of_job(path, folders) if is_folder else path.parent
    facts = facts_of_folder(folder, folders)
    return _Asked(facts=facts, folder=path, store=store, is_archive=not is_folder)


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


def _site(options: ReportOptions, job_folder: str | None) -> tuple[EnergySite, tuple[str, ...]]:
    """Return the site's energy factors, and a sentence where the job's own cannot be read.

    Beside accounts that are in no job's folder, another program's site.json may lie.
    """
    from hpckit import wiring
    from hpckit.app.report_facts import energy_site
    from hpckit.model.energy_site import EnergySite

    if options.site:
        from hpckit.app.sites import load_site

        return load_site(wiring.resources(), options.site).energy, ()
    if job_folder is None:
        return EnergySite(), ()
    return energy_site(Path(job_folder), wiring.job_folders())
