"""The index of job folders: one SQLite file a user, safe with several processes at once."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hpckit.core.errors import StorageFailed
from hpckit.core.files import space_hint, space_words
from hpckit.core.late import Late
from hpckit.core.trust import make_private, must_be_ours
from hpckit.slurm.values import JobEntry, JobId, JobPart, JobState

if TYPE_CHECKING:
    import shutil
    import sqlite3
else:
    shutil = Late("shutil")


COLUMNS: Final = (
    *("submission", "job_id", "cluster", "name", "site", "folder", "created_s", "state"),
    *("exit_code", "parts", "chain", "stage"),
)


def row_of(entry: JobEntry) -> tuple[object, ...]:
    """An entry as the values of COLUMNS."""
    parts = "".join(f"{part.offset}:{part.job_id} " for part in entry.parts)
    written = replace(entry, parts=())
    values = {name: getattr(written, name) for name in COLUMNS}
    return tuple({**values, "state": str(entry.state), "parts": parts}.values())


_MOST_S = 1e11


def entry_of(row: Sequence[Any]) -> JobEntry:
    """Return the entry of a row; a state of a later version is UNKNOWN.

    Raises ValueError for a row that no hpckit wrote.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    known = values["state"] in JobState.__members__.values()
    values["state"] = JobState(values["state"]) if known else JobState.UNKNOWN
    values["parts"] = _parts(str(values["parts"]))
    values["created_s"] = float(values["created_s"])
    texts = [values[name] for name in ("submission", "job_id", "name", "site", "folder")]
    if not all(isinstance(text, str) for text in texts) or not 0 <= values["created_s"] < _MOST_S:
        raise ValueError(row)
    values["exit_code"] = None if values["exit_code"] is None else int(values["exit_code"])
    return JobEntry(**values)


def _parts(text: str) -> tuple[JobPart, ...]:
    pairs = (word.split(":") for word in text.split())
    return tuple(JobPart(offset=int(offset), job_id=JobId(job_id)) for offset, job_id in pairs)


