"""The index of jobs: found, listed, changed, and what becomes of it when something fails."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.jobs.index import SqliteJobIndex
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState

ADD_MANY = """
import sys
from dataclasses import replace
from pathlib import Path
from hpckit.jobs.index import SqliteJobIndex
from hpckit.slurm.values import JobEntry, JobId, JobState
index = SqliteJobIndex(Path(sys.argv[1]))
for n in range(50):
    index.add(JobEntry(submission=f"{sys.argv[2]}-{n}", job_id=JobId("L1"), name="n", site="s",
                       folder="/f", created_s=float(n), state=JobState.PENDING))
"""

PAGE_BYTES = 4096  # SQLite's, unless said


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


def run_sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What the last of these statements gives."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the index will be: a path with characters that a URI would need quoted."""
    return tmp_path / "state ?#%41" / "hpckit" / "jobs.sqlite"


@pytest.fixture
def job_index(path: Path) -> SqliteJobIndex:
    """An empty index."""
    return SqliteJobIndex(path)


def test_an_added_job_is_found_as_it_was(job_index: SqliteJobIndex) -> None:
    """Every field of an entry comes back, by its whole id and by a beginning of it."""
    job_index.add(entry("L0000cafe", 1_700_000_000.125))
    assert list(job_index.find("L0000cafe")) == [entry("L0000cafe", 1_700_000_000.125)]
    assert list(job_index.find("L0000")) == [entry("L0000cafe", 1_700_000_000.125)]
    assert list(job_index.find("")) == [entry("L0000cafe", 1_700_000_000.125)]


def test_a_submission_is_recorded_once(job_index: SqliteJobIndex) -> None:
    """Adding a submission again raises StorageFailed, and the first entry stays."""
    job_index.add(entry("L1"))
    with pytest.raises(StorageFailed, match="L1 is already in the job index"):
        job_index.add(entry("L1", 2.0))
    assert list(job_index.latest(None)) == [entry("L1")]


def test_two_clusters_may_use_one_id(job_index: SqliteJobIndex) -> None:
    """Jobs of the same id from two clusters are both kept, and found newest first."""
    old = entry("4242", 1.0, submission="a", cluster="west")
    new = entry("4242", 2.0, submission="b", cluster="east")
    job_index.add(new)
    job_index.add(old)
    job_index.add(entry("42424", 3.0))
    assert list(job_index.find("4242")) == [new, old]


def test_a_part_finds_its_whole_array(job_index: SqliteJobIndex) -> None:
    """The whole id of any part of a split array gives the job with its parts, a beginning none."""
    parts = tuple(JobPart(offset=at * 100, job_id=JobId(str(4242 + at))) for at in range(3))
    array = replace(entry("4242"), parts=parts)
    job_index.add(replace(entry("U1"), submission=array.submission))
    job_index.update([array])
    job_index.add(entry("42"))
    assert list(job_index.find("4244")) == [array]
    assert list(job_index.find("424")) == [array]
    assert list(job_index.find("244")) == []


def test_the_jobs_of_a_chain_are_found_in_order(job_index: SqliteJobIndex) -> None:
    """A chain's jobs come in the order in which they were submitted, and no other job."""
    for number, stage in enumerate(("prepare", "train")):
        job_index.add(replace(entry(f"{number}", float(number)), chain="c" * 32, stage=stage))
    job_index.add(entry("9"))
    found = job_index.of_chain("c" * 32)
    assert [(job.job_id, job.stage) for job in found] == [("0", "prepare"), ("1", "train")]
    assert list(job_index.of_chain("d" * 32)) == []


def test_the_newest_come_first(job_index: SqliteJobIndex) -> None:
    """Listings are newest first, those of one moment in reverse order of addition, and limited."""
    for job_id, created_s in [("La", 1.0), ("Lb", 3.0), ("Lc", 2.0), ("Ld", 2.0)]:
        job_index.add(entry(job_id, created_s))
    assert ids(job_index.latest(None)) == ["Lb", "Ld", "Lc", "La"]
    assert ids(job_index.latest(2)) == ["Lb", "Ld"]
    assert ids(job_index.latest(0)) == []
    assert ids(job_index.find("L")) == ["Lb", "Ld", "Lc", "La"]


