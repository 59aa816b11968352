"""Where a job will look for its libraries, as far as its file and this machine tell."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from hpckit.comm.communication import comm_choice, settings_in_setup
from hpckit.comm.environment import OwnSetting
from hpckit.comm.nccl_conf import ENVIRONMENT, Already, AlreadySet, fact_of
from hpckit.core.text import Line, Style, visible, wrapped
from hpckit.core.values import dataclass
from hpckit.script.environment import submission_environment
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CommLibrary, NcclVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclWhere:
    """Where a job runs, as far as it matters for what it loads.

    `environment` is the job's, and `set_by` says which of its keys sets a variable. `python` is a
    virtual environment, a conda prefix or an interpreter; None is the first on PATH.
    `account_home` is the account's home folder, which NCCL before 2.30 takes in place of HOME.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    set_by: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    workdir: str | None = None
    account_home: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCandidate:
    """A library that a job may load.

    `how` is what leads to it (`LD_LIBRARY_PATH`), `version_from` where its version was read, or
    why it is not known. `lost` is why it is not the one that counts.
    """

    library: CommLibrary
    path: str
    how: str
    version: NcclVersion | None = None
    version_from: str = ""
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNccl:
    """What a job will load; `chosen` None is that it is not known, and `because` says why."""

    chosen: NcclCandidate | None
    because: str
    others: tuple[NcclCandidate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def version(self) -> NcclVersion | None:
        """The version that will be loaded, None where it is not known."""
        return self.chosen.version if self.chosen else None

    @property
    def library(self) -> CommLibrary | None:
        """Whose it is."""
        return self.chosen.library if self.chosen else None


_LISTS = frozenset(("PATH", "LD_LIBRARY_PATH"))
"""What a shell mostly computes by adding to what was there."""
_RUNTIMES = frozenset(
    ("apptainer", "singularity", "enroot", "podman", "podman-hpc", "docker", "shifter", "sarus")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Whose job it is: the environment of the shell, HOME, and the account's own home folder."""

    environment: Mapping[str, str]
    home: str
    account_home: str | None = None


def job_place(spec: JobSpec, person: Person, workdir: str) -> NcclWhere:
    """Where the job's command looks for libraries.

    `workdir` is where the job runs: relative paths of the job are below it. Modules are not loaded
    here, and what a container holds is not known (`container_of`).
    """
    asked = spec.environment
    kept = submission_environment(person.environment, asked.inherit, asked.pass_).variables
    own = {one.name: one for one in _in_order(spec)}
    said = {name: one.value for name, one in own.items() if one.value is not None}
    inherited = {name: value for name, value in kept.items() if name not in own or name in _LISTS}
    return NcclWhere(
        environment={**inherited, **said},
        set_by={name: f"{one.where} of the job" for name, one in own.items()},
        python=_python(spec, person, workdir),
        workdir=workdir,
        account_home=person.account_home,
    )


def unseen(spec: JobSpec, person: Person) -> tuple[str, ...]:
    """What of the job's environment, and of the shell's, does not count here, in sentences."""
    asked = spec.environment
    held_back = submission_environment(person.environment, asked.inherit, asked.pass_).held_back
    own = {one.name: one for one in _in_order(spec)}
    held = [name for name in held_back if fact_of(name) and name not in own]
    unknown = [name for name, one in own.items() if one.value is None]
    computed = [name for name in unknown if name in _LISTS or fact_of(name)]
    lists = {
        "set in this shell, but not passed to the job (--pass NAME does)": held,
        "computed by the job's setup lines, so unknown here": sorted(computed),
        "modules are not loaded here, so what they set is unknown": asked.modules,
    }
    found = [f"{words}: {', '.join(names)}" for words, names in lists.items() if names]
    if asked.setup:
        found.append("setup lines are not run here, so what they load or call is unknown")
    return tuple(found)


def _in_order(spec: JobSpec) -> Iterator[OwnSetting]:
    """What the job sets, as its script does: the last one counts."""
    in_setup = settings_in_setup(spec)
    own = comm_choice(spec).own
    yield from (one for one in own if not one.is_exported)
    yield from in_setup
    yield from (one for one in own if one.is_exported)


def container_of(spec: JobSpec) -> str | None:
    """The image or name of what the job's command runs in by pyxis, else the runtime before it."""
    named = [spec.slurm.srun_extra.get(f"container-{of}") for of in ("image", "name")]
    runtime = posixpath.basename(spec.command[0])
    named += [f"of {runtime}"] if runtime in _RUNTIMES else []
    return next((str(one) for one in named if isinstance(one, str)), None)


def _python(spec: JobSpec, person: Person, workdir: str) -> str | None:
    named = spec.environment.venv or spec.environment.conda
    if named is None:
        program = spec.command[0]
        # Such as bin/python3.12; python_bench.sh is no interpreter.
        is_python = re.fullmatch(r"(.*/)python[\d.]*t?", program, re.ASCII | re.DOTALL)
        return posixpath.join(workdir, program) if is_python else None
    if named.startswith("~/"):
        return posixpath.join(person.home, named[2:])
    if spec.environment.conda is not None and "/" not in named:
        return posixpath.join(_conda_root(person), "envs", named)
    return posixpath.join(workdir, named)


def _conda_root(person: Person) -> str:
    """Where conda itself is installed: its executable lies in bin or condabin of that."""
    program = person.environment.get("CONDA_EXE")
    if program:
        return posixpath.dirname(posixpath.dirname(program))
    return person.environment.get("MAMBA_ROOT_PREFIX") or posixpath.join(person.home, "miniconda3")


# --- Which NCCL a job will load and what is set already, in lines for the terminal.

_LABEL: Final = 8
_LONGEST: Final = 4000
_LONGEST_VALUE: Final = 400
_Row = tuple[str, str, Style]
"""Label, text and style of one row."""


def nccl_found_lines(found: FoundNccl, *, width: int = 80) -> list[Line]:
    """The library that is loaded, what lost and why, in lines of 40 or more.

    What is not known is said so. All that came from files is shown without control characters.
    """
    rows = [("NCCL", _chosen(found), Style.PLAIN if found.chosen else Style.WARNING)]
    rows += [
        ("unused", f"{_named(other)}, {other.path} ({other.how}): {other.lost}", Style.FAINT)
        for other in found.others
    ]
    return list(_lines([*rows, *_noted(found.notes)], width))


def already_lines(already: Already, *, width: int = 80) -> list[Line]:
    """What is set already, by whom, and what that overrides; one line says that nothing is."""
    texts = [_setting(one) for one in already.settings]
    texts = texts or ["nothing, in the job's environment or in a configuration file of NCCL"]
    rows = [("set", text, Style.PLAIN) for text in texts]
    return list(_lines([*rows, *_noted(already.notes)], width))


def unseen_lines(unseen: Iterable[str], *, width: int = 80) -> list[Line]:
    """What was not looked at, a note each, in lines of 40 or more."""
    return list(_lines(_noted(unseen), width))


def _noted(notes: Iterable[str]) -> list[_Row]:
    return [("note", note, Style.NOTE) for note in notes]


def _chosen(found: FoundNccl) -> str:
    chosen = found.chosen
    if chosen is None:
        return f"unknown: {found.because}"
    by = f"{'from ' if chosen.version else ''}{chosen.version_from}"
    return f"{_named(chosen)}, {chosen.path} · {chosen.how} · version {by}"


def _named(candidate: NcclCandidate) -> str:
    return f"{candidate.library.upper()} {candidate.version or 'of unknown version'}"


def _setting(one: AlreadySet) -> str:
    text = f"{one.name}={_value(one.value)} · {_by(one.set_by)}"
    if one.overrides:
        lost = (f"{_value(other.value)} ({_by(other.set_by)})" for other in one.overrides)
        text += f" · overrides {', '.join(lost)}"
    return f"{text} · {one.remark}" if one.remark else text


def _by(set_by: str) -> str:
    """Who set it; the environment is the job's: of the shell's much is held back."""
    return "the job's environment" if set_by == ENVIRONMENT else set_by


def _value(value: str) -> str:
    """A value as a shell would need it, so that spaces in it are seen."""
    return visible(shlex.quote(value), _LONGEST_VALUE)


def _lines(rows: Iterable[_Row], width: int) -> Iterator[Line]:
    further = " " * (_LABEL + 2)
    before = None
    for label, text, style in rows:
        shown = "" if label == before else label
        before = label
        parts = tuple(visible(text, _LONGEST).split(" "))
        for line in wrapped(parts, width, first=f" {shown:<{_LABEL}} ", further=further):
            yield Line(text=line, style=style)
