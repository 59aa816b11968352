"""What a job folder says of a job that is reported on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpckit.adapters.job_folder import FileJobFolders
from hpckit.app.report_facts import facts_of_folder
from hpckit.model.job_folder import EFFECTIVE_FILE, INTENT_FILE


def gpus_per_node(folder: Path, asked: object) -> int | None:
    """What is known of a folder whose effective job asks for this."""
    (folder / INTENT_FILE).write_text(json.dumps({"schema": "hpckit.intent/1", "job_id": "7"}))
    document = {"job": {"resources": {"gpus_per_node": asked}}}
    (folder / EFFECTIVE_FILE).write_text(json.dumps(document))
    return facts_of_folder(folder, FileJobFolders()).gpus_per_node


def test_the_gpus_of_a_node_are_those_of_the_effective_job(tmp_path: Path) -> None:
    """The number is that of the job file with what the command line changed."""
    assert gpus_per_node(tmp_path, 8) == 8


@pytest.mark.parametrize("asked", [None, "8", True, -1, 10**9])
def test_a_number_that_cannot_be_is_none(tmp_path: Path, asked: object) -> None:
    """A folder may be anybody's, and is not believed."""
    assert gpus_per_node(tmp_path, asked) is None
