"""What a rule about settings of communication is, and what its test sees.

A rule is a row of data: which variable, which value, beside which other, on which releases and
where. Only what no pattern can say has a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from hpckit.core.finding_lines import finding_lines, more_lines, next_lines, verdict, words_of
from hpckit.core.findings import Rule, Severity, SourcedFinding, gravest_first
from hpckit.core.late import regex
from hpckit.core.text import Line, Style, visible, wrapped
from hpckit.core.values import dataclass
from hpckit.spec.platform import CommLibrary, CommSetting, NcclVersion, NetPlugin

# --- Settings of communication as a file makes them, and what is wrong with them.
# A file is a script, what `env` printed, a job file or an nccl.conf; nothing of it is executed.


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
class Setting:
    """One variable that a file sets, or a long option of `program` with its dashes.

    `line` is from 1. `value` is None where the shell computes it, and of an option that has none.
    `form` is None for an option. `until_line` is the last line on which it stands: that of its
    command, or where it is unset or set anew; None to the end. `instead_of` is another value that
    the file gives it in vain: no command, or no reader, ever sees that one. `is_conditional` where
    it holds in some runs only: in a branch, as a default, or where a branch sets it anew.
    `commands_before` is how many commands of a script come before it; `is_passed` where the script
    itself says `$NAME` somewhere.
    """

    name: str
    value: str | None
    line: int
    form: SettingForm | None = None
    program: str | None = None
    until_line: int | None = None
    instead_of: LostValue | None = None
    is_conditional: bool = False
    commands_before: int = 0
    is_passed: bool = False

    def meets(self, other: Setting) -> bool:
        """Whether some command sees both."""
        return (other.until_line is None or self.line <= other.until_line) and (
            self.until_line is None or other.line <= self.until_line
        )

    def covers(self, other: Setting) -> bool:
        """Whether every command that sees another one sees this too."""
        is_longer = self.until_line is None or (
            other.until_line is not None and other.until_line <= self.until_line
        )
        return is_longer and self.commands_before <= other.commands_before

    @property
    def is_of_one_command(self) -> bool:
        """Whether it stands for one command alone."""
        is_option = self.form is None or self.form is SettingForm.OPTION
        return self.form is SettingForm.PREFIX or (is_option and self.until_line is not None)

    @property
    def text(self) -> str:
        """How it is named beside another: `A=b on line 3`."""
        said = self.name if self.value is None else f"{self.name}={self.value}"
        return f"{said} on line {self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables that a file sets and the options it gives, in the order of its lines.

    `has_commands` is False for a script of assignments alone, which others read, `has_steps` for
    one that starts nothing with srun.
    """

    kind: SettingsKind
    assignments: tuple[Setting, ...] = ()
    options: tuple[Setting, ...] = ()
    has_commands: bool = True
    has_steps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFacts:
    """Where the settings are to hold; what is not known is None.

    `interfaces` are the node's network interfaces (`eth0`), `nics` its RDMA devices (`mlx5_0`).
    `plugin` is what carries NCCL's traffic, `nodes` how many the job has, `is_vm` whether they are
    virtual machines, `has_nvlink` whether NVLink or XGMI joins their GPUs. `derived` is what hpckit
    itself sets there.
    """

    interfaces: tuple[str, ...] | None = None
    nics: tuple[str, ...] | None = None
    plugin: NetPlugin | None = None
    nodes: int | None = None
    is_vm: bool | None = None
    has_nvlink: bool | None = None
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


ENV_RST: Final = "NCCL user guide, env.rst"
LINT_DATE: Final = "2026-11"
SURELY_SINCE: Final = NcclVersion(2, 18)
"""What a job loads whose NCCL is not known, at the least: PyTorch brings a later one since 2.2."""


_GPUS: Final = regex(r"(?:gres/)?(?:gpu[:=])?(?:[a-z][\w.-]*:)?(\d{1,3})", re.ASCII | re.IGNORECASE)
_LINKED_GPU: Final = regex(r"\b([abhv]\d00|g[bh]\d00|mi\d{3}[ax]?)\b", re.IGNORECASE)
_COLLECTIVE: Final = ("NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_")


def held_from(version: NcclVersion | None, release: str | None) -> bool | None:
    """Whether a release is `release` or later; None where that is not known.

    A line without its last number may be either; one that is not known is `SURELY_SINCE` or later.
    """
    if release is None:
        return True
    first = NcclVersion.of(release)
    if version is None:
        return True if first <= SURELY_SINCE else None
    is_line = version.micro == 0 and (version.major, version.minor) == (first.major, first.minor)
    return None if is_line and first.micro else version >= first


