"""`hpckit report --compare A B` and `--patch`: what a report says beside another one or a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpckit.cli import output

if TYPE_CHECKING:
    from hpckit.cli.cmd_report import ReportOptions
    from hpckit.measure.compare import ComparedSide
    from hpckit.model.account import JobReport


def show_comparison(
    options: ReportOptions, wanted: tuple[str, str], progress: Callable[[int, int], None]
) -> None:
    """Print how the second job differs from the first; each is a job id or a folder.

    Raises HpckitError for one without accounts.
    """
    import shutil

    import hpckit
    from hpckit.app.compare import compare
    from hpckit.report.compare_text import comparison_document, comparison_lines

    first, second = (_side(options, side, progress) for side in wanted)
    comparison = compare(first, second)
    if options.as_json:
        output.document(comparison_document(comparison, hpckit.__version__))
        return
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    for line in comparison_lines(comparison, width=width):
        output.result(output.one_line(line))


def _side(
    options: ReportOptions, wanted: str, progress: Callable[[int, int], None]
) -> ComparedSide:
    from hpckit import wiring
    from hpckit.app.compare import side_of
    from hpckit.cli.report_made import made_report

    is_place = _is_there(wanted) and ("/" in wanted or not wanted.isdecimal())
    job_id, place = (None, wanted) if is_place else (wanted, None)
    made = made_report(dataclasses.replace(options, job_id=job_id, from_=place), progress)
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
