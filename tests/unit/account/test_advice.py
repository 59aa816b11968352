"""A report's advice with what lies in the job's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpckit import wiring
from hpckit.account.advice.advice import with_advice_of
from hpckit.account.values import ADVICE_SCHEMA
from hpckit.spec.job_folder import ADVICE_FILE, EFFECTIVE_FILE
from tests.fakes.reports import clean

JOB = {"schema": "hpckit.job/1", "name": "x", "command": ["a"], "resources": {"nodes": 1}}
LIMIT = {"applied": True, "key": "resources.time_limit", "proposed": "1:00"}


@pytest.mark.parametrize(
    "odd",
    [
        {"advice": 5},
        {"advice": [1]},
        {"baseline": [1]},
        {"advice": [{"applied": True}]},
        {"advice": [{**LIMIT, "saving": {"gpu_s": "some"}}], "baseline": {"gpu_s": 1}},
    ],
)
def test_a_report_does_without_the_odd_advice_of_its_folder(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    """Of a folder whose advice.json was changed there is a report, which says what is not in it."""
    (tmp_path / EFFECTIVE_FILE).write_text(json.dumps({"job": JOB}))
    (tmp_path / ADVICE_FILE).write_text(json.dumps({"schema": ADVICE_SCHEMA, **odd}))
    report = with_advice_of(clean(), tmp_path, wiring.job_folders())
    assert report.outcomes == ()
    words = "outcome of earlier advice unknown: advice.json is not hpckit advice"
    assert report.missing[-1] == words