def test_an_exact_id_wins(job_index: SqliteJobIndex) -> None:
    """An id that is also the beginning of another gives only its own job."""
    for job_id in ("123", "1234", "1235"):
        job_index.add(entry(job_id))
    assert ids(job_index.find("123")) == ["123"]
    assert sorted(ids(job_index.find("12"))) == ["123", "1234", "1235"]


@pytest.mark.parametrize("wanted", ["l1", "L%", "L_", "L*", "L?", "1", "' OR 1=1 --", "L12 "])
def test_a_prefix_is_taken_literally(job_index: SqliteJobIndex, wanted: str) -> None:
    """Case counts, and no character is a wildcard."""
    job_index.add(entry("L12"))
    assert list(job_index.find(wanted)) == []


def test_an_update_gives_a_job_its_id(job_index: SqliteJobIndex) -> None:
    """A line is known by its submission: its id and cluster change, and the old id is gone."""
    job_index.add(entry("U0000cafe", submission="s"))
    confirmed = entry("4242", submission="s", cluster="west")
    job_index.update([confirmed])
    assert list(job_index.latest(None)) == [confirmed]
    assert list(job_index.find("U0000cafe")) == []


def test_an_update_takes_many_or_none(job_index: SqliteJobIndex) -> None:
    """Several jobs change in one update, and an empty update changes nothing."""
    for job_id in ("L1", "L2", "L3"):
        job_index.add(entry(job_id))
    job_index.update([])
    failed = replace(entry("L1"), state=JobState.FAILED, exit_code=7)
    job_index.update([failed, entry("L3", state=JobState.RUNNING)])
    states = {found.job_id: (found.state, found.exit_code) for found in job_index.latest(None)}
    assert states == {"L1": ("FAILED", 7), "L2": ("PENDING", None), "L3": ("RUNNING", None)}


def test_a_removed_job_is_gone(job_index: SqliteJobIndex) -> None:
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


def test_a_rebuild_keeps_what_it_was_not_told_about(job_index: SqliteJobIndex) -> None:
    """A rebuild puts in the given entries and forgets the given submissions; other jobs stay."""
    for job_id in ("L1", "L2", "L4"):
        job_index.add(entry(job_id))
    job_index.rebuild([entry("L2", 7.0), entry("L3", 2.0), entry("L3", 5.0)], [key("L4")])
    assert list(job_index.latest(None)) == [entry("L2", 7.0), entry("L3", 5.0), entry("L1")]
    # Of jobs of one moment, those that were put in by a rebuild come first.
    job_index.add(entry("L6"))
    job_index.rebuild([entry("L1")], [])
    assert ids(job_index.latest(None)) == ["L2", "L3", "L1", "L6"]


def test_processes_at_once_lose_nothing(path: Path) -> None:
    """4 processes that each add 50 jobs at once give 200 jobs."""
    running = [
        subprocess.Popen([sys.executable, "-c", ADD_MANY, str(path), str(n)]) for n in range(4)
    ]
    assert [process.wait(120) for process in running] == [0, 0, 0, 0]
    assert len(SqliteJobIndex(path).latest(None)) == 200


def test_the_index_is_private(path: Path) -> None:
    """The file has mode 0600 and its folder 0700, whatever the umask."""
    before = os.umask(0)
    try:
        SqliteJobIndex(path).add(entry("L1"))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_reading_writes_nothing(path: Path) -> None:
    """Reading an index that is not there makes no file, and one that is there stays as it is."""
    index = SqliteJobIndex(path)
    assert index.latest(None) == []
    assert not path.parent.exists()
    index.add(entry("L1"))
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    index.find("L")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in path.parent.iterdir()] == ["jobs.sqlite"]


