"""Settings of communication as a file makes them, and what is wrong with them.

A file is a script, what `env` printed, a job file or an nccl.conf; nothing of it is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpckit.core.findings import SourcedFinding
from hpckit.model.comm import CommSetting, NetPlugin


class SettingsKind(StrEnum):
    """What a file of settings is."""

    SCRIPT = "script"
    ENV = "env"
    CONF = "nccl.conf"
    JOB = "job file"


class SettingForm(StrEnum):
    """How a variable is set.

    SHELL is `A=b` alone: a variable of the shell, which no program sees until it is exported.
    OPTION is one of a launcher's, such as `srun --export=ALL,A=b` or `mpirun -x A=b`, and CUT one
    on a line of its own, which no launcher gets.
    """

    EXPORT = "export"
    SHELL = "shell"
    PREFIX = "prefix"
    OPTION = "option"
    CUT = "cut off"
    JOB = "job file"
    CONF = "nccl.conf"
    ENV = "env"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostValue:
    """A value that a file gives a variable, on which line, and that never counts."""

    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One variable that a file sets, on which line (from 1).

    `value` is None where the shell computes it. `until_line` is the last line on which it stands:
    that of its command, or where it is unset or set anew; None to the end. `instead_of` is another
    value that the file gives it in vain: no command, or no reader, ever sees that one.
    """

    name: str
    value: str | None
    line: int
    form: SettingForm
    until_line: int | None = None
    instead_of: LostValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOption:
    """A long option of `sbatch` or `srun`, without its dashes; `value` None where it has none.

    `until_line` is the last line of its command, None for a directive of the whole script.
    """

    program: str
    name: str
    value: str | None
    line: int
    until_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a file sets, in the order of its lines."""

    kind: SettingsKind
    assignments: tuple[Assignment, ...] = ()
    options: tuple[LaunchOption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFacts:
    """Where the settings are to hold; what is not known is None.

    `interfaces` are the node's network interfaces (`eth0`), `nics` its RDMA devices (`mlx5_0`).
    `plugin` is what carries NCCL's traffic, `nodes` how many the job has, `is_vm` whether they are
    virtual machines. `derived` is what hpckit itself sets there.
    """

    interfaces: tuple[str, ...] | None = None
    nics: tuple[str, ...] | None = None
    plugin: NetPlugin | None = None
    nodes: int | None = None
    is_vm: bool | None = None
    derived: tuple[CommSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding(SourcedFinding):
    """One setting that is obsolete, harmful, contradictory or useless, and what to do about it.

    `rule` is its name in docs/reference/lint-rules.md, `subject` the variable, or an option with
    its dashes. `since` is the release of NCCL from which it is so, None where that does not matter.
    `date` is that of the source.
    """

    line_no: int
    date: str
    since: str | None = None
