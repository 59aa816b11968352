"""Slurm's commands with answers given beforehand, in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from hpckit.core.errors import ToolMissing
from hpckit.core.process import CommandResult, HeardCommand

Answer = CommandResult | Exception
SEPARATOR = "\x1f"


class Late(CommandResult):
    """What a command printed before it was given up."""


def said(stdout: str = "", *, code: int = 0, stderr: str = "") -> CommandResult:
    """What a command answers."""
    return CommandResult(returncode=code, stdout=stdout, stderr=stderr)


def row(*fields: str) -> str:
    """A line of squeue or sacct."""
    return SEPARATOR.join(fields) + "\n"


class ScriptedRunner:
    """Gives each program's answers one after the other, the last one again and again.

    A program without answers is missing. `asked` has every argument list, `environments` the
    environment of each; `meanwhile` is called before each answer.
    """

    def __init__(
        self, meanwhile: Callable[[str], None] = lambda _program: None, **answers: Sequence[Answer]
    ) -> None:
        self._answers = {program: list(told) for program, told in answers.items()}
        self._meanwhile = meanwhile
        self.asked: list[tuple[str, ...]] = []
        self.environments: list[Mapping[str, str] | None] = []

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The next answer of the program."""
        self.asked.append(tuple(argv))
        self.environments.append(environment)
        self._meanwhile(argv[0])
        told = self._answers.get(argv[0])
        if not told:
            raise ToolMissing(f"{argv[0]} was not found", hint=f"install {argv[0]}")
        answer = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begun(self, *_commands: Sequence[str]) -> AbstractContextManager[None]:
        """Start nothing: the answers are there."""
        return nullcontext()

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """The next answers of the programs, their lines handed on; a Late one is late."""
        return [self._heard(argv, timeout_s, heard) for argv in commands]

    def _heard(
        self, argv: Sequence[str], timeout_s: float, heard: Callable[[str], None]
    ) -> HeardCommand:
        answer = self.run(argv, timeout_s)
        for line in answer.stdout.splitlines():
            heard(line)
        code = None if isinstance(answer, Late) else answer.returncode
        return HeardCommand(stderr=answer.stderr, returncode=code)

    @property
    def programs(self) -> list[str]:
        """The programs that were called, in order."""
        return [argv[0] for argv in self.asked]
