"""What every CommandRunner does."""

from __future__ import annotations

import pytest

from hpckit.errors import ToolMissing, ToolTimeout
from hpckit.ports import CommandResult, CommandRunner

SPEAKING = ("sh", "-c", "echo out; echo err >&2; exit 3")
SLEEPING = ("sleep", "60")


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
