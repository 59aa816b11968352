"""What every JobIndex does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.jobs.track import JobIndex
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState


def key(text: str) -> str:
    """A submission's uuid, one for each text."""
    return text.encode().hex().ljust(32, "0")


def entry(
    job_id: str,
    created_s: float = 1.0,
    state: JobState = JobState.PENDING,
    *,
    submission: str | None = None,
    cluster: str | None = None,
) -> JobEntry:
    """A job of that id; without a submission of its own it has the id's."""
    return JobEntry(
        submission=key(submission or job_id),
        cluster=cluster,
        job_id=JobId(job_id),
        name="train 'é'",
        site="local",
        folder=f"/jobs/{job_id}",
        created_s=created_s,
        state=state,
    )


def ids(entries: object) -> list[str]:
    """The ids, in order."""
    assert isinstance(entries, list | tuple)
    return [found.job_id for found in entries]


def test_an_empty_index_has_no_jobs(job_index: JobIndex) -> None:
    """Before the first job, nothing is found and nothing is listed."""
    assert list(job_index.latest(None)) == []
    assert list(job_index.find("L")) == []


def test_an_added_job_is_found_as_it_was(job_index: JobIndex) -> None:
    """Every field of an entry comes back, by its whole id and by a beginning of it."""
    job_index.add(entry("L0000cafe", 1_700_000_000.125))
    assert list(job_index.find("L0000cafe")) == [entry("L0000cafe", 1_700_000_000.125)]
    assert list(job_index.find("L0000")) == [entry("L0000cafe", 1_700_000_000.125)]
    assert list(job_index.find("")) == [entry("L0000cafe", 1_700_000_000.125)]


def test_a_submission_is_recorded_once(job_index: JobIndex) -> None:
    """Adding a submission again raises StorageFailed, and the first entry stays."""
    job_index.add(entry("L1"))
    with pytest.raises(StorageFailed, match="L1 is already in the index"):
        job_index.add(entry("L1", 2.0))
    assert list(job_index.latest(None)) == [entry("L1")]


def test_two_clusters_may_use_one_id(job_index: JobIndex) -> None:
    """Jobs of the same id from two clusters are both kept, and found newest first."""
    old = entry("4242", 1.0, submission="a", cluster="west")
    new = entry("4242", 2.0, submission="b", cluster="east")
    job_index.add(new)
    job_index.add(old)
    job_index.add(entry("42424", 3.0))
    assert list(job_index.find("4242")) == [new, old]


def test_a_part_finds_its_whole_array(job_index: JobIndex) -> None:
    """The whole id of any part of a split array gives the job with its parts, a beginning none."""
    parts = tuple(JobPart(offset=at * 100, job_id=JobId(str(4242 + at))) for at in range(3))
    array = replace(entry("4242"), parts=parts)
    job_index.add(replace(entry("U1"), submission=array.submission))
    job_index.update([array])
    job_index.add(entry("42"))
    assert list(job_index.find("4244")) == [array]
    assert list(job_index.find("424")) == [array]
    assert list(job_index.find("244")) == []


def test_the_jobs_of_a_chain_are_found_in_order(job_index: JobIndex) -> None:
    """A chain's jobs come in the order in which they were submitted, and no other job."""
    for number, stage in enumerate(("prepare", "train")):
        job_index.add(replace(entry(f"{number}", float(number)), chain="c" * 32, stage=stage))
    job_index.add(entry("9"))
    found = job_index.of_chain("c" * 32)
    assert [(job.job_id, job.stage) for job in found] == [("0", "prepare"), ("1", "train")]
    assert list(job_index.of_chain("d" * 32)) == []


