"""`hpckit report`: what a job used, and what that was for."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
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
    from hpckit.api import MadeReport


_PRINTED = ("json", "csv", "openmetrics")
_QUIET_S = 1.0
_FAILED = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
"""States after which the logs say more than the account."""

_EXAMPLES = """\b
Examples:
  hpckit report 4242 --html report.html
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
    help="Report on this job folder, its account/, a folder that `hpckit sample` wrote, or a file "
    "of --parquet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each GPU and incarnation.")
@click.option("--openmetrics", "as_openmetrics", is_flag=True, help="Print OpenMetrics text.")
@click.option("--curves", is_flag=True, help="With --json: curves over time as well.")
@click.option(
    "--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write one page with plots."
)
@click.option(
    "--parquet",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write all samples as Parquet; needs pyarrow (hpckit's extra `parquet`).",
)
@click.option(
    "--site",
    shell_complete=complete_site,
    help="Take the energy factors of this site; those of the job's own unless said.",
)
@click.option(
    "--patch",
    is_flag=True,
    help="Print the advice as a patch, for `patch FILE`; FILE is the job file.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Compare two jobs by intervals over their samples. Each is an id, a job folder or a "
    "folder that `hpckit sample` wrote.",
)
def report_command(**params: Any) -> None:
    """Say what the job JOB_ID (the newest job without one) used: energy, GPUs, ranks, waste.

    During the job it says what there is so far. ID_TASK is one task of a job array: 4242_7;
    ID+COMPONENT a component of a heterogeneous job, 4242+trainer. With
    --html or --parquet the file is written, and the screen is shown as well. The rows are
    explained in docs/howto/account-a-job.md and docs/reference/report.md of hpckit's sources.
    """
    options = ReportOptions(**params)
    _check(options)
    # numpy's BLAS gets small products alone: its threads would wait spinning. In this process and
    # its workers, and before numpy is imported, which is when they start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from hpckit.api import component_places, made_report

    if options.compare:
        with _progress() as progress:
            show_comparison(options, options.compare, progress)
        return
    if places := component_places(options.job_id, options.from_):
        _show_components(options, places)
        return
    with _progress() as progress:
        curves = bool(options.curves or options.html)
        made = made_report(
            options.job_id, options.from_, progress, options.site, curves=curves, asking=asking
        )
        if options.parquet:
            write_parquet(made, Path(options.parquet), progress)
    if options.html:
        write_html(made, Path(options.html))
    _print(made.report, options)


def _show_components(options: ReportOptions, places: Mapping[str, tuple[str, str]]) -> None:
    """Print what each component of a heterogeneous job used, or all their reports as JSON."""
    from hpckit.account.page.exports import report_document
    from hpckit.account.page.screen import component_lines
    from hpckit.api import made_report

    named = {
        name: job_id or f"--from {shlex.quote(place)}" for name, (job_id, place) in places.items()
    }
    first = next(iter(named.values()))
    if options.html or options.parquet or options.as_csv or options.as_openmetrics or options.patch:
        reason = "this is a heterogeneous job, of which each component has a report of its own"
        raise HpckitError(reason, hint=f"hpckit report {first} …")
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
        documents = {
            name: report_document(report, hpckit.__version__, curves=options.curves)
            for name, report in reports.items()
        }
        output.document({"schema": "hpckit.component-reports/1", "components": documents})
        return
    width = output.screen_width(100)
    commands = [f"hpckit report {words}" for words in named.values()]
    for line in component_lines(reports, width=width, next_commands=commands, now_s=time.time()):
        output.result(output.one_line(line))


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

        click.echo(report_csv(report), nl=False)
        if not report.gpus:
            output.talk("note  no GPU was measured in this job: there are no rows")
    elif options.as_openmetrics:
        from hpckit.account.page.exports import report_openmetrics

        click.echo(report_openmetrics(report), nl=False)
    else:
        _show(report, options)


def _show(report: JobReport, options: ReportOptions) -> None:
    from hpckit.account.page.screen import report_lines

    width = output.screen_width(100)
    commands = _next(report, options)
    lines = report_lines(report, width=width, next_commands=commands, now_s=time.time())
    for line in lines:
        output.result(output.one_line(line))


def _next(report: JobReport, options: ReportOptions) -> list[str]:
    given = options.from_
    what = f"--from {shlex.quote(given)}" if given else report.job.job_id or ""
    if report.job.array_task is not None and not given:
        what = f"{what}_{report.job.array_task}"
    first = report.job.state in _FAILED and report.job.job_id and not given
    commands = [f"hpckit logs {what}"] if first else []
    commands += [] if options.html else [f"hpckit report {what} --html report.html"]
    if report.advice and report.job.job_id and not given:
        from hpckit.account.advice.advice import next_submission

        folder = Path(report.job.folder or ".")
        commands.append(next_submission(folder, wiring.job_folders(), what, report.advice))
    return commands


class _progress:  # noqa: N801  used as a function is
    """A line on a terminal for what takes longer than a second."""

    def __enter__(self) -> Callable[[int, int], None]:
        self._line = output.Progress()
        begun_s = time.monotonic()

        def progress(done: int, of: int) -> None:
            if time.monotonic() - begun_s >= _QUIET_S:
                self._line.show(f"{done} of {of} nodes read")

        return progress

    def __exit__(self, *_error: object) -> None:
        self._line.clear()


def show_comparison(
    options: ReportOptions, wanted: tuple[str, str], progress: Callable[[int, int], None]
) -> None:
    """Print how the second job differs from the first; each is a job id or a folder.

    Raises HpckitError for one without accounts.
    """
    from hpckit.account.compare.compare import compare_reports as compare
    from hpckit.account.compare.show import comparison_document, comparison_lines

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
        click.echo(report.advice_patch, nl=False)
    elif report.advice:
        output.talk(f" no patch of a job file: hpckit submit {report.advice_options} …")
    else:
        output.talk(" no advice")


def write_parquet(made: MadeReport, path: Path, progress: Callable[[int, int], None]) -> None:
    """Write all samples, and say where. Raises StorageFailed, ToolMissing."""
    from hpckit.account.parquet.archive import archive

    samples, size_bytes = archive(made.gathered, made.store, path, progress)
    each = f", {size_bytes / samples:.0f} bytes each" if samples else ""
    output.talk(f"wrote {_name(path)}: {samples:,} GPU samples{each}")


def write_html(made: MadeReport, path: Path) -> None:
    """Write the page, and say where. Raises StorageFailed, RenderError."""
    from hpckit.account.page.bokeh import bokeh_plots
    from hpckit.api import page_of
    from hpckit.core.files import whole_file

    plots = bokeh_plots()
    page = page_of(made, plots).encode()
    with whole_file(path) as file:
        file.write(page)
    output.talk(f"wrote {_name(path)}: {len(page) / 1e6:.1f} MB, complete in itself")
    if plots.because:
        output.talk(f"note  its plots are drawings without zoom: {plots.because}")


def _name(path: Path) -> str:
    """The file's name on one line: a terminal is not steered by it."""
    return output.one_line(str(path))
