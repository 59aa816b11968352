"""`hpckit report`: what a job used, and what that was for."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import asking, complete_site, job_argument
from hpckit.core.errors import HpckitError

if TYPE_CHECKING:
    from hpckit.account.compare.compare import ComparedSide
    from hpckit.account.values import JobReport
    from hpckit.api import Asked, MadeReport
    from hpckit.core.text import Line
    from hpckit.jobs.chain import StageStatus


_PRINTED = ("json", "csv", "openmetrics", "svg")
_QUIET_S = 1.0
_FAILED = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
"""States after which the logs say more than the account."""
_AGAIN = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE"})
"""States that are no fault of the job, which may run as it is."""

_EXAMPLES = """\b
Examples:
  hpckit report 4242 --html report.html
  hpckit report 4242 --svg > node.svg
  hpckit report --patch 4242 | patch job.toml
  hpckit report --compare 4242 4243
  hpckit report --compare run1 run2
"""


class ReportOptions(SimpleNamespace):
    """What `hpckit report` is asked."""

    job_id: str | None
    from_: str | None
    as_json: bool
    as_csv: bool
    as_openmetrics: bool
    as_svg: bool
    node: str | None
    curves: bool
    html: str | None
    parquet: str | None
    site: str | None
    patch: bool
    compare: tuple[str, str] | None


@click.command("report", epilog=_EXAMPLES)
@job_argument
@click.option(
    "--from",
    "from_",
    type=output.SeenPath(exists=True),
    metavar="PATH",
    help="Report on a job folder, its account/, a folder of `hpckit sample`, or a file of "
    "--parquet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one row per GPU and attempt.")
@click.option("--openmetrics", "as_openmetrics", is_flag=True, help="Print OpenMetrics text.")
@click.option(
    "--svg", "as_svg", is_flag=True, help="Print a picture of a node: its GPUs and ranks."
)
@click.option(
    "--node",
    metavar="NAME",
    help="With --svg: the node. [default: the one with the gravest finding]",
)
@click.option("--curves", is_flag=True, help="With --json: add curves over time.")
@click.option(
    "--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page with plots."
)
@click.option(
    "--parquet",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write all samples as Parquet (needs pyarrow: the extra `parquet`).",
)
@click.option(
    "--site",
    shell_complete=complete_site,
    help="Energy factors of this site. [default: the job's site]",
)
@click.option(
    "--patch",
    is_flag=True,
    help="Print the advice as a patch of the job file.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Compare two jobs, with confidence intervals. A and B: job ids, job folders or folders of "
    "`hpckit sample`.",
)
def report_command(**params: Any) -> None:
    """Report GPU time, energy, stragglers and waste of JOB_ID (default: the newest job).

    A running job is reported so far. 4242_7 is one task of a job array, 4242 all of them together;
    4242+trainer is one component of a heterogeneous job. docs/reference/report.md explains each
    row.
    """
    options = ReportOptions(**params)
    _check(options)
    # numpy's BLAS gets small products alone: its threads would wait spinning. In this process and
    # its workers, and before numpy is imported, which is when they start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from hpckit.api import component_places, made_report

    if options.compare:
        show_comparison(options, options.compare)
        return
    if places := component_places(options.job_id, options.from_):
        _show_components(options, places)
        return
    if reports := _task_reports(options):
        _show_array(options, reports)
        return
    with _progress() as progress, _stage_that_failed(options):
        curves = bool(options.curves or options.html)
        made = made_report(
            options.job_id, options.from_, progress, options.site, curves=curves, asking=asking
        )
    if options.parquet:
        write_parquet(made, Path(options.parquet))
    if options.html:
        write_html(made, Path(options.html))
    if options.as_svg:
        output.as_file(node_picture(made, options.node))
        return
    _print(made.report, options)


def node_picture(made: MadeReport, node: str | None) -> str:
    """A node of the job as SVG; what cannot be read of its topology is told on stderr."""
    from hpckit.account.gather import node_topologies
    from hpckit.account.page.job_on_node import job_nodes, node_of_job_svg

    chosen = node or next(iter(job_nodes(made.report)), None)
    wanted = None if chosen is None else {chosen}
    topologies, unread = node_topologies(made.store, made.gathered.found, wanted)
    for sentence in unread:
        output.talk(f"note  {sentence}")
    return node_of_job_svg(made.report, topologies, chosen)


@contextmanager
def _stage_that_failed(options: ReportOptions) -> Iterator[None]:
    """Lead from a stage of a chain that has no report to the stage that stopped the chain."""
    try:
        yield
    except HpckitError as error:
        stopper = None if options.from_ is not None else _stopper(options.job_id)
        if stopper is None:
            raise
        stage, status = stopper
        reason = f"the chain stopped at {stage.stage} ({status.job_id}): {status.state}"
        command = f"hpckit report {status.job_id}"
        raise HpckitError(f"{error.message}; {reason}", hint=command) from error


def _stopper(job_id: str | None) -> StageStatus | None:
    """The stage that stopped the chain of a job, where that is another one."""
    from hpckit.jobs.chain import chain_status, stopped_by
    from hpckit.jobs.track import find_task

    tools = wiring.track_tools()
    try:
        entry, _ = find_task(tools.index, job_id)
    except HpckitError:
        return None
    if entry.chain is None:
        return None
    with asking(tools) as asked:
        stopper = stopped_by(chain_status(entry, asked).stages)
    return None if stopper and stopper[0].submission == entry.submission else stopper


def _show_components(options: ReportOptions, places: Mapping[str, tuple[str, str]]) -> None:
    """Print what each component of a heterogeneous job used, or all their reports as JSON."""
    from hpckit.account.page.screen import component_lines
    from hpckit.api import made_report

    named = {
        name: job_id or f"--from {shlex.quote(place)}" for name, (job_id, place) in places.items()
    }
    _refuse_parts(options, "a heterogeneous job: each component", next(iter(named.values())))
    with _progress() as progress:
        reports = {
            name: made_report(
                job_id or None,
                place or None,
                progress,
                options.site,
                curves=options.curves,
                asking=asking,
            ).report
            for name, (job_id, place) in places.items()
        }
    if options.as_json:
        _print_parts(reports, options, "component")
        return
    width = output.screen_width(100)
    commands = [f"hpckit report {words}" for words in named.values()]
    for line in component_lines(reports, width=width, next_commands=commands, now_s=time.time()):
        output.result(output.one_line(line))


def _task_reports(options: ReportOptions) -> Mapping[int, JobReport]:
    """Return the reports on the tasks of a whole array; none of any other job."""
    from hpckit.api import report_on

    reports: dict[int, JobReport] = {}
    with _progress("tasks") as progress:
        asked_of = _of_tasks(options)
        for task, asked in asked_of.items():
            progress(len(reports), len(asked_of))
            made = report_on(
                asked, lambda _done, _of: None, options.site, curves=options.curves, is_named=True
            )
            reports[task] = made.report
    return reports


def _of_tasks(options: ReportOptions) -> Mapping[int, Asked]:
    """Return what is known of each measured task of a whole array; Slurm is asked once."""
    from hpckit.account.store import array_tasks
    from hpckit.api import of_entry, of_place
    from hpckit.jobs.track import find_task, job_status

    if options.from_ is not None:
        return {task: of_place(place) for task, place in array_tasks(Path(options.from_)).items()}
    tools = wiring.track_tools()
    try:
        entry, task = find_task(tools.index, options.job_id)
    except HpckitError:
        return {}  # the report on the job says why
    tasks = () if task is not None else array_tasks(Path(entry.folder))
    if not tasks:
        return {}
    with asking(tools) as asked:
        status = job_status(entry, asked)
    return {one: of_entry(entry, status, one) for one in tasks}


def _show_array(options: ReportOptions, reports: Mapping[int, JobReport]) -> None:
    """Print what the tasks of an array used together, or all their reports as JSON."""
    from hpckit.account.page.array import array_lines

    first, job_id = next(iter(reports)), next(iter(reports.values())).job.job_id
    one = f"{job_id}_{first}" if options.from_ is None else "--from …/array-N"
    _refuse_parts(options, "a job array: each task", one)
    if options.as_json:
        _print_parts({str(task): report for task, report in reports.items()}, options, "task")
        return
    width = output.screen_width(100)
    for line in array_lines(reports, width=width, next_commands=[f"hpckit report {one}"]):
        output.result(output.one_line(line))


def _refuse_parts(options: ReportOptions, what: str, first: str) -> None:
    """Raise HpckitError for what there is only of one part of a job."""
    files = (options.html, options.parquet, options.as_svg)
    if any(files) or options.as_csv or options.as_openmetrics or options.patch:
        raise HpckitError(f"this is {what} has its own report", hint=f"hpckit report {first} …")


def _print_parts(reports: Mapping[str, JobReport], options: ReportOptions, what: str) -> None:
    from hpckit.account.page.exports import report_document

    documents = {
        name: report_document(report, hpckit.__version__, curves=options.curves)
        for name, report in reports.items()
    }
    output.document({"schema": f"hpckit.{what}-reports/1", f"{what}s": documents})


def _check(options: ReportOptions) -> None:
    printed = [word for word in _PRINTED if getattr(options, f"as_{word}")]
    printed += ["patch"] if options.patch else []
    if len(printed) > 1:
        raise click.UsageError(f"--{printed[0]} and --{printed[1]} exclude each other")
    if options.compare:
        _check_compared(options, printed)
    _check_stray(options, printed)
    if options.curves and not options.as_json:
        raise click.UsageError("--curves is for --json alone")
    if options.node is not None and not options.as_svg:
        raise click.UsageError("--node is for --svg alone")
    if options.from_ and options.job_id:
        raise click.UsageError("JOB_ID and --from exclude each other")
    _check_files(options)


def _check_stray(options: ReportOptions, printed: list[str]) -> None:
    """Refuse a file's name behind an option that prints: it is read as a JOB_ID."""
    name = options.job_id or ""
    if printed and Path(name).suffix[1:].isalpha() and ";" not in name:
        message = (
            f"--{printed[0]} takes no file, it prints: --{printed[0]} > {shlex.quote(name)} "
            f"({name} was read as JOB_ID)"
        )
        raise click.UsageError(output.visible(message))


