"""What a job folder says of its job: it may be a copy that somebody changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.app.report import JobFacts
from hpckit.app.report_facts import facts_of_folder
from hpckit.model.job_folder import INTENT_FILE, RESULT_FILE, RESULT_SCHEMA
from hpckit.wiring import job_folders


def facts(folder: Path, result: str, name: str = "x") -> JobFacts:
    """The facts of a folder whose result has these keys."""
    (folder / INTENT_FILE).write_text(f'{{"name": "{name}", "job_id": "7"}}')
    (folder / RESULT_FILE).write_text(f'{{"schema": "{RESULT_SCHEMA}", {result}}}')
    return facts_of_folder(folder, job_folders())


def test_times_are_taken(tmp_path: Path) -> None:
    """Seconds since the epoch, whole or not."""
    found = facts(tmp_path, '"started_s": 1780000000, "ended_s": 1780000030.5')
    assert (found.started_s, found.ended_s) == (1780000000, 1780000030.5)


@pytest.mark.parametrize("raw", ["-1e300", "1e300", "NaN", "-1", "1e999", "1" + "0" * 400, "true"])
def test_times_that_no_clock_has_are_unknown(tmp_path: Path, raw: str) -> None:
    """What cannot be a time is none."""
    assert facts(tmp_path, f'"started_s": {raw}').started_s is None


def test_an_exit_code_that_no_process_has_is_unknown(tmp_path: Path) -> None:
    """Codes have 32 bits at most."""
    assert facts(tmp_path, f'"exit_code": {1 << 40}').exit_code is None
    assert facts(tmp_path, '"exit_code": 137').exit_code == 137


def test_a_name_can_be_written(tmp_path: Path) -> None:
    """Half a surrogate pair is replaced."""
    assert facts(tmp_path, '"state": "FAILED"', "a\\ud800").name == "a\ufffd"
