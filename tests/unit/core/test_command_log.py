"""Every external command on record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpckit.core.errors import StorageFailed, ToolMissing, ToolTimeout
from hpckit.core.process import CommandResult, LoggedRunner
from tests.fakes.clock import FakeClock
from tests.fakes.command_runner import FakeCommandRunner

SQUEUE = ("squeue", "--json", "a 'b'\n")
ANSWER = CommandResult(returncode=3, stdout="out", stderr="err")


class _Slow(FakeCommandRunner):
    """Commands that take 2.5 s each by the clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__({SQUEUE: ANSWER, ("\udcff",): ANSWER}, {"squeue": 5.0})
        self._clock = clock
        self.environments: list[Mapping[str, str] | None] = []

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Let time pass, then answer."""
        self._clock.sleep(2.5)
        self.environments.append(environment)
        return super().run(argv, timeout_s, environment)


def lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log will be."""
    return tmp_path / "commands.jsonl"


def test_a_command_is_a_line(path: Path) -> None:
    """Each command appends what was run, when, for how long, and with which code."""
    clock = FakeClock(100.0)
    runner = LoggedRunner(_Slow(clock), path, clock)
    assert runner.run(SQUEUE, 10.0) == ANSWER
    runner.run(SQUEUE, 10.0)
    assert lines(path) == [
        {
            "schema": "hpckit.command/1",
            "begun_s": begun_s,
            "duration_s": 2.5,
            "argv": list(SQUEUE),
            "returncode": 3,
        }
        for begun_s in (100.0, 102.5)
    ]


def test_a_new_log_is_its_owners_alone(path: Path) -> None:
    """The words of commands are nobody else's to read, whatever the umask."""
    before = os.umask(0)
    try:
        LoggedRunner(_Slow(FakeClock()), path, FakeClock()).run(SQUEUE, 10.0)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_command_is_run_as_it_was_given(path: Path) -> None:
    """Words, limit and environment reach the runner behind it unchanged."""
    behind = _Slow(FakeClock())
    LoggedRunner(behind, path, FakeClock()).run(SQUEUE, 10.0, {"A": "1"})
    LoggedRunner(behind, path, FakeClock()).run(SQUEUE, 10.0)
    assert behind.asked == [SQUEUE, SQUEUE]
    assert behind.environments == [{"A": "1"}, None]


@pytest.mark.parametrize(
    ("argv", "limit_s", "error"),
    [(("sacct",), 10.0, ToolMissing), (SQUEUE, 1.0, ToolTimeout)],
)
def test_a_command_without_an_answer_has_no_code(
    path: Path, argv: tuple[str, ...], limit_s: float, error: type[Exception]
) -> None:
    """A command that is missing or was ended is on record too, with None for its code."""
    clock = FakeClock()
    with pytest.raises(error):
        LoggedRunner(_Slow(clock), path, clock).run(argv, limit_s)
    (line,) = lines(path)
    assert (line["argv"], line["returncode"], line["duration_s"]) == (list(argv), None, 2.5)


def test_a_log_that_cannot_be_written_refuses_first(tmp_path: Path) -> None:
    """With an unwritable log nothing is run, and the error names the file and the variable."""
    behind = _Slow(FakeClock())
    with pytest.raises(StorageFailed, match=r"gone/log cannot be written: No such file") as raised:
        LoggedRunner(behind, tmp_path / "gone" / "log", FakeClock()).run(SQUEUE, 10.0)
    assert "HPCKIT_COMMAND_LOG" in str(raised.value.hint)
    assert behind.asked == []


def test_a_fifo_that_nobody_reads_refuses_first(tmp_path: Path) -> None:
    """A log that nobody takes up does not hang the command."""
    os.mkfifo(tmp_path / "log")
    clock = FakeClock()
    with pytest.raises(StorageFailed, match="cannot be written"):
        LoggedRunner(_Slow(clock), tmp_path / "log", clock).run(SQUEUE, 1.0)


def test_a_full_disk_does_not_change_the_answer() -> None:
    """When the line cannot be written after the run, the result is given all the same."""
    behind = FakeCommandRunner({SQUEUE: ANSWER})
    assert LoggedRunner(behind, Path("/dev/full"), FakeClock()).run(SQUEUE, 10.0) == ANSWER