def _check_files(options: ReportOptions) -> None:
    files = {"html": options.html, "parquet": options.parquet}
    given = {word: name for word, name in files.items() if name is not None}
    for word, name in given.items():
        if not name:
            raise click.UsageError(f"--{word} needs the name of a file")
    if len({os.path.realpath(name) for name in given.values()}) < len(given):
        raise click.UsageError("--html and --parquet cannot be one file")


def _check_compared(options: ReportOptions, printed: list[str]) -> None:
    """A comparison is printed on the screen or as JSON, and names its jobs itself."""
    given = [f"--{word}" for word in ("html", "parquet") if getattr(options, word)]
    given += [f"--{word}" for word in printed if word != "json"]
    given += ["--from"] if options.from_ else []
    given += ["JOB_ID"] if options.job_id else []
    if given:
        raise click.UsageError(f"--compare A B and {given[0]} exclude each other")
    if not all(options.compare or ()):
        raise click.UsageError("--compare needs two jobs: an id or a folder, got nothing for one")


def _print(report: JobReport, options: ReportOptions) -> None:
    if options.patch:
        show_patch(report)
    elif options.as_json:
        from hpckit.account.page.exports import report_document

        output.document(report_document(report, hpckit.__version__, curves=options.curves))
    elif options.as_csv:
        from hpckit.account.page.exports import report_csv

        output.as_file(report_csv(report))
        if not report.gpus:
            output.talk("note  no GPU was measured in this job: there are no rows")
    elif options.as_openmetrics:
        from hpckit.account.page.exports import report_openmetrics

        output.as_file(report_openmetrics(report))
    else:
        _show(report, options)


