"""`hpckit report --from FILE` on a Parquet file: what it lacks of its job is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.account_files import MadeJob, write_accounts
from tests.fakes.cli_jobs import call, document, ended_job

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def test_what_an_archive_lacks_is_one_sentence(tmp_path: Path) -> None:
    """Away from the job folder a Parquet file tells neither the job's facts nor its site's."""
    archive = tmp_path / "a.parquet"
    write_accounts(tmp_path / "job", MadeJob(gpus=2, duration_s=60.0))
    call("report", "--from", tmp_path / "job", "--parquet", archive)
    (told,) = document("report", "--from", archive, "--json")["missing"]
    assert told.startswith("the job's name, state, exit code, limits")
    assert "use --from JOB_FOLDER, or --site NAME for the factors" in told
    (told,) = document("report", "--from", archive, "--json", "--site", "local")["missing"]
    assert told.endswith("limits and request: not in a Parquet file; use --from JOB_FOLDER")


def test_an_archive_in_its_job_folder_lacks_nothing() -> None:
    """Beside intent.json and site.json a Parquet file is reported on as the folder is."""
    job = ended_job()
    write_accounts(job.folder, MadeJob(gpus=1, duration_s=10.0))
    site = json.loads((job.folder / "site.json").read_text())
    (job.folder / "site.json").write_text(json.dumps({**site, "energy": {"pue": 1.5}}))
    archive = job.folder / "a.parquet"
    call("report", "--from", job.folder, "--parquet", archive)
    found = document("report", "--from", archive, "--json")
    whole = document("report", "--from", job.folder, "--json")
    assert (found["job"], found["missing"]) == (whole["job"], whole["missing"])
    assert found["cost"]["pue"] == 1.5
