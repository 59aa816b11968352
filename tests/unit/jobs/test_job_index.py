from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.jobs.index import SqliteJobIndex
from hpckit.slurm.values import JobEntry, JobId, JobState
from tests.begun import unmeasured

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


def entry(job_id: str) -> JobEntry:
    """A job of that id."""
    return JobEntry(
        submission=job_id.encode().hex().ljust(32, "0"),
        job_id=JobId(job_id),
        name="n",
        site="s",
        folder="/f",
        created_s=1,
        state=JobState.PENDING,
    )


def run_sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What the last of these statements gives."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the index will be: a path with characters that a URI would need quoted."""
    return tmp_path / "state ?#%41" / "hpckit" / "jobs.sqlite"


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
    """A database of version 2 that holds nothing."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA user_version = 2")
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


VERSION_1 = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY, name TEXT NOT NULL, site TEXT NOT NULL, folder TEXT NOT NULL,
    created_s REAL NOT NULL, state TEXT NOT NULL, exit_code INTEGER
);
INSERT INTO jobs VALUES ('L0000cafe', 'a', 'local', '/a', 2.5, 'FAILED', 7);
INSERT INTO jobs VALUES ('L0000beef', 'b', 'local', '/b', 2.5, 'PENDING', NULL);
PRAGMA user_version = 1;
"""


@pytest.fixture
def index_1(path: Path) -> SqliteJobIndex:
    """An index of version 1 with two jobs."""
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.close()
    return SqliteJobIndex(path)


def entry_1(job_id: str, name: str, state: JobState, exit_code: int | None) -> JobEntry:
    """What a line of version 1 has become."""
    return JobEntry(
        submission=job_id,
        job_id=JobId(job_id),
        name=name,
        site="local",
        folder=f"/{name}",
        created_s=2.5,
        state=state,
        exit_code=exit_code,
    )


OLD = [
    entry_1("L0000beef", "b", JobState.PENDING, None),
    entry_1("L0000cafe", "a", JobState.FAILED, 7),
]


def test_reading_migrates_an_index_of_version_1(path: Path, index_1: SqliteJobIndex) -> None:
    """An old file is read whole, in its order, its ids as submissions, and is of version 3 then."""
    assert index_1.latest(None) == OLD
    assert run_sql(path, "PRAGMA user_version") == [(3,)]
    assert run_sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("jobs",)]
    assert SqliteJobIndex(path).latest(None) == OLD


def test_writing_migrates_an_index_of_version_1(index_1: SqliteJobIndex) -> None:
    """A job added to an old file stands beside its jobs, which can be updated and removed."""
    index_1.add(entry("4242"))
    index_1.update([replace(OLD[0], state=JobState.RUNNING)])
    index_1.remove("L0000cafe")
    assert index_1.latest(None) == [replace(OLD[0], state=JobState.RUNNING), entry("4242")]


def test_processes_at_once_migrate_once(path: Path, index_1: SqliteJobIndex) -> None:
    """Readers that meet an old file at the same time all see its jobs, and none is lost."""
    code = (
        "import sys; from pathlib import Path; from hpckit.jobs.index import *;"
        "sys.exit(len(SqliteJobIndex(Path(sys.argv[1])).latest(None)))"
    )
    readers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [reader.wait(60) for reader in readers] == [2, 2, 2]
    assert index_1.latest(None) == OLD


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


def test_a_failed_write_changes_nothing(path: Path) -> None:
    """A rebuild that fails in the middle leaves every job where it was."""
    index = SqliteJobIndex(path)
    index.add(entry("L1"))
    run_sql(
        path,
        "CREATE TRIGGER stop BEFORE INSERT ON jobs WHEN NEW.job_id = 'L3' "
        "BEGIN SELECT RAISE(ABORT, 'disk on fire'); END",
    )
    with pytest.raises(StorageFailed, match="disk on fire"):
        index.rebuild([entry("L2"), entry("L3")], [])
    assert list(index.latest(None)) == [entry("L1")]


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


def test_sqlite_is_imported_when_used() -> None:
    """Importing the adapter does not import sqlite3."""
    code = "import sys, hpckit.jobs.index; sys.exit('sqlite3' in sys.modules)"
    # Coverage would load sqlite3 itself.
    done = subprocess.run([sys.executable, "-c", code], env=unmeasured(), check=False)
    assert done.returncode == 0


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
        assert (caught.value.hint or "").startswith("a file is expected")
    assert path.is_dir()


@pytest.mark.parametrize("version", [-3, 0])
def test_a_wrong_version_alone_costs_no_line(path: Path, version: int) -> None:
    """Where only the header is damaged a rebuild has every line."""
    index = SqliteJobIndex(path)
    index.add(entry("1"))
    index.add(entry("2"))
    run_sql(path, f"PRAGMA user_version = {version}")
    with pytest.raises(StorageFailed, match=f"is damaged: its version is {version}"):
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
