"""The index of job folders: one SQLite file a user, safe with several processes at once."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.errors import StorageFailed
from hpckit.model.slurm import JobEntry, JobId, JobPart, JobState

if TYPE_CHECKING:
    import sqlite3

_VERSION = 3
_BUSY_S = 30.0
_RETRY_S = 0.05
_PRIMARY_CODE = 0xFF  # the low byte of an extended result code, sqlite.org/rescode.html
_TABLE = """
CREATE TABLE jobs (
    submission TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    cluster TEXT,
    name TEXT NOT NULL,
    site TEXT NOT NULL,
    folder TEXT NOT NULL,
    created_s REAL NOT NULL,
    state TEXT NOT NULL,
    exit_code INTEGER,
    parts TEXT NOT NULL DEFAULT '',
    chain TEXT,
    stage TEXT
)
"""
# Version 1 knew local jobs only, whose id stood for the submission.
_FROM_1 = (
    "ALTER TABLE jobs RENAME TO jobs_1",
    _TABLE,
    "INSERT INTO jobs (submission, job_id, name, site, folder, created_s, state, exit_code) "
    "SELECT job_id, job_id, name, site, folder, created_s, state, exit_code "
    "FROM jobs_1 ORDER BY rowid",
    "DROP TABLE jobs_1",
)
# Version 2 knew neither parts of an array nor chains.
_FROM_2 = (
    "ALTER TABLE jobs ADD COLUMN parts TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN chain TEXT",
    "ALTER TABLE jobs ADD COLUMN stage TEXT",
)
_STEPS = {0: (_TABLE,), 1: _FROM_1, 2: _FROM_2}
_COLUMNS = (
    "submission, job_id, cluster, name, site, folder, created_s, state, exit_code, parts, "
    "chain, stage"
)
_INSERT = f"INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  constants
_UPDATE = (
    "UPDATE jobs SET job_id = ?2, cluster = ?3, name = ?4, site = ?5, folder = ?6, "
    "created_s = ?7, state = ?8, exit_code = ?9, parts = ?10, chain = ?11, stage = ?12 "
    "WHERE submission = ?1"
)
_SELECT = f"SELECT {_COLUMNS} FROM jobs"  # noqa: S608  constants
_NEWEST_FIRST = "ORDER BY created_s DESC, rowid DESC"


class SqliteJobIndex:
    """Jobs in the table `jobs` of an SQLite file.

    The file (mode 0600) and its folder (0700) are made when the first job is added. It keeps the
    rollback journal: a write-ahead log needs shared memory, which home directories on NFS lack
    (sqlite.org/wal.html). Every method raises StorageFailed with the path and the cause.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, entry: JobEntry) -> None:
        """Record a job. Raises StorageFailed, also for a submission that is there already."""
        import sqlite3

        def change(db: sqlite3.Connection) -> None:
            try:
                db.execute(_INSERT, _row(entry))
            except sqlite3.IntegrityError as error:
                raise StorageFailed(
                    f"job {entry.job_id} is already in the index {self._path}"
                ) from error

        self._write(change)

    def update(self, entries: Sequence[JobEntry]) -> None:
        """Put these entries in place of theirs at once; a job that is not there stays so."""
        if entries:
            self._write(lambda db: db.executemany(_UPDATE, [_row(entry) for entry in entries]))

    def remove(self, submission: str) -> None:
        """Forget a job; one that is not there is no error."""
        self._write(lambda db: db.execute("DELETE FROM jobs WHERE submission = ?", (submission,)))

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[str]) -> None:
        """Put these entries in place of their submissions', forget `gone`, at once.

        A file that is damaged is kept beside the new one as `<name>.damaged`.
        """

        def change(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM jobs WHERE submission = ?", [(key,) for key in gone])
            db.executemany(
                _INSERT.replace("INSERT", "INSERT OR REPLACE", 1),
                [_row(entry) for entry in entries],
            )

        try:
            self._write(change)
        except _DamagedError:
            self._put_aside()
            self._write(change)

    def find(self, job_id_prefix: str) -> Sequence[JobEntry]:
        """The jobs whose id begins so, newest first; an exact id gives those of that id.

        `U` and the beginning of a submission's uuid name its job too, and so does the whole id of
        a part.
        """
        # A submission that Slurm has confirmed since is still found by what it was called before.
        found = self._read(
            f"{_SELECT} WHERE substr(job_id, 1, length(?1)) = ?1 "
            "OR (?1 != '' AND instr(parts, ':' || ?1 || ' ')) "
            f"OR (?1 GLOB 'U?*' AND substr('U' || submission, 1, length(?1)) = ?1) {_NEWEST_FIRST}",
            (job_id_prefix,),
        )
        exact = [entry for entry in found if job_id_prefix in entry.job_ids]
        return exact or found

    def of_chain(self, chain: str) -> Sequence[JobEntry]:
        """The jobs of a chain, in the order of its stages."""
        return self._read(f"{_SELECT} WHERE chain = ? ORDER BY created_s, rowid", (chain,))

    def latest(self, limit: int | None) -> Sequence[JobEntry]:
        """The newest jobs, newest first; None is all."""
        return self._read(f"{_SELECT} {_NEWEST_FIRST} LIMIT ?", (-1 if limit is None else limit,))

    def _read(self, query: str, values: tuple[object, ...]) -> list[JobEntry]:
        if not self._path.exists():
            return []
        with self._failures("read"), self._connection() as db:
            version = self._version(db)
            if version == 0:
                return []
            if version < _VERSION:
                _begin(db)
                self._migrate(db)
                db.execute("COMMIT")
            db.execute("PRAGMA query_only = ON")
            return [_entry(row) for row in db.execute(query, values)]

    def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        with self._failures("written"):
            self._create()
            with self._connection() as db:
                _begin(db)  # what is not committed when the connection closes is rolled back
                self._migrate(db)
                change(db)
                db.execute("COMMIT")

    def _create(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite would make it readable as the umask allows; its journal copies the mode.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        # rw, not ro, for reading too: the journal of a writer that was killed is played back.
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        with contextlib.closing(db):
            yield db

    def _migrate(self, db: sqlite3.Connection) -> None:
        version = self._version(db)
        if version < _VERSION:
            for statement in _STEPS[version]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")

    def _version(self, db: sqlite3.Connection) -> int:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise StorageFailed(
                f"the job index {self._path} has version {version}, this hpckit knows {_VERSION}",
                hint="upgrade hpckit: a newer one wrote this file",
            )
        return version

    @contextlib.contextmanager
    def _failures(self, doing: str) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
            # SQLITE_ERROR: its tables are not those of its version, as the statements are ours.
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
                raise _DamagedError(
                    f"the job index {self._path} is damaged: {error}", hint="hpckit jobs --rebuild"
                ) from error
            raise StorageFailed(f"the job index {self._path} cannot be {doing}: {error}") from error
        except OSError as error:
            raise StorageFailed(
                f"the job index {self._path} cannot be {doing}: {error.strerror}"
            ) from error

    def _put_aside(self) -> None:
        with self._failures("replaced"):
            self._path.replace(self._path.with_name(self._path.name + ".damaged"))
            # The journal of the damaged file must not be played back into the new one.
            self._path.with_name(self._path.name + "-journal").unlink(missing_ok=True)


class _DamagedError(StorageFailed):
    """The file is not a database, or is one no more."""


def _begin(db: sqlite3.Connection) -> None:
    """Begin a transaction that can write, waiting for other processes up to 30 s."""
    import sqlite3

    end_s = time.monotonic() + _BUSY_S
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            # SQLite answers at once, whatever the timeout, where waiting could be a deadlock
            # (sqlite.org/c3ref/busy_handler.html).
            busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > end_s:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _row(entry: JobEntry) -> tuple[object, ...]:
    return (
        entry.submission,
        entry.job_id,
        entry.cluster,
        entry.name,
        entry.site,
        entry.folder,
        entry.created_s,
        str(entry.state),
        entry.exit_code,
        "".join(f"{part.offset}:{part.job_id} " for part in entry.parts),
        entry.chain,
        entry.stage,
    )


def _entry(row: tuple[Any, ...]) -> JobEntry:
    submission, job_id, cluster, name, site, folder, created_s, state, exit_code, *more = row
    parts, chain, stage = more
    known = state in JobState.__members__.values()
    return JobEntry(
        submission=submission,
        job_id=JobId(job_id),
        cluster=cluster,
        name=name,
        site=site,
        folder=folder,
        created_s=created_s,
        state=JobState(state) if known else JobState.UNKNOWN,
        exit_code=exit_code,
        parts=_parts(parts),
        chain=chain,
        stage=stage,
    )


def _parts(text: str) -> tuple[JobPart, ...]:
    """The parts of an array, from `0:4242 1000:4243 `."""
    pairs = (word.partition(":") for word in text.split())
    return tuple(
        JobPart(offset=int(offset), job_id=JobId(job_id))
        for offset, _, job_id in pairs
        if offset.isdecimal() and job_id
    )