def held_before(version: NcclVersion | None, release: str | None) -> bool | None:
    """Whether a release is earlier than `release`; None where that is not known."""
    if release is None:
        return True
    is_later = held_from(version, release)
    return None if is_later is None else not is_later


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All settings of a file, by name, and where they are to hold.

    Of one name those that last come first, then those of one command, each by line.
    """

    by_name: Mapping[str, Sequence[Setting]]
    nccl: NcclVersion | None
    library: CommLibrary | None
    facts: LintFacts
    derived: Mapping[str, CommSetting] = field(default_factory=dict)
    has_steps: bool = True

    def beside(self, one: Setting, name: str) -> Iterator[Setting]:
        """The settings of another name that stand together with this one."""
        return (other for other in self.by_name.get(name, ()) if one.meets(other))

    @property
    def nodes(self) -> int | None:
        """How many nodes the job has: as the facts say, else as sbatch is told; None if neither."""
        if self.facts.nodes is not None or "--nodes" not in self.by_name:
            return self.facts.nodes
        said = {one.value for one in self.by_name["--nodes"] if one.program == "sbatch"}
        count = said.pop() if len(said) == 1 else None
        return int(count) if count is not None and re.fullmatch(r"\d{1,6}", count) else None

    @property
    def gpus_per_node(self) -> int | None:
        """How many GPUs the job asks of a node; None where that is not plain."""
        names = ("--gpus-per-node", "--gres", *(["--gpus"] if self.nodes == 1 else []))
        said = {one.value for name in names for one in self.by_name.get(name, ())}
        counts = {int(m[1]) for value in said if (m := _GPUS.fullmatch(value or ""))}
        return counts.pop() if len(counts) == len(said) == 1 else None

    @property
    def is_exclusive(self) -> bool:
        """Whether sbatch is told that no other job runs on the nodes."""
        said = self.by_name.get("--exclusive", ())
        return any(one.program == "sbatch" and one.value is None for one in said)

    @property
    def has_peers(self) -> bool:
        """Whether the GPUs surely reach each other: NVLink, or a kind made for it is asked for."""
        names = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task")
        asked = (one.value or "" for name in names for one in self.by_name.get(name, ()))
        return self.facts.has_nvlink is True or any(map(_LINKED_GPU.search, asked))

    @property
    def has_collectives(self) -> bool:
        """Whether the file sets what only programs with NCCL or RCCL read."""
        return any(name.startswith(_COLLECTIVE) for name in self.by_name)

    def is_one_of_several(self, one: Setting) -> bool:
        """Whether commands of the file get different values, as one that compares them gives."""
        others = self.by_name[one.name]
        return one.is_of_one_command and any(other.value != one.value for other in others)


class Seen(NamedTuple):
    """What a test saw, for `{seen}`, and what to do, for `{do}`.

    Where `is_sure` is False the finding is a note. `since` is the release that matters, `other`
    the setting beside which the rule holds.
    """

    words: str = ""
    do: str = ""
    since: str | None = None
    is_sure: bool = True
    other: Setting | None = None


Test = Callable[[Setting, Scene], Seen | str | bool | None]
"""Whether something holds of a setting: what was seen, its words alone, or that it is so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRule(Rule[Test | None]):
    """One thing that may be wrong with a setting; `when` is what no pattern can say.

    `names` are variables, or options with their dashes; `*` at the end stands for any rest.
    `value` is a pattern for the whole value in any case, None for any value and for one that the
    shell computes. `beside` is (another name, a pattern for its value or None) that must stand
    with it, `without` a name that must not. `since` and `before` bound the releases of NCCL on
    which the rule holds; where the release is not known, the finding is a note. `nodes` is
    "one", "many", or "not one"; where nobody says how many, the last gives a note. `is_mistake`
    says that the line is wrong in every run; what else holds in some runs only is a note. In
    `because` and `remedy`, `{name}`, `{value}`, `{other}`, `{seen}` and `{do}` stand for what was
    found. Where `is_fallback`, it is told where no other rule speaks.
    """

    names: tuple[str, ...]
    date: str = LINT_DATE
    when: Test | None = None
    value: str | None = None
    beside: tuple[str, str | None] | None = None
    without: str | None = None
    since: str | None = None
    before: str | None = None
    library: CommLibrary | None = None
    plugins: tuple[NetPlugin, ...] = ()
    nodes: str | None = None
    is_vm: bool | None = None
    forms: tuple[SettingForm, ...] = ()
    is_mistake: bool = False
    is_fallback: bool = False

    def is_open_to(self, name: str) -> bool:
        """Whether a name begins as one of its names whose rest is free."""
        return any(each[-1] == "*" and name.startswith(each[:-1]) for each in self.names)


