"""The logs in a job folder, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.jobs.logs import FileJobLogs
from hpckit.spec.job_folder import LogName

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
    assert LOGS.ranks(tmp_path / "gone") == []


def test_a_log_exists_or_not(tmp_path: Path, logs: Path) -> None:
    """The merged log and that of a rank are told apart, and a folder is no log."""
    (logs / "job.log").touch()
    (logs / "rank-1.log").mkdir()
    assert LOGS.size_bytes(LogName(folder=tmp_path)) is not None
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=0)) is None
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=1)) is None


def test_a_log_is_read_from_an_offset(tmp_path: Path, logs: Path) -> None:
    """Reading begins at the offset, gives large logs in chunks, and nothing beyond the end."""
    data = bytes(range(256)) * 1000
    (logs / "job.log").write_bytes(data)
    chunks = list(LOGS.read(LogName(folder=tmp_path), 5))
    assert len(chunks) > 1
    assert b"".join(chunks) == data[5:]
    assert list(LOGS.read(LogName(folder=tmp_path), len(data) + 9)) == []


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path, logs: Path) -> None:
    """A log that went away meanwhile is a StorageFailed with its path."""
    with pytest.raises(StorageFailed, match=r"rank-3\.log cannot be read: No such file"):
        list(LOGS.read(LogName(folder=tmp_path, rank=3), 0))


def test_a_log_that_cannot_be_opened_is_not_one_that_is_not_there(
    tmp_path: Path, logs: Path
) -> None:
    """Whatever is wrong but its absence is a StorageFailed with the system's words."""
    (logs / "job.log").symlink_to("job.log")
    with pytest.raises(StorageFailed, match=r"job\.log cannot be read: Too many levels"):
        LOGS.size_bytes(LogName(folder=tmp_path))


def test_a_tail_is_the_last_lines_that_say_something(tmp_path: Path, logs: Path) -> None:
    """Blank lines are passed over, bytes that are no text are shown, and no log is no line."""
    (logs / "job.log").write_bytes(b"x" * 9000 + b"\none\n\n \ntw\xffo\n\n")
    assert LOGS.tail(LogName(folder=tmp_path), 2) == ["one", "tw�o"]
    assert LOGS.tail(LogName(folder=tmp_path, rank=7), 2) == ()


def test_tasks_are_numbers_in_order(tmp_path: Path, logs: Path) -> None:
    """The tasks of a job array are those with a merged log; the job's own log is no task's."""
    for name in ("job.log", "job-10.log", "job-9.log", "job-x.log", "rank-3.log"):
        (logs / name).touch()
    (logs / "array-4").mkdir()
    assert LOGS.tasks(tmp_path) == [9, 10]
    assert LOGS.tasks(tmp_path / "gone") == []


def test_a_task_of_a_part_goes_by_its_number_in_the_whole(tmp_path: Path, logs: Path) -> None:
    """The merged log of a task lies under the offset of its part, and is found by the sum."""
    for offset in ("", "-101", "-202"):
        (tmp_path / f"submission-{'a' * 32}{offset}.sbatch").touch()
    for name in ("job-7.log", "job-101+49.log", "job-202+0.log"):
        (logs / name).write_text(name)
    assert LOGS.tasks(tmp_path) == [7, 150, 202]
    for task in (7, 150, 202):
        assert LOGS.size_bytes(LogName(folder=tmp_path, task=task)) is not None
    assert LOGS.path(LogName(folder=tmp_path, task=201)) == logs / "job-101+100.log"


def test_each_task_has_its_own_ranks(tmp_path: Path, logs: Path) -> None:
    """The ranks of a task lie in its own folder, and are not those of the job or another task."""
    (logs / "rank-0.log").touch()
    for task, rank in ((7, 1), (7, 2), (8, 3)):
        (logs / f"array-{task}").mkdir(exist_ok=True)
        (logs / f"array-{task}" / f"rank-{rank}.log").write_text(f"{task}.{rank}\n")
    assert LOGS.ranks(tmp_path, 7) == [1, 2]
    assert LOGS.ranks(tmp_path, 9) == []
    assert LOGS.ranks(tmp_path) == [0]
    assert LOGS.tail(LogName(folder=tmp_path, rank=3, task=8), 1) == ["8.3"]
    assert LOGS.size_bytes(LogName(folder=tmp_path, rank=3, task=7)) is None


def test_the_merged_log_of_a_task_is_read(tmp_path: Path, logs: Path) -> None:
    """A task's merged log is told from the job's and from another task's."""
    for name in ("job.log", "job-7.log", "job-77.log"):
        (logs / name).write_text(name)
    assert list(LOGS.read(LogName(folder=tmp_path, task=7), 0)) == [b"job-7.log"]