def _show(report: JobReport, options: ReportOptions) -> None:
    from hpckit.account.page.screen import report_lines

    width = output.screen_width(100)
    commands = _next(report, options)
    lines = report_lines(report, width=width, next_commands=commands, now_s=time.time())
    output.say(_styled(map(output.one_line, lines)))


def _styled(lines: Iterable[str]) -> Iterator[Line]:
    """Yield the lines of a screen with the style of their row: of what a finding is, above all."""
    from hpckit.core.text import Line, Style

    styles = {"warn": Style.WARNING, "error": Style.ERROR, "note": Style.NOTE, "next": Style.FAINT}
    style = Style.TITLE
    for at, line in enumerate(lines):
        if label := line[1:10].strip():
            style = styles.get(label, Style.PLAIN) if at else Style.TITLE
        yield Line(text=line, style=style)


def _next(report: JobReport, options: ReportOptions) -> list[str]:
    given = options.from_
    what = f"--from {shlex.quote(given)}" if given else report.job.job_id or ""
    if report.job.array_task is not None and not given:
        what = f"{what}_{report.job.array_task}"
    first = report.job.state in _FAILED and report.job.job_id and not given
    commands = [f"hpckit logs {what}"] if first else []
    again = report.job.state in _AGAIN and report.job.job_id and not given
    commands += [f"hpckit submit --again {report.job.job_id}"] if again else []
    commands += [] if options.html else [f"hpckit report {what} --html report.html"]
    if report.advice and report.job.job_id and not given:
        from hpckit.account.advice.advice import next_submission

        folder = Path(report.job.folder or ".")
        commands.append(next_submission(folder, wiring.job_folders(), what, report.advice))
    return commands