def test_no_write_ahead_log_is_used(path: Path) -> None:
    """The journal mode is one that works on NFS."""
    SqliteJobIndex(path).add(entry("L1"))
    assert run_sql(path, "PRAGMA journal_mode") == [("delete",)]


def without_its_table() -> bytes:
    """A database of version 3 that holds nothing."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA user_version = 3")
        return db.serialize()


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be read as one" * 3, without_its_table()]
)
def test_a_damaged_file_names_its_remedy(path: Path, content: bytes) -> None:
    """A damaged file raises StorageFailed with its path and the command; a rebuild replaces it."""
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    index = SqliteJobIndex(path)
    for use in (lambda: index.latest(None), lambda: index.add(entry("L1"))):
        with pytest.raises(StorageFailed) as caught:
            use()
        assert str(path) in caught.value.message
        assert caught.value.hint == "hpckit jobs --rebuild"
    index.rebuild([entry("L2")], [])
    assert list(index.latest(None)) == [entry("L2")]
    assert path.with_name("jobs.sqlite.damaged").read_bytes() == content


def test_a_newer_index_asks_for_an_upgrade(path: Path) -> None:
    """A file of a later version is neither read nor changed, not even by a rebuild."""
    index = SqliteJobIndex(path)
    index.add(entry("L1"))
    run_sql(path, "PRAGMA user_version = 4")
    for use in (lambda: index.latest(None), lambda: index.rebuild([], [])):
        with pytest.raises(StorageFailed, match="version 4") as caught:
            use()
        assert "upgrade" in str(caught.value.hint)


def test_an_update_is_whole_or_nothing(path: Path) -> None:
    """An update that fails at its second job leaves the first as it was."""
    index = SqliteJobIndex(path)
    index.add(entry("L1"))
    index.add(entry("L2"))
    run_sql(
        path,
        "CREATE TRIGGER stop BEFORE UPDATE ON jobs WHEN NEW.job_id = 'L2' "
        "BEGIN SELECT RAISE(ABORT, 'disk on fire'); END",
    )
    with pytest.raises(StorageFailed, match="disk on fire"):
        index.update([replace(entry(name), state=JobState.RUNNING) for name in ("L1", "L2")])
    assert [found.state for found in index.latest(None)] == [JobState.PENDING] * 2


def test_an_empty_file_is_an_empty_index(path: Path) -> None:
    """What a submission that was killed at its start leaves behind is usable."""
    path.parent.mkdir(parents=True)
    path.touch()
    index = SqliteJobIndex(path)
    assert index.latest(None) == []
    index.add(entry("L1"))
    assert list(index.latest(None)) == [entry("L1")]


def test_a_reader_beside_the_first_submission_sees_no_damage(path: Path) -> None:
    """The index is made between two of the reader's questions: it finds what was added."""

    class Overtaken(SqliteJobIndex):
        @contextlib.contextmanager
        def _connection(self) -> Iterator[sqlite3.Connection]:
            with super()._connection() as db:
                asked = iter((lambda: None, lambda: SqliteJobIndex(path).add(entry("L1"))))
                db.set_trace_callback(lambda _: next(asked, lambda: None)())
                yield db

    path.parent.mkdir(parents=True)
    path.touch()
    assert ids(Overtaken(path).latest(None)) == ["L1"]


