"""What every CommandRunner does."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ToolMissing, ToolTimeout
from hpckit.core.process import CommandListener, CommandResult, CommandRunner, HeardCommand

SPEAKING = ("sh", "-c", "echo out; echo err >&2; exit 3")
SLEEPING = ("sleep", "60")
SPEAKING_THEN_SLEEPING = ("bash", "-c", "echo first; echo second; exec sleep 60")


def test_both_streams_and_the_code_come_back(command_runner: CommandRunner) -> None:
    """A command that fails is no error: its words and its code are the result."""
    assert command_runner.run(SPEAKING, 10) == CommandResult(
        returncode=3, stdout="out\n", stderr="err\n"
    )


def test_what_was_begun_gives_its_answer(command_runner: CommandRunner) -> None:
    """Whether a question was begun or not, `run` gives its answer, and again the next time."""
    with command_runner.begun(SPEAKING):
        assert command_runner.run(SPEAKING, 10).stdout == "out\n"
        assert command_runner.run(SPEAKING, 10).stdout == "out\n"


def test_what_cannot_begin_is_said_where_it_is_asked_for(command_runner: CommandRunner) -> None:
    """A program that is not there raises ToolMissing when its answer is asked for."""
    missing = ["no-such-tool", "--help"]
    with (
        command_runner.begun(missing),
        pytest.raises(ToolMissing, match="no-such-tool was not found"),
    ):
        command_runner.run(missing, 10)


def test_a_missing_program_says_what_to_do(command_runner: CommandRunner) -> None:
    """A program that is not there raises ToolMissing with its name and a hint."""
    with pytest.raises(ToolMissing, match="no-such-tool was not found") as caught:
        command_runner.run(["no-such-tool", "--help"], 10)
    assert caught.value.hint


def test_a_command_that_takes_too_long_is_ended(command_runner: CommandRunner) -> None:
    """After timeout_s the command raises ToolTimeout with its argument list."""
    with pytest.raises(ToolTimeout, match=r"sleep 60 did not answer within 0\.2 s") as caught:
        command_runner.run(SLEEPING, 0.2)
    assert caught.value.argv == SLEEPING


def test_lines_are_heard_and_the_end_is_told(command_listener: CommandListener) -> None:
    """Each line of stdout is handed to `heard`; stderr and the code come back."""
    lines: list[str] = []
    (ended,) = command_listener.listen([SPEAKING], 10, lines.append)
    assert (lines, ended) == (["out"], HeardCommand(stderr="err\n", returncode=3))


def test_a_late_command_was_heard_and_hides_no_other(command_listener: CommandListener) -> None:
    """What a command said before the time was up counts, and so does another that ended."""
    lines: list[str] = []
    late, ended = command_listener.listen([SPEAKING_THEN_SLEEPING, SPEAKING], 2, lines.append)
    assert late.is_late
    assert ended.returncode == 3
    assert sorted(lines) == ["first", "out", "second"]


def test_nobody_listens_to_what_is_missing(command_listener: CommandListener) -> None:
    """A program that is not there raises ToolMissing."""
    with pytest.raises(ToolMissing):
        command_listener.listen([("no-such-tool",)], 10, print)
