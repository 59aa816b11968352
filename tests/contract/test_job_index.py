"""What every JobIndex does."""

from __future__ import annotations

import pytest

from hpckit.errors import StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from hpckit.ports import JobIndex


def entry(job_id: str, created_s: float = 1.0, state: JobState = JobState.PENDING) -> JobEntry:
    """A job of that id."""
    return JobEntry(
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


def test_an_id_is_taken_once(job_index: JobIndex) -> None:
    """Adding an id again raises StorageFailed, and the first entry stays."""
    job_index.add(entry("L1"))
    with pytest.raises(StorageFailed, match="L1 is already in the index"):
        job_index.add(entry("L1", 2.0))
    assert list(job_index.latest(None)) == [entry("L1")]


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


def test_an_update_changes_state_and_code(job_index: JobIndex) -> None:
    """The last state and exit code seen are remembered, and other jobs stay as they were."""
    job_index.add(entry("L1"))
    job_index.add(entry("L2", 2.0))
    job_index.update(JobStatus(job_id=JobId("L1"), state=JobState.FAILED, exit_code=7))
    found = job_index.find("L1")[0]
    assert (found.state, found.exit_code) == (JobState.FAILED, 7)
    assert job_index.find("L2")[0].state is JobState.PENDING


def test_an_unknown_job_is_not_invented(job_index: JobIndex) -> None:
    """Updating or removing a job that is not there changes nothing."""
    job_index.update(JobStatus(job_id=JobId("L9"), state=JobState.FAILED))
    job_index.remove(JobId("L9"))
    assert list(job_index.latest(None)) == []


def test_a_removed_job_is_gone(job_index: JobIndex) -> None:
    """A job that was removed is found no more, and its id is free again."""
    job_index.add(entry("L1"))
    job_index.remove(JobId("L1"))
    assert list(job_index.find("L1")) == []
    job_index.add(entry("L1"))


def test_a_rebuild_keeps_what_it_was_not_told_about(job_index: JobIndex) -> None:
    """A rebuild puts in the given entries and forgets the given ids; other jobs stay."""
    for job_id in ("L1", "L2", "L4"):
        job_index.add(entry(job_id))
    job_index.rebuild([entry("L2", 7.0), entry("L3", 2.0), entry("L3", 5.0)], [JobId("L4")])
    assert list(job_index.latest(None)) == [entry("L2", 7.0), entry("L3", 5.0), entry("L1")]