def test_a_writer_waits_for_another(path: Path) -> None:
    """A write that meets a lock waits until it is given up."""
    index = SqliteJobIndex(path)
    index.add(entry("L1"))
    code = (
        "import sqlite3, sys, time; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN EXCLUSIVE'); print('held', flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        index.update([replace(entry("L1"), state=JobState.RUNNING)])
    assert index.latest(1)[0].state is JobState.RUNNING


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """An index below a file raises StorageFailed with its path."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match=r"file/jobs\.sqlite cannot be written"):
        SqliteJobIndex(tmp_path / "file" / "jobs.sqlite").add(entry("L1"))


def test_a_state_of_a_later_version_is_unknown(path: Path) -> None:
    """A state word that is not understood is listed as UNKNOWN."""
    index = SqliteJobIndex(path)
    index.add(entry("L1"))
    run_sql(path, "UPDATE jobs SET state = 'HIBERNATING'")
    assert index.latest(None)[0].state is JobState.UNKNOWN


def test_lines_around_a_damaged_page_are_kept(path: Path) -> None:
    """What is before and behind the page is in the rebuilt index, and nothing else is lost."""
    index = SqliteJobIndex(path)
    index.rebuild([replace(entry(f"{at}"), folder=f"/jobs/{at}") for at in range(400)], ())
    content = path.read_bytes()
    page = content.index(b"/jobs/200") // PAGE_BYTES * PAGE_BYTES
    path.write_bytes(content[:page] + b"\xff" * PAGE_BYTES + content[page + PAGE_BYTES :])
    index.rebuild((), ())
    left = {one.job_id for one in index.latest(None)}
    assert {"0", "399"} <= left
    assert len(left) > 300


def test_a_folder_in_its_place_is_no_damage(path: Path) -> None:
    """It is not put aside by a rebuild: the error says what is expected there."""
    path.mkdir(parents=True)
    for ask in (SqliteJobIndex(path).readable, lambda: SqliteJobIndex(path).rebuild((), ())):
        with pytest.raises(StorageFailed, match="cannot be read") as caught:
            ask()
        assert (caught.value.hint or "").startswith("the file and its folder must be writable")
    assert path.is_dir()


@pytest.mark.parametrize("version", [-3, 0, 2])
def test_a_wrong_version_alone_costs_no_line(path: Path, version: int) -> None:
    """Where only the header is damaged a rebuild has every line."""
    index = SqliteJobIndex(path)
    index.add(entry("1"))
    index.add(entry("2"))
    run_sql(path, f"PRAGMA user_version = {version}")
    with pytest.raises(StorageFailed, match=f"is damaged: it has version {version}"):
        index.latest(None)
    index.rebuild([], [])
    assert {one.job_id for one in index.latest(None)} == {"1", "2"}


def test_a_rebuild_that_fails_leaves_the_old_file(path: Path) -> None:
    """Where the new file cannot be made, the next rebuild still finds what there was."""
    index = SqliteJobIndex(path)
    index.rebuild([entry("1"), entry("2")], [])
    run_sql(path, "PRAGMA user_version = -1")
    before = path.read_bytes()
    blocked = path.with_name("jobs.sqlite.new")
    blocked.mkdir()
    with pytest.raises(StorageFailed):
        index.rebuild([], [])
    assert path.read_bytes() == before
    blocked.rmdir()
    index.rebuild([], [])
    assert len(index.latest(None)) > 1


@pytest.mark.parametrize("damage", ["parts = 'x'", "created_s = 'abc'", "exit_code = 'one'"])
def test_a_row_that_no_hpckit_wrote(tmp_path: Path, damage: str) -> None:
    """It is told as damage with the way out, and the rebuilt index has the other jobs."""
    index = SqliteJobIndex(tmp_path / "jobs.sqlite")
    good, bad = entry("La", created_s=1.0), entry("Lb", created_s=2.0)
    index.add(good)
    index.add(bad)
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as db, db:
        db.execute(f"UPDATE jobs SET {damage} WHERE job_id = 'Lb'")  # noqa: S608
    with pytest.raises(StorageFailed, match="is damaged: a line:") as caught:
        index.latest(None)
    assert caught.value.hint == "hpckit jobs --rebuild"
    index.rebuild([], [])
    assert index.latest(None) == [good]


def test_an_index_that_others_could_lay_there_is_not_read(tmp_path: Path) -> None:
    """In a folder that everybody may write to no row is read, and the mend is told."""
    folder = tmp_path / "open"
    folder.mkdir()
    index = SqliteJobIndex(folder / "jobs.sqlite")
    index.add(entry("7"))
    folder.chmod(0o777)
    with pytest.raises(StorageFailed, match="can be changed by everybody"):
        index.latest(None)
