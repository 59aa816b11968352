"""`hpckit report`: what a job used, and what that was for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpckit.cli import output
from hpckit.cli.job_argument import job_argument
from hpckit.cli.job_options import complete_site

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.model.account import JobReport

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What `hpckit report` is asked."""

    job_id: str | None = None
    from_: str | None = None
    as_json: bool = False
    as_csv: bool = False
    as_openmetrics: bool = False
    curves: bool = False
    html: str | None = None
    parquet: str | None = None
    site: str | None = None
    patch: bool = False
    compare: tuple[str, str] | None = None


@click.command("report", epilog=_EXAMPLES)
@job_argument
@click.option(
    "--from",
    "from_",
    type=click.Path(exists=True),
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
def command(**params: Any) -> None:
    """Say what the job JOB_ID (the newest job without one) used: energy, GPUs, ranks, waste.

    During the job it says what there is so far. ID_TASK is one task of a job array: 4242_7. With
    --html or --parquet the file is written, and the screen is shown as well. The rows are
    explained in docs/howto/account-a-job.md and docs/reference/report.md of hpckit's sources.
    """
    options = ReportOptions(**params)
    _check(options)
    _keep_blas_alone()
    from hpckit.cli.report_made import made_report

    if options.compare:
        from hpckit.cli.report_compare import show_comparison

        with _progress() as progress:
            show_comparison(options, options.compare, progress)
        return
    with _progress() as progress:
        made = made_report(options, progress)
        if options.parquet:
            from hpckit.cli.report_files import write_parquet

            write_parquet(made, Path(options.parquet), progress)
    if options.html:
        from hpckit.cli.report_files import write_html

        write_html(made, Path(options.html))
    _print(made.report, options)


def _keep_blas_alone() -> None:
    """Have numpy's BLAS start no threads: it gets small products alone, and they wait spinning.

    In this process and its workers; before numpy is imported, which is when they start.
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _check(options: ReportOptions) -> None:
    printed = [word for word in _PRINTED if getattr(options, f"as_{word}")]
    printed += ["patch"] if options.patch else []
    if len(printed) > 1:
        raise click.UsageError(f"--{printed[0]} and --{printed[1]} exclude each other")
    if options.compare:
        _check_compared(options, options.compare, printed)
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
    import os

    files = {"html": options.html, "parquet": options.parquet}
    given = {word: name for word, name in files.items() if name is not None}
    for word, name in given.items():
        if not name:
            raise click.UsageError(f"--{word} needs the name of a file")
    if len({os.path.realpath(name) for name in given.values()}) < len(given):
        raise click.UsageError("--html and --parquet cannot be one file")


def _check_compared(options: ReportOptions, compared: tuple[str, str], printed: list[str]) -> None:
    """A comparison is printed on the screen or as JSON, and names its jobs itself."""
    given = [f"--{word}" for word in ("html", "parquet") if getattr(options, word)]
    given += [f"--{word}" for word in printed if word != "json"]
    given += ["--from"] if options.from_ else []
    given += ["JOB_ID"] if options.job_id else []
    if given:
        raise click.UsageError(f"--compare A B and {given[0]} exclude each other")
    if not all(compared):
        raise click.UsageError("--compare needs two jobs: an id or a folder, got nothing for one")


def _print(report: JobReport, options: ReportOptions) -> None:
    if options.patch:
        from hpckit.cli.report_compare import show_patch

        show_patch(report)
    elif options.as_json:
        import hpckit
        from hpckit.report.account_json import report_document

        output.document(report_document(report, hpckit.__version__, curves=options.curves))
    elif options.as_csv:
        from hpckit.report.account_csv import report_csv

        click.echo(report_csv(report), nl=False)
        if not report.gpus:
            output.talk("note  no GPU was measured in this job: there are no rows")
    elif options.as_openmetrics:
        from hpckit.report.account_openmetrics import report_openmetrics

        click.echo(report_openmetrics(report), nl=False)
    else:
        _show(report, options)


def _show(report: JobReport, options: ReportOptions) -> None:
    import shutil
    import time

    from hpckit.report.account_text import report_lines

    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    commands = _next(report, options)
    lines = report_lines(report, width=width, next_commands=commands, now_s=time.time())
    for line in lines:
        output.result(output.one_line(line))


def _next(report: JobReport, options: ReportOptions) -> list[str]:
    import shlex

    given = options.from_
    what = f"--from {shlex.quote(given)}" if given else report.job.job_id or ""
    if report.job.array_task is not None and not given:
        what = f"{what}_{report.job.array_task}"
    first = report.job.state in _FAILED and report.job.job_id and not given
    commands = [f"hpckit logs {what}"] if first else []
    commands += [] if options.html else [f"hpckit report {what} --html report.html"]
    if report.advice and report.job.job_id and not given:
        from hpckit import wiring
        from hpckit.app.advice import next_submission

        folder = Path(report.job.folder or ".")
        commands.append(next_submission(folder, wiring.job_folders(), what, report.advice))
    return commands


class _progress:  # noqa: N801  used as a function is
    """A line on a terminal for what takes longer than a second."""

    def __enter__(self) -> Callable[[int, int], None]:
        import time

        self._line = output.Progress()
        begun_s = time.monotonic()

        def progress(done: int, of: int) -> None:
            if time.monotonic() - begun_s >= _QUIET_S:
                self._line.show(f"{done} of {of} nodes read")

        return progress

    def __exit__(self, *_error: object) -> None:
        self._line.clear()
