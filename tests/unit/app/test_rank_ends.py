"""Lives of ranks in a report: at once, begun anew, killed; all accounts are synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hpckit.adapters.account_store import FileSampleStore
from hpckit.app.report import JobFacts, ReportTools, report_of
from hpckit.model.account import JobReport
from hpckit.model.site import EnergySite
from tests.fakes.account_files import MadeJob, write_accounts


def reported(folder: Path, **facts: Any) -> JobReport:
    """The report on a folder."""
    store = FileSampleStore()
    return report_of(
        store.find(folder), ReportTools(store=store), JobFacts(**facts), EnergySite(), curves=False
    )


def ends_of(place: Path, rank: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two lines of a rank's ledger."""
    start, end = (place / f"rank-{rank}.ledger").read_text().splitlines()
    return json.loads(start), json.loads(end)


def write_ledger(place: Path, rank: int, *records: dict[str, Any]) -> None:
    """A rank's ledger of these lines."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    (place / f"rank-{rank}.ledger").write_text(text)


def test_steps_at_once_are_in_the_report(tmp_path: Path) -> None:
    """Two steps at once whose ranks have one number leave two lives, in older files as well."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start, {**start, "pid": 9}, end, end)
    report = reported(tmp_path)
    assert [(one.rank, one.ended_by) for one in report.ranks] == [(0, "ledger"), (0, "ledger")]
    assert report.missing == ()


def test_a_life_before_a_line_of_rubbish_is_in_the_report(tmp_path: Path) -> None:
    """A ledger that breaks off in rubbish keeps what stands before it, and is named."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    path = place / "rank-0.ledger"
    path.write_text(path.read_text() + "oops\n" * 2)
    report = reported(tmp_path)
    assert [one.ended_by for one in report.ranks] == ["ledger"]
    assert report.missing[0].startswith("rank-0.ledger could be read in part only: ")
