"""The Python API: what the commands do, for programs and notebooks.

    from hpckit import api

    job = api.job(["python", "train.py"], site="docker", resources={"nodes": 2})
    print(job.script)               # what a person reviews, and what submit sends
    running = job.submit()
    running.wait()
    api.report(running)             # a page in a notebook, its text in a shell

Errors are those of hpckit.core.errors, each with what was got, what was expected and what to do.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hpckit import wiring
from hpckit.core.errors import ConfigError, HpckitError, NoSuchJob
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    from hpckit.account.gather import Gathered, SampleStore
    from hpckit.account.report import JobFacts
    from hpckit.account.store import FoundAccounts
    from hpckit.account.values import JobReport, SlurmEnergy
    from hpckit.comm.communication import Communication
    from hpckit.core.findings import Notice
    from hpckit.core.text import Line
    from hpckit.executor import HpckitJob
    from hpckit.fabric.topology import ClusterTopology
    from hpckit.jobs.check import Checked
    from hpckit.jobs.prepare import PreparedJob
    from hpckit.jobs.source import JobSource
    from hpckit.jobs.track import TrackTools
    from hpckit.node.topology import NodeTopology
    from hpckit.placement.request import Placement
    from hpckit.slurm.values import JobEntry, JobStatus
    from hpckit.spec.energy_site import EnergySite
    from hpckit.spec.job import JobSpec
    from hpckit.spec.merge import ValueOrigin

__all__ = ["Job", "Shown", "attach", "inspect", "job", "jobs", "load", "place", "report"]

T = TypeVar("T")
_WIDTH = 100
_MOVED = "if it was moved or removed: hpckit report --from FOLDER reads a copy"


@dataclass(frozen=True)
class Shown(Generic[T]):
    """A result: `value` for programs, its text as the command prints it, and its picture.

    `print` shows the text, a notebook the picture; `save` writes the picture to a file.
    """

    value: T
    text: str
    _draw: Callable[[], str] = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def picture(self) -> str:
        """Return the picture: an SVG, of a report a page of HTML that is complete in itself."""
        return self._draw()

    def save(self, path: Path | str) -> None:
        """Write the picture. Raises OSError."""
        Path(path).write_text(self.picture(), encoding="utf-8")

    def _repr_html_(self) -> str:
        from html import escape

        drawn = self.picture()
        if drawn.startswith("<svg"):  # no wider than the notebook
            return f'<svg style="max-width:100%;height:auto"{drawn[4:]}'
        page = escape(drawn, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:48em;border:0"></iframe>'


class Job:
    """A job that is decided and rendered; nothing has been submitted.

    `script` is, byte for byte, what `hpckit render` prints and what `submit` sends.
    """

    def __init__(self, prepared: PreparedJob) -> None:
        self._prepared = prepared

    @property
    def name(self) -> str:
        """The job's name."""
        return self.spec.name

    @property
    def script(self) -> str:
        """The batch script."""
        return self._prepared.script.text

    @property
    def spec(self) -> JobSpec:
        """The whole job, with every default in its place."""
        return self._prepared.effective.spec

    @property
    def origins(self) -> Sequence[ValueOrigin]:
        """Where each value is from: a file, a setting, the site, or the default."""
        return self._prepared.effective.origins

    @property
    def notes(self) -> Sequence[Notice]:
        """What checks found that does not keep it from running."""
        return self._prepared.notes

    @property
    def communication(self) -> Communication:
        """The communication variables that are set, each with its reason."""
        return self._prepared.comm

    def check(self) -> Checked:
        """Return what keeps the job from running on the cluster that is here, if anything does.

        Nothing is queued. Raises SchedulerUnreachable.
        """
        from hpckit.jobs.check import check

        return check(self.script, os.environ, wiring.limits_probe())

    def submit(self, *, checks: bool = True) -> HpckitJob[Any]:
        """Submit the job and return it, a submitit Job; without `checks` no limits are asked for.

        Raises JobRefused with what keeps the job from running, StorageFailed, AdapterError.
        """
        from hpckit.executor import submit_job

        return submit_job(self._prepared, checks=checks)

    def __repr__(self) -> str:
        return f"<hpckit job {self.name!r} for site {self._prepared.site.name}, not submitted>"