def test_the_newest_come_first(job_index: JobIndex) -> None:
    """Listings are newest first, those of one moment in reverse order of addition, and limited."""
    for job_id, created_s in [("La", 1.0), ("Lb", 3.0), ("Lc", 2.0), ("Ld", 2.0)]:
        job_index.add(entry(job_id, created_s))
    assert ids(job_index.latest(None)) == ["Lb", "Ld", "Lc", "La"]
    assert ids(job_index.latest(2)) == ["Lb", "Ld"]
    assert ids(job_index.latest(0)) == []
    assert ids(job_index.find("L")) == ["Lb", "Ld", "Lc", "La"]


def test_an_exact_id_wins(job_index: JobIndex) -> None:
    """An id that is also the beginning of another gives only its own job."""
    for job_id in ("123", "1234", "1235"):
        job_index.add(entry(job_id))
    assert ids(job_index.find("123")) == ["123"]
    assert sorted(ids(job_index.find("12"))) == ["123", "1234", "1235"]


@pytest.mark.parametrize("wanted", ["l1", "L%", "L_", "L*", "L?", "1", "' OR 1=1 --", "L12 "])
def test_a_prefix_is_taken_literally(job_index: JobIndex, wanted: str) -> None:
    """Case counts, and no character is a wildcard."""
    job_index.add(entry("L12"))
    assert list(job_index.find(wanted)) == []


def test_an_update_gives_a_job_its_id(job_index: JobIndex) -> None:
    """A line is known by its submission: its id and cluster change, and the old id is gone."""
    job_index.add(entry("U0000cafe", submission="s"))
    confirmed = entry("4242", submission="s", cluster="west")
    job_index.update([confirmed])
    assert list(job_index.latest(None)) == [confirmed]
    assert list(job_index.find("U0000cafe")) == []


def test_an_update_takes_many_or_none(job_index: JobIndex) -> None:
    """Several jobs change in one update, and an empty update changes nothing."""
    for job_id in ("L1", "L2", "L3"):
        job_index.add(entry(job_id))
    job_index.update([])
    failed = replace(entry("L1"), state=JobState.FAILED, exit_code=7)
    job_index.update([failed, entry("L3", state=JobState.RUNNING)])
    states = {found.job_id: (found.state, found.exit_code) for found in job_index.latest(None)}
    assert states == {"L1": ("FAILED", 7), "L2": ("PENDING", None), "L3": ("RUNNING", None)}


def test_a_removed_job_is_gone(job_index: JobIndex) -> None:
    """A job that was removed is found no more, and its submission is free again.

    To update or remove a job that is not there changes nothing.
    """
    job_index.update([entry("L9", state=JobState.FAILED)])
    job_index.remove(key("L9"))
    assert list(job_index.latest(None)) == []
    job_index.add(entry("L1"))
    job_index.remove(key("L1"))
    assert list(job_index.find("L1")) == []
    job_index.add(entry("L1"))


def test_a_rebuild_keeps_what_it_was_not_told_about(job_index: JobIndex) -> None:
    """A rebuild puts in the given entries and forgets the given submissions; other jobs stay."""
    for job_id in ("L1", "L2", "L4"):
        job_index.add(entry(job_id))
    job_index.rebuild([entry("L2", 7.0), entry("L3", 2.0), entry("L3", 5.0)], [key("L4")])
    assert list(job_index.latest(None)) == [entry("L2", 7.0), entry("L3", 5.0), entry("L1")]
    # Of jobs of one moment, those that were put in by a rebuild come first.
    job_index.add(entry("L6"))
    job_index.rebuild([entry("L1")], [])
    assert ids(job_index.latest(None)) == ["L2", "L3", "L1", "L6"]


def test_all_of_a_sound_index_can_be_read(job_index: JobIndex) -> None:
    """What can be read of a sound index is all of it, newest first, and there is no problem."""
    assert job_index.readable() == ([], None)
    array = replace(entry("4"), parts=(JobPart(offset=0, job_id=JobId("4")),), exit_code=1)
    job_index.add(array)
    job_index.add(entry("5", 2.0))
    assert job_index.readable() == ([entry("5", 2.0), array], None)
