"""What is set of the communication environment before hpckit sets anything, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

ENVIRONMENT: Final = "environment"


class ConfEntry(NamedTuple):
    """A line of a configuration file that sets a variable."""

    name: str
    value: str
    line_no: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A value that does not count, and who gave it."""

    value: str
    set_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySet:
    """A variable that has its value already.

    `set_by` is the job's key (`[tune] env of the job`), `environment` for what comes from the
    shell, or a file and its line: `/etc/nccl.conf line 3`. `overrides` are the
    values that lost, in the order in which they would have counted. `remark` is what a person
    who set it so may not expect.
    """

    name: str
    value: str
    set_by: str
    overrides: tuple[Overridden, ...] = ()
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Already:
    """All that is set already, by name, the files that were read, and what is to be known of them.

    `files` are those that there are, the one that counts most first.
    """

    settings: tuple[AlreadySet, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, name: str) -> AlreadySet | None:
        """The setting of this name, None where nobody set it."""
        return next((one for one in self.settings if one.name == name), None)
