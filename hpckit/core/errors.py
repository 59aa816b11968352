"""Every exception of hpckit: one class a remedy, the exit code on the class.

::

    HpckitError 1               the answer is no (a check failed, the job failed)
    ├─ NoSuchJob                no job has the id that was asked for
    ├─ ConfigError 3            a file or an option is wrong
    ├─ ParseError 4             foreign text is not what its format promises
    ├─ PlanError 5              the request cannot be met
    │  └─ JobRefused            checks found what Slurm or the site would refuse
    ├─ RenderError 6            a template or a value cannot become a script
    └─ AdapterError 7           the world outside answered no
       ├─ ToolMissing           a program or library is absent
       ├─ ToolFailed            a program ended with a non-zero code
       ├─ ToolTimeout           a program did not end in time
       ├─ SchedulerRefused      Slurm said no, in its own words
       ├─ SchedulerUnreachable  Slurm did not answer
       ├─ SubmissionUnconfirmed Slurm may have taken the job: do not submit it again yet
       └─ StorageFailed         a file or folder cannot be written or read
          └─ NoSuchFile         there is none under this name

Usage errors of the command line exit 2 (click), a bug 70, Ctrl-C 130.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class HpckitError(Exception):
    """The answer is no; the message says what was got, what was expected and what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  fix: {self.hint}"


class NoSuchJob(HpckitError):
    """No job has the id that was asked for, or it is none."""

    def __init__(self, message: str, *, also: str | None = None) -> None:
        """Take what else than an id it may be with `also`."""
        hint = "hpckit jobs lists them"
        super().__init__(message, hint=f"{hint}; {also}" if also else hint)


class ConfigError(HpckitError):
    """A job file, site file or option holds a key or value that hpckit cannot accept."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = ": ".join(part for part in (source, key) if part)
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.reason = message
        self.source = source
        self.key = key


class ParseError(HpckitError):
    """Text from a tool or file is not in its format; shows the line and a caret."""

    exit_code = 4

    def __init__(
        self, message: str, *, tool: str, line_no: int, line: str, column: int = 1, expected: str
    ) -> None:
        caret = " " * (column - 1) + "^"
        super().__init__(
            f"{tool}, line {line_no}: {message}; expected {expected}\n    {line}\n    {caret}"
        )
        self.tool = tool
        self.what = message
        self.line_no = line_no
        self.line = line
        self.expected = expected


class PlanError(HpckitError):
    """A request cannot be met: what limits it, what there is, what it needs."""

    exit_code = 5

    def __init__(self, constraint: str, *, have: str, need: str, hint: str | None = None) -> None:
        super().__init__(f"{constraint}: have {have}, need {need}", hint=hint)
        self.constraint = constraint
        self.have = have
        self.need = need


class JobRefused(PlanError):
    """Checks found that a job cannot run as it stands, before Slurm saw it.

    `findings` are (subject, text, fix), at least one.
    """

    def __init__(self, findings: Sequence[tuple[str, str, str | None]]) -> None:
        subject, text, fix = findings[0]
        message, hint = f"{subject}: {text}", fix
        if len(findings) > 1:
            lines = [
                f"{one}: {what}" + (f"\n    fix: {how}" if how else "")
                for one, what, how in findings
            ]
            message, hint = "\n  ".join([f"{len(findings)} problems", *lines]), None
        HpckitError.__init__(self, f"this job cannot run: {message}", hint=hint)
        self.findings = tuple(findings)


class RenderError(HpckitError):
    """A template is wrong, or a value cannot be written into a script."""

    exit_code = 6

    def __init__(
        self, message: str, *, template: str | None = None, variable: str | None = None
    ) -> None:
        where = ": ".join(part for part in (template, variable) if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.template = template
        self.variable = variable


class AdapterError(HpckitError):
    """The world outside hpckit (a tool, a file system, a scheduler) answered no."""

    exit_code = 7


class ToolMissing(AdapterError):
    """A program or library that this command needs is not installed here."""


def _joined(argv: Sequence[str]) -> str:
    import shlex

    text = shlex.join(argv)
    return "".join(char if char.isprintable() else "|" for char in text)


class ToolFailed(AdapterError):
    """A program ended with a non-zero code; its own words are kept."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        words = stderr.strip() or "no error message"
        super().__init__(f"{_joined(argv)} failed with exit code {returncode}: {words}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr


class ToolTimeout(AdapterError):
    """A program did not end within its limit and was ended; `stderr` is what it said until then."""

    def __init__(self, argv: Sequence[str], timeout_s: float, stderr: str = "") -> None:
        super().__init__(f"{_joined(argv)} did not answer within {timeout_s:g} s and was killed")
        self.argv = tuple(argv)
        self.timeout_s = timeout_s
        self.stderr = stderr


class StorageFailed(AdapterError):
    """A file or folder could not be read or written; says which and why."""


class NoSuchFile(StorageFailed):
    """A file that was to be read is not there; often it need not be."""


class NotRecorded(StorageFailed):
    """A job was started, and that could not be written down; says its id."""


class SchedulerRefused(AdapterError):
    """Slurm refused a request; the message holds its own words."""


class SchedulerUnreachable(AdapterError):
    """Slurm did not answer, and nothing was changed there."""


class SubmissionUnconfirmed(AdapterError):
    """A submission reached Slurm, perhaps, and its answer did not come back."""


class InvalidValue(ValueError):
    """A field holds a value outside its rule; carries the key, what was got and expected."""

    def __init__(self, key: str, got: object, expected: str) -> None:
        super().__init__(f"got {got!r}, expected {expected}")
        self.key = key
        self.got = got
        self.expected = expected
