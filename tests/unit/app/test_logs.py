"""The output of a job, whole or as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.adapters.job_logs import FileJobLogs
from hpckit.app.logs import follow_log, read_log
from hpckit.errors import HpckitError
from tests.fakes.clock import FakeClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job folder without a log."""
    (tmp_path / "logs").mkdir()
    return tmp_path


class _GrowingJob(FakeClock):
    """A job that does the next of its steps in every pause, and has ended after the last."""

    def __init__(self, log: Path, steps: list[bytes]) -> None:
        super().__init__()
        self._log = log
        self._steps = steps

    def sleep(self, seconds: float) -> None:
        """Do a step."""
        super().sleep(seconds)
        with self._log.open("ab") as file:
            file.write(self._steps.pop(0))

    def has_ended(self) -> bool:
        """Whether nothing more is written."""
        return not self._steps


def test_a_growing_log_is_given_once(folder: Path) -> None:
    """Following gives every byte once and in order, from before the log is there to its end."""
    job = _GrowingJob(folder / "logs" / "job.log", [b"a\n", b"", b"b\xff", b"\nc"])
    chunks = follow_log(
        FileJobLogs(), folder, None, job, poll_interval_s=0.5, has_ended=job.has_ended
    )
    assert list(chunks) == [b"a\n", b"b\xff", b"\nc"]
    assert job.slept_s == [0.5] * 4


def test_what_is_written_before_the_end_is_noticed_is_given(folder: Path) -> None:
    """The last look at the log comes after the question whether the job has ended."""

    def ends_with_words() -> bool:
        (folder / "logs" / "job.log").write_bytes(b"last words")
        return True

    chunks = follow_log(
        FileJobLogs(), folder, None, FakeClock(), poll_interval_s=1.0, has_ended=ends_with_words
    )
    assert list(chunks) == [b"last words"]


def test_a_job_that_ended_without_a_log_is_said(folder: Path) -> None:
    """Following the log of a job that ended without one is refused, not endless."""
    chunks = follow_log(
        FileJobLogs(), folder, None, FakeClock(), poll_interval_s=1.0, has_ended=lambda: True
    )
    with pytest.raises(HpckitError, match="the job has written no log yet"):
        list(chunks)


@pytest.mark.parametrize(
    ("ranks", "there"),
    [
        ((), "no rank has written one yet"),
        ((0,), "only rank 0 has one"),
        ((0, 1, 3), "ranks with a log: 0-3"),
    ],
)
def test_a_missing_rank_names_those_that_are_there(
    folder: Path, ranks: tuple[int, ...], there: str
) -> None:
    """The log of a rank that has none is refused, and the ranks that have one are named."""
    for rank in ranks:
        (folder / "logs" / f"rank-{rank}.log").touch()
    with pytest.raises(HpckitError, match="no log of rank 7") as raised:
        read_log(FileJobLogs(), folder, 7)
    assert raised.value.hint == there


def test_a_log_is_read_whole(folder: Path) -> None:
    """A log is given byte for byte."""
    (folder / "logs" / "rank-2.log").write_bytes(b"\x00\xff")
    assert b"".join(read_log(FileJobLogs(), folder, 2)) == b"\x00\xff"
