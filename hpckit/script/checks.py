"""Requests that cannot be met, found before anything is written or submitted."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from hpckit.core.errors import ConfigError, PlanError
from hpckit.core.findings import Level, Notice
from hpckit.core.late import regex
from hpckit.core.units import counted
from hpckit.script.container import runtime_of
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.script.segment import check_segment
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import EffectiveJob, OriginKind
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.platform import ContainerRuntime
from hpckit.spec.site import SiteSpec


def check_job(spec: JobSpec, site: SiteSpec, launchers: Launchers = LAUNCHERS) -> None:
    """Raise PlanError for a job that contradicts itself or its site.

    ConfigError for a command that no program is.
    """
    _check_command(spec.command)
    local = site.submitter is SubmitterKind.LOCAL
    if local:
        _check_local(spec, site)
    _check_mesh(spec, local=local)
    launchers[spec.launch.kind].check(spec)
    check_segment(spec, site)


_BUILTINS: Final = frozenset(
    (".", "source", "cd", "export", "alias", "unalias", "set", "unset", "eval", "ulimit", "umask",
     "shopt", "declare", "local", "let", "read", "trap", "pushd", "popd", "if", "for", "while",
     "until", "case", "function", "{")
)  # fmt: skip
"""Words that are a shell's own, of which no program has the name or does the same."""
_SHELL: Final = regex(r"[|&;<>$`*]")
_PROGRAMS: Final = {".py": "python3", ".sh": "bash", ".jl": "julia", ".r": "Rscript"}


def _check_command(command: Sequence[str]) -> None:
    """Raise ConfigError where the first word is a whole line, an assignment or a shell's own."""
    first, rest = command[0], shlex.join(command[1:])
    hint = None
    if re.match(r"[A-Za-z_]\w*=", first) and not rest:
        hint = f"--env {shlex.quote(first)} -- COMMAND"
    elif re.match(r"[A-Za-z_]\w*=", first):
        hint = f"--env {shlex.quote(first)} -- {rest}"
    elif first == "conda" and command[1:2] == ("activate",):
        hint = f"--set {shlex.quote(f'environment.conda={shlex.join(command[2:])}')} -- COMMAND"
    elif first in ("module", "ml"):
        names = [word for word in command[1:] if word not in ("load", "add")]
        hint = "--set " + shlex.quote(f"environment.modules={json.dumps(names)}") + " -- COMMAND"
    elif first in _BUILTINS or (" " in first and _SHELL.search(first)):
        line = " ".join(command)
        hint = f"-- bash -c {shlex.quote(line if first in _BUILTINS else first)}"
    elif " " in first and ("/" not in first.partition(" ")[0] or " -" in first):
        hint = f"-- {' '.join([first, rest]).strip()}"
    if hint is not None:
        raise ConfigError(f"no program is called {first!r}", key="command", hint=hint)


_OPERATORS: Final = frozenset(("&&", "||", "2>&1"))
_REFERENCE: Final = regex(
    r"(?:[\w./+,@%${}:-]*[/:])?\$(?:\{[A-Z_][A-Z0-9_]*\}|[A-Z_][A-Z0-9_]*)"
    r"(?:[/:][\w./:+,@%${}-]*)?",
    re.ASCII,
)
"""A path or a list of paths with a variable in it: in other values `$` may be meant as it is."""


def notices(spec: JobSpec) -> Iterator[Notice]:
    """Yield what a shell would do with the command and the variables, and hpckit does not."""
    command = spec.command
    path = PurePosixPath(command[0])
    program = _PROGRAMS.get(path.suffix.lower())
    if program is not None and "/" not in command[0]:
        text = f"{path} is looked for in PATH, not in the job's folder: -- {program} "
        yield Notice(level=Level.NOTE, subject="command", text=text + shlex.join(command))
    operator = next((word for word in command if word in _OPERATORS), None)
    if operator is not None:
        line = " ".join(word if word in _OPERATORS else shlex.quote(word) for word in command)
        text = f"no shell reads {operator!r}: -- bash -c {shlex.quote(line)}"
        yield Notice(level=Level.NOTE, subject="command", text=text)
    for name, value in spec.environment.set.items():
        if _REFERENCE.fullmatch(value):
            line = f"setup = {json.dumps([f'export {name}={value}'])}"
            text = f"the $ in {name} is not expanded; a shell expands: {line}"
            yield Notice(level=Level.NOTE, subject="environment.set", text=text)


_NEEDS_SCHEDULER = ("resources.gpu", "resources.mem", "resources.exclusive", "slurm.", "place.")


_FOR_ALL_JOBS = (OriginKind.DEFAULT, OriginKind.USER)


def not_applied(effective: EffectiveJob, site: SiteSpec) -> tuple[str, ...]:
    """Keys of this job that its site, having no scheduler, does nothing with."""
    if site.submitter is not SubmitterKind.LOCAL:
        return ()
    return tuple(
        one.key
        for one in effective.origins
        if one.origin not in _FOR_ALL_JOBS and one.key.startswith(_NEEDS_SCHEDULER)
    )


def _check_mesh(spec: JobSpec, *, local: bool) -> None:
    need = spec.mesh_ranks
    if need is None or need == spec.ntasks:
        return
    mesh = " × ".join(f"{axis} {size}" for axis, size in spec.parallel.items())
    per_node = spec.ntasks_per_node
    hint = f"change the mesh so that its sizes multiply to {spec.ntasks}"
    nodes = spec.resources.nodes
    if local or need == nodes * (spec.resources.gpus_per_node or 0):
        hint = f"--ntasks-per-node {need // nodes}, or {hint}"
    elif need % per_node == 0:
        hint = f"--nodes {need // per_node}, or {hint}"
    raise PlanError(
        "parallel mesh",
        have=f"{counted(spec.ntasks, 'rank')} ({counted(nodes, 'node')} × {per_node})",
        need=f"{counted(need, 'rank')} ({mesh})",
        hint=hint,
    )


def _check_local(spec: JobSpec, site: SiteSpec) -> None:
    if spec.resources.nodes > 1:
        raise PlanError(
            f"site {site.name} is this machine only",
            have="1 node",
            need=counted(spec.resources.nodes, "node"),
            hint="--nodes 1, or a site with Slurm",
        )
    if spec.container.image and runtime_of(spec, site) is ContainerRuntime.PYXIS:
        raise PlanError(
            "Pyxis is an srun plugin",
            have=f"site {site.name}, without Slurm",
            need="Apptainer or Singularity",
            hint='container.runtime = "apptainer"',
        )
    if spec.slurm.array is not None:
        raise PlanError(
            f"site {site.name} has no scheduler to run job arrays",
            have="one job",
            need=f"array {spec.slurm.array}",
            hint="remove slurm.array to run one task, or use a site with Slurm",
        )