class _progress:  # noqa: N801  used as a function is
    """A line on a terminal for what takes longer than a second."""

    def __init__(self, what: str = "nodes") -> None:
        self._what = what

    def __enter__(self) -> Callable[[int, int], None]:
        self._line = output.Progress()
        begun_s = time.monotonic()

        def progress(done: int, of: int) -> None:
            if time.monotonic() - begun_s >= _QUIET_S:
                self._line.show(f"{done} of {of} {self._what} read")

        return progress

    def __exit__(self, *_error: object) -> None:
        self._line.clear()


def show_comparison(options: ReportOptions, wanted: tuple[str, str]) -> None:
    """Print how the second job differs from the first; each is a job id or a folder.

    Raises HpckitError for one without accounts.
    """
    from hpckit.account.compare.compare import compare_reports as compare
    from hpckit.account.compare.show import comparison_document, comparison_lines

    with _progress() as progress:
        first, second = (_side(options, side, progress) for side in wanted)
        comparison = compare(first, second)
    if options.as_json:
        output.document(comparison_document(comparison, hpckit.__version__))
        return
    width = output.screen_width(100)
    for line in comparison_lines(comparison, width=width):
        output.result(output.one_line(line))


def _side(
    options: ReportOptions, wanted: str, progress: Callable[[int, int], None]
) -> ComparedSide:
    from hpckit.account.compare.compare import side_of
    from hpckit.api import made_report

    is_place = _is_there(wanted) and ("/" in wanted or not wanted.isdecimal())
    job_id, place = (None, wanted) if is_place else (wanted, None)
    made = made_report(job_id, place, progress, options.site, curves=options.curves, asking=asking)
    return side_of(made.report, made.gathered, made.store, wiring.job_folders())


def _is_there(wanted: str) -> bool:
    """Whether a path can be seen: what is too long, or lies where one may not look, cannot."""
    try:
        return Path(wanted).exists()
    except OSError:
        return False


def show_patch(report: JobReport) -> None:
    """The advice as a unified diff on stdout, for patch(1); else as options, on stderr."""
    if report.advice_patch:
        output.as_file(report.advice_patch)
    elif report.advice:
        output.talk(f" no patch of a job file: hpckit submit {report.advice_options} …")
    else:
        output.talk(" no advice")


def write_parquet(made: MadeReport, path: Path) -> None:
    """Write all samples, and say where. Raises StorageFailed, ToolMissing."""
    from hpckit.account.parquet.archive import archive

    with _progress() as progress:
        samples, size_bytes = archive(made.gathered, made.store, path, progress)
    each = f", {size_bytes / samples:.0f} bytes each" if samples else ""
    output.talk(f"wrote {_name(path)}: {samples:,} GPU samples{each}")


def write_html(made: MadeReport, path: Path) -> None:
    """Write the page, and say where. Raises StorageFailed, RenderError."""
    from hpckit.api import page_of
    from hpckit.core.files import whole_file
    from hpckit.core.units import short_bytes

    page = page_of(made).encode()
    with whole_file(path) as file:
        file.write(page)
    output.talk(f"wrote {_name(path)}: {short_bytes(len(page))}, complete in itself")


def _name(path: Path) -> str:
    """The file's name on one line: a terminal is not steered by it."""
    return output.one_line(str(path))