T = TypeVar("T")

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
_COLUMNS = ", ".join(COLUMNS)
_INSERT = f"INSERT INTO jobs ({_COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608  constants
_PUT = _INSERT.replace("INSERT", "INSERT OR REPLACE", 1)
_SET = ", ".join(f"{name} = ?{place}" for place, name in enumerate(COLUMNS, start=1))
_UPDATE = f"UPDATE jobs SET {_SET} WHERE submission = ?1"  # noqa: S608  constants
_SELECT = f"SELECT {_COLUMNS} FROM jobs"  # noqa: S608  constants
_SELECT_IDS = f"SELECT {_COLUMNS}, rowid FROM jobs"  # noqa: S608  likewise
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'jobs' AND type = 'table'"
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
                db.execute(_INSERT, row_of(entry))
            except sqlite3.IntegrityError as error:
                raise StorageFailed(
                    f"job {entry.job_id} is already in the job index {self._path}"
                ) from error

        self._write(change)

    def update(self, entries: Sequence[JobEntry]) -> None:
        """Put these entries in place of theirs at once; a job that is not there stays so."""
        if entries:
            self._write(lambda db: db.executemany(_UPDATE, [row_of(entry) for entry in entries]))

    def remove(self, submission: str) -> None:
        """Forget a job; one that is not there is no error."""
        self._write(lambda db: db.execute("DELETE FROM jobs WHERE submission = ?", (submission,)))

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[str]) -> None:
        """Put these entries in place of their submissions', forget `gone`, at once.

        A file that is damaged is kept beside the new one as `<name>.damaged`; what can be read of
        its lines is in the new one, which is whole before it takes the other's place.
        """

        def change(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM jobs WHERE submission = ?", [(key,) for key in gone])
            db.executemany(_PUT, map(row_of, entries))

        def anew(db: sqlite3.Connection) -> None:
            db.executemany(_PUT, map(row_of, reversed(readable)))
            change(db)

        readable, _ = self.readable()
        try:
            self.latest(None)
            self._write(change)
        except _DamagedError:
            self._replace(anew)

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

    def readable(self) -> tuple[Sequence[JobEntry], str | None]:
        """What can be read of every job, newest first, and how it is damaged if that is not all.

        Of a file with a page that is damaged, lines before and behind that page are read.
        """
        problems: list[str] = []
        found: dict[int, JobEntry] = {}

        def take(row: Sequence[Any]) -> None:
            *values, rowid = row
            try:
                found[rowid] = entry_of(values)
            except ValueError as error:
                problems.append(self._damaged(f"line {rowid}: {error}").message)

        for order, is_as_stated in (("rowid", True), ("rowid DESC", False)):
            try:
                query = f"{_SELECT_IDS} ORDER BY {order}"
                self._rows(query, (), take, is_as_stated=is_as_stated)
                break
            except _DamagedError as error:
                problems.append(error.message)
        newest = sorted(found, key=lambda rowid: (found[rowid].created_s, rowid), reverse=True)
        return [found[rowid] for rowid in newest], next(iter(problems), None)

    def _read(self, query: str, values: tuple[object, ...]) -> list[JobEntry]:
        return self._rows(query, values, entry_of)

    def _rows(
        self,
        query: str,
        values: tuple[object, ...],
        take: Callable[[Sequence[object]], T],
        *,
        is_as_stated: bool = True,
    ) -> list[T]:
        if not os.path.lexists(self._path):  # unlike Path.exists, this one never raises
            return []
        must_be_ours(self._path)
        with self._failures("read"), self._connection() as db:
            if is_as_stated and self._version(db) == 0:
                return []
            db.execute("PRAGMA query_only = ON")
            return [take(row) for row in db.execute(query, values)]

    def _damaged(self, cause: object) -> _DamagedError:
        return _DamagedError(
            f"the job index {self._path} is damaged: {cause}", hint="hpckit jobs --rebuild"
        )

    def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        with self._failures("written"):
            self._create()
            with self._connection() as db:
                _begin(db)  # what is not committed when the connection closes is rolled back
                if self._version(db) == 0:
                    db.execute(_TABLE)
                    db.execute(f"PRAGMA user_version = {_VERSION}")
                change(db)
                db.execute("COMMIT")

    def _create(self) -> None:
        make_private(self._path.parent)
        # SQLite would make it readable as the umask allows; its journal copies the mode.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        # rw, not ro, for reading too: the journal of a writer that was killed is played back.
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        db.text_factory = _text
        with contextlib.closing(db):
            yield db

    def _version(self, db: sqlite3.Connection) -> int:
        """The version of the file, 0 of an empty one. Raises StorageFailed for any other."""
        # The table first: between the two another process may make it, and its version with it.
        has_table = db.execute(_HAS_TABLE).fetchone()
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version < _VERSION and (version or has_table):
            raise self._damaged(f"it has version {version}")
        if version > _VERSION:
            raise StorageFailed(
                f"the job index {self._path} has version {version}, but this hpckit reads only "
                f"{_VERSION}",
                hint="upgrade hpckit: a newer release wrote this file",
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
                raise self._damaged(error) from error
            raise StorageFailed(
                f"the job index {self._path} cannot be {doing}: {error}", hint=self._remedy(code)
            ) from error
        except ValueError as error:
            raise self._damaged(f"a line: {error}") from error
        except OSError as error:
            raise StorageFailed(
                f"the job index {self._path} cannot be {doing}: {error.strerror}",
                hint=space_hint(error, self._path),
            ) from error

    def _remedy(self, code: int) -> str:
        import sqlite3

        path = shlex.quote(str(self._path))
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return space_words(self._path)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f"another process has locked it: fuser -v {path} shows which"
        return f"the file and its folder must be writable for you: ls -ld {path}"

    def _replace(self, change: Callable[[sqlite3.Connection], object]) -> None:
        """Have a new file in place of the damaged one, of which a copy is kept."""
        fresh = SqliteJobIndex(self._beside(".new"))
        with self._failures("replaced"):
            for left in (".new", ".new-journal"):
                self._beside(left).unlink(missing_ok=True)
            fresh._write(change)
            shutil.copy(self._path, self._beside(".damaged"))
            # The journal of the damaged file must not be played back into the new one.
            self._beside("-journal").unlink(missing_ok=True)
            self._beside(".new").replace(self._path)

    def _beside(self, end: str) -> Path:
        return self._path.with_name(self._path.name + end)


class _DamagedError(StorageFailed):
    """The file is not a database, or is one no more."""


def _text(value: bytes) -> str:
    """Any bytes as text: what is no UTF-8 is told by the column's rule, not by SQLite."""
    return value.decode(errors="surrogateescape")


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
