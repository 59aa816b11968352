"""The logs in a job folder, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.adapters.job_logs import FileJobLogs
from hpckit.errors import StorageFailed

LOGS = FileJobLogs()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The folder of the logs of the job in `tmp_path`."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_ranks_are_numbers_in_order(tmp_path: Path, logs: Path) -> None:
    """Ranks come in the order of their numbers, and other files are not ranks."""
    for name in ("rank-10.log", "rank-9.log", "rank-x.log", "rank-1.log.gz", "rank-٣.log"):
        (logs / name).touch()
    assert LOGS.ranks(tmp_path) == [9, 10]
    assert LOGS.ranks(tmp_path / "gone") == ()


def test_a_log_exists_or_not(tmp_path: Path, logs: Path) -> None:
    """The merged log and that of a rank are told apart, and a folder is no log."""
    (logs / "job.log").touch()
    (logs / "rank-1.log").mkdir()
    assert LOGS.exists(tmp_path, None)
    assert not LOGS.exists(tmp_path, 0)
    assert not LOGS.exists(tmp_path, 1)


def test_a_log_is_read_from_an_offset(tmp_path: Path, logs: Path) -> None:
    """Reading begins at the offset, gives large logs in chunks, and nothing beyond the end."""
    data = bytes(range(256)) * 1000
    (logs / "job.log").write_bytes(data)
    chunks = list(LOGS.read(tmp_path, None, 5))
    assert len(chunks) > 1
    assert b"".join(chunks) == data[5:]
    assert list(LOGS.read(tmp_path, None, len(data) + 9)) == []


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path, logs: Path) -> None:
    """A log that went away meanwhile is a StorageFailed with its path."""
    with pytest.raises(StorageFailed, match=r"rank-3\.log cannot be read: No such file"):
        list(LOGS.read(tmp_path, 3, 0))


def test_a_tail_is_the_last_lines_that_say_something(tmp_path: Path, logs: Path) -> None:
    """Blank lines are passed over, bytes that are no text are shown, and no log is no line."""
    (logs / "job.log").write_bytes(b"x" * 9000 + b"\none\n\n \ntw\xffo\n\n")
    assert LOGS.tail(tmp_path, None, 2) == ["one", "tw�o"]
    assert LOGS.tail(tmp_path, 7, 2) == ()
