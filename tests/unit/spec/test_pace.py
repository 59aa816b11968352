"""How a submitted job is followed, as its folder remembers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ConfigError, StorageFailed
from hpckit.jobs.submit import submit
from hpckit.spec.pace import SitePace, recorded_pace
from hpckit.spec.site import generic_site
from hpckit.spec.store import FileJobFolders
from tests.fakes.prepared import prepared
from tests.fakes.world import World, caller_in, entry_of


def test_a_job_remembers_the_pace_of_its_site(tmp_path: Path) -> None:
    """How a job is followed comes back from its folder as it was, whatever the site is today."""
    job = prepared(None, site="local", command=("true",))
    submission = submit(job, caller_in(tmp_path), World().tools())
    pace = recorded_pace(submission.entry, FileJobFolders())
    assert pace._asdict() == {name: getattr(job.site, name) for name in SitePace._fields}


def test_a_job_whose_folder_is_gone_has_no_pace(tmp_path: Path) -> None:
    """A folder that is gone is named, with the command that forgets such jobs."""
    with pytest.raises(StorageFailed, match="the folder of La is gone: /") as raised:
        recorded_pace(entry_of("La", tmp_path / "gone"), FileJobFolders())
    assert raised.value.hint == "hpckit jobs --rebuild removes jobs without a folder from the index"


def test_a_slurm_job_goes_on_without_its_folder(tmp_path: Path) -> None:
    """A job with a number is Slurm's: without its folder its pace is the generic site's."""
    pace = recorded_pace(entry_of("4242", tmp_path / "gone"), FileJobFolders())
    assert pace == tuple(getattr(generic_site(), name) for name in SitePace._fields)


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ('{"name": 3}', "submitter: is missing"),
        ('{"submitter": "pbs"}', "submitter: got 'pbs'"),
        ('{"submitter": "slurm", "poll_interval_s": null}', "poll_interval_s: got None"),
    ],
)
def test_a_job_whose_site_cannot_be_read_is_said(tmp_path: Path, site: str, told: str) -> None:
    """A site.json that holds no site is an error with its path, the key and what was got."""
    (tmp_path / "site.json").write_text(site)
    with pytest.raises(ConfigError) as raised:
        recorded_pace(entry_of("La", tmp_path), FileJobFolders())
    assert str(tmp_path / "site.json") in str(raised.value)
    assert told in str(raised.value)
