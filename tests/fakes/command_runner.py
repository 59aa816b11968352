"""External commands with answers given beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from hpckit.core.errors import ToolMissing, ToolTimeout
from hpckit.core.process import CommandResult, HeardCommand


class FakeCommandRunner:
    """Answers each argument list from `answers`; a program in none of them is missing.

    `duration_s` is how long the commands of a program take, 0 unless given.
    """

    def __init__(
        self,
        answers: Mapping[tuple[str, ...], CommandResult],
        duration_s: Mapping[str, float] | None = None,
    ) -> None:
        self._answers = answers
        self._duration_s = duration_s or {}
        self.asked: list[tuple[str, ...]] = []

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The answer for `argv`. Raises ToolMissing, ToolTimeout."""
        self.asked.append(tuple(argv))
        if self._duration_s.get(argv[0], 0.0) > timeout_s:
            raise ToolTimeout(argv, timeout_s)
        if argv[0] not in {known[0] for known in self._answers}:
            raise ToolMissing(f"{argv[0]} was not found", hint=f"install {argv[0]}")
        return self._answers[tuple(argv)]

    def begun(self, *_commands: Sequence[str]) -> AbstractContextManager[None]:
        """Start nothing: the answers are there."""
        return nullcontext()

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """The answers, their lines handed on; a program that takes too long is late."""
        return [self._heard(argv, timeout_s, heard) for argv in commands]

    def _heard(
        self, argv: Sequence[str], timeout_s: float, heard: Callable[[str], None]
    ) -> HeardCommand:
        known = self._answers.get(tuple(argv))
        for line in known.stdout.splitlines() if known is not None else ():
            heard(line)
        try:
            answer = self.run(argv, timeout_s)
        except ToolTimeout:
            return HeardCommand(stderr="")
        return HeardCommand(stderr=answer.stderr, returncode=answer.returncode)
