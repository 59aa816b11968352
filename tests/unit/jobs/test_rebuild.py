"""The index is filled again from the job folders."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.jobs.track import rebuild
from hpckit.slurm.values import JobEntry, JobId, JobState
from hpckit.spec.job_folder import RESULT_FILE, RESULT_SCHEMA
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.tracked import RUNS, UNSEEN, ToldSubmitter, intended, running
from tests.fakes.world import entry_of, tracking


class _DamagedIndex(TemporaryJobIndex):
    """An index that cannot be listed."""

    def readable(self) -> tuple[list[JobEntry], str | None]:
        """Give nothing."""
        return [], "the index is damaged"


def test_a_rebuilt_index_keeps_finds_and_forgets(tmp_path: Path) -> None:
    """Rebuilding finds folders, forgets jobs without one, and keeps jobs under other roots."""
    index, submitter = TemporaryJobIndex(), FakeSubmitter()
    running(submitter, tmp_path / "root" / "a")
    submitter.end(tmp_path / "root" / "a", 4)
    elsewhere = running(submitter, tmp_path / "other" / "b", "Lbb")
    index.add(elsewhere)
    index.add(entry_of("Lgone", tmp_path / "root" / "gone"))
    count, wrong = rebuild(tracking(submitter, index), [tmp_path / "root"])
    assert (count, wrong) == (1, ())
    jobs = {entry.job_id: entry for entry in index.latest(None)}
    assert set(jobs) == {"Laa", "Lbb"}
    found = jobs[JobId("Laa")]
    assert (found.state, found.exit_code, found.created_s) == (JobState.FAILED, 4, 5.0)


def test_a_rebuild_knows_the_schedulers_id(tmp_path: Path) -> None:
    """Id and cluster come from submitted.json; the submission and all else from intent.json."""
    entry = entry_of("U0000cafe", tmp_path / "a")
    intended(entry)
    (tmp_path / "a" / "submitted.json").write_text('{"job_id": "4242", "cluster": "west"}')
    index = TemporaryJobIndex()
    rebuild(tracking(ToldSubmitter(replace(RUNS, cluster="west")), index), [tmp_path])
    assert index.latest(None) == [
        replace(entry, job_id=JobId("4242"), cluster="west", state=JobState.RUNNING)
    ]


@pytest.mark.parametrize("submitted", [None, "{", '{"job_id": "U0000cafe", "cluster": null}'])
def test_a_job_without_a_confirmed_id_is_rebuilt_as_such(
    tmp_path: Path, submitted: str | None
) -> None:
    """A folder without a readable submitted.json gives the id of the intent."""
    entry = entry_of("U0000cafe", tmp_path / "a")
    intended(entry)
    if submitted is not None:
        (tmp_path / "a" / "submitted.json").write_text(submitted)
    index = TemporaryJobIndex()
    rebuild(tracking(ToldSubmitter(replace(UNSEEN, job_id=entry.job_id)), index), [tmp_path])
    assert index.latest(None) == [entry]


KEYS = {"uuid": "a" * 32, "job_id": "L1", "name": "n", "site": "s", "created_s": 1}


@pytest.mark.parametrize(
    "intent",
    [
        "{",
        "[]",
        "{}",
        json.dumps({**KEYS, "created_s": "soon"}),
        "[" * 100_000,
    ],
)
def test_a_folder_that_cannot_be_read_is_left_out_and_named(tmp_path: Path, intent: str) -> None:
    """A damaged intent.json costs its own job alone, and the folder is named with the cause."""
    submitter = FakeSubmitter()
    running(submitter, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "intent.json").write_text(intent)
    count, wrong = rebuild(tracking(submitter), [tmp_path])
    assert count == 1
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{tmp_path / 'b'}: ")


def test_what_cannot_be_a_record_costs_its_own_folder(tmp_path: Path) -> None:
    """A link to itself, a FIFO and a device instead of intent.json neither hang nor hide a job."""
    submitter = FakeSubmitter()
    running(submitter, tmp_path / "a")
    for name in ("loop", "fifo", "device"):
        (tmp_path / name).mkdir()
    (tmp_path / "loop" / "intent.json").symlink_to("intent.json")
    os.mkfifo(tmp_path / "fifo" / "intent.json")
    (tmp_path / "device" / "intent.json").symlink_to("/dev/zero")
    count, wrong = rebuild(tracking(submitter), [tmp_path])
    assert (count, len(wrong)) == (1, 3)


def test_a_folder_whose_name_is_no_text_is_left_out(tmp_path: Path) -> None:
    """The index holds text: a folder that somebody gave other bytes for a name is told."""
    entry = entry_of("4242", tmp_path / "\udcff\udcfe")
    intended(entry)
    count, wrong = rebuild(tracking(ToldSubmitter(UNSEEN)), [tmp_path])
    assert (count, len(wrong)) == (0, 1)


def test_an_unknown_state_is_not_taken_for_news(tmp_path: Path) -> None:
    """A job of which nobody knows more than its folder is rebuilt as pending."""
    entry = running(FakeSubmitter(), tmp_path / "a", "4242")
    index = TemporaryJobIndex()
    rebuild(tracking(ToldSubmitter(UNSEEN), index), [tmp_path])
    assert index.latest(None) == [entry]
    assert entry.state is JobState.PENDING


def test_an_index_that_cannot_be_listed_is_rebuilt(tmp_path: Path) -> None:
    """With a damaged index nothing is known to be gone, and the folders are found all the same."""
    submitter, index = FakeSubmitter(), _DamagedIndex()
    running(submitter, tmp_path / "a")
    assert rebuild(tracking(submitter, index), [tmp_path])[0] == 1


def test_a_rebuild_keeps_what_is_known_of_an_end(tmp_path: Path) -> None:
    """What the index knows of an ended job stays, and nobody is asked: Slurm may have forgotten."""
    entry = entry_of("4242", tmp_path / "a", JobState.CANCELLED, exit_code=143)
    intended(entry)
    index, submitter = TemporaryJobIndex(), ToldSubmitter(UNSEEN)
    index.add(entry)
    rebuild(tracking(submitter, index), [tmp_path])
    assert [(one.state, one.exit_code) for one in index.latest(None)] == [(JobState.CANCELLED, 143)]
    assert not submitter.asked


def test_a_living_slurm_job_without_a_folder_is_kept(tmp_path: Path) -> None:
    """A job on Slurm that has not ended stays in the index, so that it can be cancelled."""
    index = TemporaryJobIndex()
    index.add(entry_of("4242", tmp_path / "gone", JobState.RUNNING))
    rebuild(tracking(ToldSubmitter(RUNS), index), [tmp_path])
    assert [entry.job_id for entry in index.latest(None)] == ["4242"]


def test_a_rebuild_takes_the_code_of_an_end_from_the_folder(tmp_path: Path) -> None:
    """Of a job that the index knows to have ended, without its code, the folder gives the code."""
    index, submitter = TemporaryJobIndex(), FakeSubmitter()
    entry = running(submitter, tmp_path / "a")
    index.add(replace(entry, state=JobState.FAILED))
    end = {"schema": RESULT_SCHEMA, "job_id": entry.job_id, "state": "FAILED", "exit_code": 4}
    (tmp_path / "a" / RESULT_FILE).write_text(json.dumps(end))
    rebuild(tracking(submitter, index), [tmp_path])
    assert [(one.state, one.exit_code) for one in index.latest(None)] == [(JobState.FAILED, 4)]
