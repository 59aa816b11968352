"""What every CommandRunner does."""

from __future__ import annotations

import pytest

from hpckit.errors import ToolMissing, ToolTimeout
from hpckit.ports import CommandListener, CommandResult, CommandRunner

SPEAKING = ("sh", "-c", "echo out; echo err >&2; exit 3")
SLEEPING = ("sleep", "60")
SPEAKING_THEN_SLEEPING = ("bash", "-c", "echo first; echo second; exec sleep 60")


def test_both_streams_and_the_code_come_back(command_runner: CommandRunner) -> None:
    """A command that fails is no error: its words and its code are the result."""
    assert command_runner.run(SPEAKING, 10) == CommandResult(
        returncode=3, stdout="out\n", stderr="err\n"
    )


def test_a_missing_program_says_what_to_do(command_runner: CommandRunner) -> None:
    """A program that is not there raises ToolMissing with its name and a hint."""
    with pytest.raises(ToolMissing, match="no-such-tool was not found") as caught:
        command_runner.run(["no-such-tool", "--help"], 10)
    assert caught.value.hint


def test_a_command_that_takes_too_long_is_ended(command_runner: CommandRunner) -> None:
    """After timeout_s the command raises ToolTimeout with its argument list."""
    with pytest.raises(ToolTimeout, match=r"sleep 60 gave no answer within 0\.2 s") as caught:
        command_runner.run(SLEEPING, 0.2)
    assert caught.value.argv == SLEEPING


def test_lines_are_heard_as_well_as_returned(command_listener: CommandListener) -> None:
    """Each line of stdout is handed to `heard`, and the result holds all of them."""
    lines: list[str] = []
    result = command_listener.listen(SPEAKING, 10, lines.append)
    assert (lines, result.stdout, result.returncode) == (["out"], "out\n", 3)


def test_what_was_said_before_the_end_of_patience_was_heard(
    command_listener: CommandListener,
) -> None:
    """The lines of a command that takes too long are handed on before ToolTimeout is raised."""
    lines: list[str] = []
    with pytest.raises(ToolTimeout):
        command_listener.listen(SPEAKING_THEN_SLEEPING, 0.5, lines.append)
    assert lines == ["first", "second"]