def job(
    command: Sequence[str | Path],
    *,
    site: str | None = None,
    template: str | None = None,
    folder: Path | str | None = None,
    **settings: object,
) -> Job:
    """Return a job of a command.

    `settings` are the keys of a job file: a table is a mapping, such as `resources={"nodes": 2}`.
    `folder` is what relative paths are in, the current one unless said. Without `site` it is that
    of `hpckit render`: HPCKIT_SITE, the user's default, or the one that names this cluster; the
    other defaults of config.toml count too. Raises ConfigError, PlanError, JobRefused.
    """
    from hpckit.jobs.source import source_of

    place = wiring.workdir() if folder is None else Path(folder)
    words, (site, defaults) = _words(command), wiring.site_and_defaults(site)
    return _prepared(
        source_of(words, settings, site=site, folder=place, template=template, defaults=defaults)
    )


def _words(command: Sequence[str | Path]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise ConfigError(
            f"got the string {command!r}, expected a list of words",
            key="command",
            hint=f"shlex.split({command!r})",
        )
    return tuple(map(str, command))


def load(
    path: Path | str,
    *,
    command: Sequence[str] = (),
    site: str | None = None,
    template: str | None = None,
    **settings: object,
) -> Job:
    """Return the job of a job file; `command` and `settings` stand over what is in it.

    Without `site` it is the one that `job` takes. Raises ConfigError, PlanError, JobRefused.
    """
    from hpckit.jobs.source import source_of

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", source=str(file)) from error
    site, defaults = wiring.site_and_defaults(site)
    source = source_of(
        _words(command), settings, site=site, template=template, folder=file.resolve().parent,
        file=(text, str(file)), defaults=defaults,
    )  # fmt: skip
    return _prepared(source)


def _prepared(source: JobSource) -> Job:
    from hpckit.jobs.components import prepare_job

    return Job(prepare_job(source, wiring.resources(), wiring.template_cache()))


def attach(job_id: str | int | None = None) -> HpckitJob[Any]:
    """Return a job that was submitted, by its id or how that begins; the newest one without.

    Raises NoSuchJob.
    """
    from hpckit.executor import job_of
    from hpckit.jobs.track import find_task

    wanted = None if job_id is None else str(job_id)
    return job_of(*find_task(wiring.track_tools().index, wanted))


def jobs(limit: int | None = 20) -> Sequence[tuple[JobEntry, JobStatus]]:
    """Return the newest jobs and how each is now, all of them for None."""
    from hpckit.jobs.track import list_jobs

    return list_jobs(wiring.track_tools(), limit)


def inspect(file: Path | str | None = None, *, machine: int = 1) -> Shown[NodeTopology]:
    """Return what this node looks like, or the `machine`-th of a capture that hpckit inspect reads.

    Raises ParseError, StorageFailed.
    """
    from hpckit.node.capture.snapshot import inspect_capture
    from hpckit.node.merge import inspect_here
    from hpckit.node.picture.picture import node_svg
    from hpckit.node.rules.rules import node_findings
    from hpckit.node.show import node_lines

    if file is None:
        files, driver, stands_in = wiring.node_probes(None)
        node = inspect_here(files, driver, stands_in=stands_in)
    else:
        machines = inspect_capture(*wiring.read_capture(str(file)))
        if not 1 <= machine <= len(machines):
            raise ConfigError(
                f"got {machine}, expected 1 to {len(machines)} (machines in {file})", key="machine"
            )
        node = machines[machine - 1]
    findings = node_findings(node)
    lines = node_lines(node, findings, width=_WIDTH, command=None)
    return Shown(node, _text(lines), lambda: node_svg(node, findings))


def place(
    nodes: str | Sequence[str],
    mesh: Mapping[str, int],
    *,
    ranks_per_node: int | None = None,
    volume: Mapping[str, float] | None = None,
    fabric: Path | str | None = None,
    node_gbits: float | None = None,
    oversubscription: float | None = None,
) -> Shown[Placement]:
    """Return which node carries which ranks of a mesh, and what that is worth.

    `nodes` is a list as Slurm writes it, or names; `mesh` has its innermost axis first, such as
    `{"tensor": 8, "data": 16}`; `volume` is bytes that each rank gives to an axis in one step.
    `fabric` is a file that hpckit fabric reads; without one Slurm is asked. `ranks_per_node` is
    dealt evenly unless said. Raises PlanError, ParseError, AdapterError.
    """
    from hpckit.core.hostlist import expand_hosts
    from hpckit.placement.place import (
        PlaceQuestion,
        even_ranks,
        place_on,
        placed_picture,
        placed_text,
    )
    from hpckit.spec.options import parse_mesh, parse_volumes

    names = tuple(expand_hosts(nodes) if isinstance(nodes, str) else nodes)
    if not names:
        raise ConfigError(f"got {nodes!r}, expected nodes such as 'n[1-4]'", key="nodes")
    sizes = parse_mesh(_pairs(mesh))
    question = PlaceQuestion(
        nodes=names,
        ranks_per_node=ranks_per_node or even_ranks(sizes, len(names)),
        sizes=sizes,
        volumes=parse_volumes(_pairs(volume)) if volume else {},
        node_bytes_per_s=None if node_gbits is None else node_gbits * 1e9 / 8,
        oversubscription=oversubscription,
        is_even=ranks_per_node is None,
    )
    topology = _fabric(fabric)
    placement = place_on(question, topology)
    return Shown(
        placement,
        _text(placed_text(question, topology, placement, _WIDTH)),
        lambda: placed_picture(question, topology, placement),
    )


def _pairs(values: Mapping[str, float]) -> str:
    if not isinstance(values, Mapping):
        raise ConfigError(f'got {values!r}, expected a mapping such as {{"tensor": 8}}', key="mesh")
    return ",".join(f"{name}={value}" for name, value in values.items())


def _fabric(file: Path | str | None) -> ClusterTopology:
    from hpckit.fabric.file import choose, fabric_of_slurm, read_fabric

    if file is None:
        return choose(fabric_of_slurm(wiring.cluster_probe()), None, "Slurm")
    return choose(read_fabric(*wiring.read_capture(str(file))), None, str(file))


def _text(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


class MadeReport(NamedTuple):
    """The report, and the accounts that it is of."""

    report: JobReport
    gathered: Gathered
    store: SampleStore


def made_report(
    job_id: str | None,
    place: str | None,
    progress: Callable[[int, int], None],
    site_name: str | None = None,
    *,
    curves: bool = False,
    asking: Callable[[TrackTools], AbstractContextManager[TrackTools]] = nullcontext,
) -> MadeReport:
    """Return the report on a job, or on what is in a place. Raises HpckitError.

    `progress` hears how many nodes of how many are read; Slurm is asked inside `asking`.
    """
    asked = _of_job(job_id, asking) if place is None else of_place(Path(place))
    return report_on(asked, progress, site_name, curves=curves, is_named=place is not None)


def report_on(
    asked: Asked,
    progress: Callable[[int, int], None],
    site_name: str | None,
    *,
    curves: bool,
    is_named: bool,
) -> MadeReport:
    """Return the report on a job of which this is known. Raises HpckitError."""
    from msgspec import structs

    from hpckit.account.gather import gather
    from hpckit.account.report import ReportTools, report_of
    from hpckit.account.report_facts import not_in_an_archive
    from hpckit.jobs.local_record import placement_words

    facts, store = asked.facts, asked.store
    accounts = _accounts(asked, is_named=is_named)
    tools = ReportTools(
        store=store, fold_all=wiring.fold_all, progress=progress, slurm_energy=asked.slurm_energy
    )
    site, unread = _site(site_name, facts.folder)
    facts = structs.replace(
        facts,
        missing=(*facts.missing, *unread),
        placement=facts.folder and placement_words(Path(facts.folder), facts.array_task),
    )
    gathered = gather(store, accounts)
    report = report_of(gathered, tools, facts, site, curves=curves)
    if facts.folder is not None and not facts.is_running:
        from hpckit.account.advice.advice import with_advice_of

        report = with_advice_of(report, Path(facts.folder), wiring.job_folders())
    if asked.is_archive and facts.folder is None:
        lacks = not_in_an_archive(report, has_site=bool(site_name))
        report = structs.replace(report, missing=(*report.missing, *lacks))
    return MadeReport(report=report, gathered=gathered, store=store)


class MeasuredJob(NamedTuple):
    """What `hpckit plan --from-report` takes of a job: its effective file, log and report."""

    job: Mapping[str, Any]
    log: Sequence[str]
    gpus: int
    gpu_name: str | None
    power_w: float | None
    peak_bytes: float | None


def measured_job(job: str) -> MeasuredJob:
    """What a job measured; `job` is an id, or the folder of a job. Raises HpckitError."""
    import json

    from hpckit.jobs.logs import FileJobLogs
    from hpckit.spec.job_folder import EFFECTIVE_FILE, LogName

    place = job if Path(job).is_dir() else None
    report = made_report(None if place else job, place, lambda _done, _all: None).report
    folder = Path(place or report.job.folder or "")
    text = wiring.read_capture(str(folder / EFFECTIVE_FILE))[0]
    log = LogName(folder=folder)
    logs = FileJobLogs()
    data = b"".join(logs.read(log, 0)) if logs.size_bytes(log) else b""
    powers = [gpu.power_mean_w for gpu in report.gpus if gpu.power_mean_w is not None]
    peaks = [gpu.mem_peak_bytes for gpu in report.gpus if gpu.mem_peak_bytes is not None]
    return MeasuredJob(
        job=json.loads(text)["job"],
        log=data.decode("utf-8", errors="replace").splitlines(),
        gpus=report.job.gpus,
        gpu_name=next((gpu.name for gpu in report.gpus if gpu.name), None),
        power_w=sum(powers) / len(powers) if powers else None,
        peak_bytes=max(peaks, default=None),
    )


def component_places(job_id: str | None, place: str | None) -> Mapping[str, tuple[str, str]]:
    """Return of a heterogeneous job, or of its folder, what names each component's report.

    Component → (job id, place), one of which is empty; none for any other job.
    """
    from hpckit.jobs.local_record import component_names
    from hpckit.jobs.track import find_task
    from hpckit.spec.folder_in_job import COMPONENTS_FOLDER

    if place is not None:
        names = component_names(Path(place))
        return {name: ("", str(Path(place) / COMPONENTS_FOLDER / name)) for name in names}
    try:
        entry, _ = find_task(wiring.job_index(), job_id)
    except HpckitError:
        return {}
    names = () if entry.is_component else component_names(Path(entry.folder))
    return {name: (f"{entry.job_id}+{name}", "") for name in names}


class Asked(NamedTuple):
    """What is known of the job, where its accounts and it lie, and what reads the accounts.

    `is_archive` where a Parquet file has the accounts.
    """

    facts: JobFacts
    folder: Path
    store: SampleStore
    slurm_energy: Callable[[], SlurmEnergy] | None = None
    is_archive: bool = False


def _accounts(asked: Asked, *, is_named: bool) -> FoundAccounts:
    """Return what was kept of the job. Raises HpckitError; of a place that is named the cause."""
    from hpckit.account.report_facts import no_accounts

    facts = asked.facts
    try:
        accounts = asked.store.find(asked.folder, facts.array_task)
    except HpckitError as error:
        if is_named:
            raise
        wrong = f"the folder of job {facts.job_id}: {error}"
        raise HpckitError(wrong, hint=_MOVED) from None
    if not accounts.incarnations:
        raise no_accounts(facts, accounts, wiring.job_folders(), asked.folder)
    return accounts


def of_place(path: Path) -> Asked:
    """Return what is known of what lies in a folder or file. Raises StorageFailed."""
    from hpckit.account.report_facts import facts_of_folder, folder_of_job
    from hpckit.account.store import FileSampleStore

    is_folder = path.is_dir()
    store: SampleStore = FileSampleStore()
    if not is_folder:
        from hpckit.account.parquet.store import archive

        store = archive(path)
    folders = wiring.job_folders()
    folder = folder_of_job(path, folders) if is_folder else path.parent
    facts = facts_of_folder(folder, folders)
    return Asked(facts=facts, folder=path, store=store, is_archive=not is_folder)


def _of_job(
    job_id: str | None, asking: Callable[[TrackTools], AbstractContextManager[TrackTools]]
) -> Asked:
    from hpckit.jobs.track import find_task, job_status

    tools = wiring.track_tools()
    try:
        entry, task = find_task(tools.index, job_id)
    except NoSuchJob as error:
        if job_id is None or not os.path.isdir(job_id):  # noqa: PTH112  no error of long names
            raise
        folder = f"to read that folder: hpckit report --from {shlex.quote(job_id)}"
        raise NoSuchJob(error.message, also=folder) from None
    with asking(tools) as asked:
        return of_entry(entry, job_status(entry, asked), task)


def of_entry(entry: JobEntry, status: JobStatus, task: int | None) -> Asked:
    """Return what is known of a job, or of one task of it. Raises HpckitError."""
    from hpckit.account.report_facts import facts_of_job
    from hpckit.account.store import FileSampleStore
    from hpckit.jobs.status import status_of_task

    if task is not None:
        status = status_of_task(entry, status, task)
    # A job of this machine has no number, and tasks of an array share nodes.
    asks_slurm = task is None and not entry.parts and entry.job_id.isdecimal()
    return Asked(
        facts=facts_of_job(entry, status, task, wiring.job_folders()),
        folder=Path(entry.folder),
        store=FileSampleStore(),
        slurm_energy=partial(wiring.slurm_energies().of, entry.job_id, entry.cluster)
        if asks_slurm
        else None,
    )


def _site(name: str | None, job_folder: str | None) -> tuple[EnergySite, tuple[str, ...]]:
    """Return the site's energy factors, and a sentence where the job's own cannot be read.

    Beside accounts that are in no job's folder, another program's site.json may lie.
    """
    from hpckit.account.report_facts import energy_site
    from hpckit.spec.energy_site import EnergySite

    if name:
        from hpckit.jobs.sites import load_site

        return load_site(wiring.resources(), name).energy, ()
    if job_folder is None:
        return EnergySite(), ()
    return energy_site(Path(job_folder), wiring.job_folders())


def page_of(made: MadeReport) -> str:
    """Return the report's page of HTML, complete in itself. Raises StorageFailed, RenderError."""
    from msgspec import structs

    import hpckit
    from hpckit.account.gather import node_topologies
    from hpckit.account.page.html import PageParts, node_pictures, report_html
    from hpckit.jobs.sites import load_templates

    job = made.report.job
    commands: tuple[str, ...] = ()
    if job.job_id and job.folder:
        from hpckit.account.advice.advice import submissions

        task = "" if job.array_task is None else f"_{job.array_task}"
        folder, advice = Path(job.folder), made.report.advice
        commands = submissions(folder, wiring.job_folders(), f"{job.job_id}{task}", advice)
    topologies, unread = node_topologies(made.store, made.gathered.found)
    missing = tuple(dict.fromkeys((*made.report.missing, *unread)))
    parts = PageParts(
        texts=load_templates(wiring.resources()).texts,
        pictures=node_pictures(made.report, topologies),
        commands=commands,
        hpckit=hpckit.__version__,
    )
    report = structs.replace(made.report, missing=missing)
    return report_html(report, parts, wiring.template_cache())


def report(
    job: HpckitJob[Any] | str | int | None = None, *, place: Path | str | None = None
) -> Shown[JobReport]:
    """Return what a job used: a submitted one, that of an id, the newest; or what `place` holds.

    `place` is a job folder, a folder that `hpckit sample` wrote, or a Parquet file of a report.
    Raises HpckitError where there are no accounts.
    """
    from hpckit.account.page.screen import report_lines

    # numpy's BLAS gets small products alone: its threads would wait spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    wanted = None if job is None else str(getattr(job, "job_id", job))
    made = made_report(
        wanted, None if place is None else str(place), lambda _done, _of: None, curves=True
    )
    lines = report_lines(made.report, width=_WIDTH, next_commands=(), now_s=time.time())
    return Shown(made.report, "\n".join(lines), lambda: page_of(made))