def _row(
    severity: Severity,
    name: str,
    names: str | tuple[str, ...],
    *,
    because: str,
    remedy: str = "remove it",
    source: str = ENV_RST,
    **conditions: Any,
) -> LintRule:
    """Return a rule; `names` may be words, `conditions` are the other fields of LintRule."""
    about = tuple(names.split()) if isinstance(names, str) else names
    return LintRule(
        name=name, severity=severity, names=about, because=because, remedy=remedy, source=source,
        **conditions,
    )  # fmt: skip


error: Final = partial(_row, Severity.ERROR)
warning: Final = partial(_row, Severity.WARNING)
note: Final = partial(_row, Severity.NOTE)


def match_of(rule: LintRule, one: Setting, scene: Scene) -> Seen | None:
    """What is seen where a rule that is about this name holds for a setting, else None."""
    if not _has_value(rule.value, one.value) or not _is_here(rule, one, scene):
        return None
    other = _other(rule, one, scene)
    if (rule.beside is not None and other is None) or (
        rule.without is not None and any(scene.beside(one, rule.without))
    ):
        return None
    held = {held_from(scene.nccl, rule.since), held_before(scene.nccl, rule.before)}
    if False in held:
        return None
    said = True if rule.when is None else rule.when(one, scene)
    if not said:
        return None
    seen = said if isinstance(said, Seen) else Seen(said if isinstance(said, str) else "")
    is_open = rule.nodes == "not one" and scene.nodes is None
    in_some_runs = one.is_conditional or (other is not None and other.is_conditional)
    is_sure = seen.is_sure and None not in held and not is_open
    return seen._replace(is_sure=is_sure and (rule.is_mistake or not in_some_runs), other=other)


def _is_here(rule: LintRule, one: Setting, scene: Scene) -> bool:
    """Whether the place is the rule's: library, plugin, nodes, machine and way of setting."""
    facts, nodes = scene.facts, scene.nodes
    wanted = {
        None: True,
        "one": nodes == 1,
        "many": nodes is not None and nodes > 1,
        "not one": nodes != 1,
    }
    return (
        (rule.library is None or rule.library is scene.library)
        and (not rule.plugins or facts.plugin in rule.plugins)
        and wanted[rule.nodes]
        and (rule.is_vm is None or rule.is_vm is facts.is_vm)
        and (not rule.forms or one.form in rule.forms)
    )


def _other(rule: LintRule, one: Setting, scene: Scene) -> Setting | None:
    """The setting beside which the rule holds, the first of several."""
    if rule.beside is None:
        return None
    name, pattern = rule.beside
    return next(
        (other for other in scene.beside(one, name) if _has_value(pattern, other.value)), None
    )


def _has_value(pattern: str | None, value: str | None) -> bool:
    if pattern is None or value is None:
        return pattern is None
    flags = re.IGNORECASE | re.ASCII | re.DOTALL
    return re.fullmatch(pattern, value.strip(), flags) is not None


# --- What is wrong with settings of communication, for a terminal: the count first, then each.

_MOST_SHOWN: Final = 30
_LONGEST: Final = 400


def comm_lint_lines(
    findings: Sequence[LintFinding], *, name: str, width: int = 80, command: str | None = None
) -> list[Line]:
    """The screen of `hpckit tune --lint`, in lines of at most `width` columns.

    `name` is the file, `command` what shows more; the last line says it, and is left out
    without a command. The gravest come first, then by line.
    """
    counts = verdict(findings, "nothing to change").split(" ")
    title = wrapped((f"{visible(name, _LONGEST)}:", *counts), width, further="  ")
    lines = [Line(text=text, style=Style.TITLE) for text in title]
    by_line = sorted(findings, key=lambda finding: finding.line_no or 0)
    for finding in gravest_first(by_line)[:_MOST_SHOWN]:
        subject = f"{visible(finding.subject, _LONGEST)}:"
        head = (f"line {finding.line_no}", subject, *words_of(finding.because))
        remedy = ("fix:", *words_of(finding.remedy))
        lines += finding_lines(finding.severity, head, remedy, width=width)
    lines += more_lines(len(findings) - _MOST_SHOWN)
    is_shown = findings and command and visible(command, _LONGEST) == command
    return [*lines, *next_lines([command])] if is_shown and command else lines
