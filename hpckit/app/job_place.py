"""Where a job will look for its libraries, as far as its file and this machine tell."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpckit.app.own_settings import settings_in_setup
from hpckit.decide.comm_choice import comm_choice
from hpckit.decide.comm_env import OwnSetting
from hpckit.decide.shell_environment import submission_environment
from hpckit.model.job import JobSpec
from hpckit.model.nccl_found import NcclWhere
from hpckit.parse.nccl_conf import is_told
from hpckit.script.launchers.registry import LAUNCHERS

_IMAGES = (".sqsh", ".sif", ".simg", ".squashfs")
_LISTS = frozenset(("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"))
"""What a shell mostly computes by adding to what was there."""
_REGISTRIES = tuple(
    f"{kind}://"
    for kind in ("docker", "oras", "library", "shub", "oci", "docker-archive", "oci-archive",
                 "docker-daemon", "dockerd", "podman")
)  # fmt: skip
"""How an image begins that is fetched or unpacked first."""
_OPTIONS = ("container-image", "container-name")
"""Of srun, by pyxis."""
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
        program=_program(spec),
        workdir=workdir,
        account_home=person.account_home,
    )


def unseen(spec: JobSpec, person: Person) -> tuple[str, ...]:
    """What of the job's environment, and of the shell's, does not count here, in sentences."""
    asked = spec.environment
    held_back = submission_environment(person.environment, asked.inherit, asked.pass_).held_back
    own = {one.name: one for one in _in_order(spec)}
    held = [name for name in held_back if is_told(name) and name not in own]
    computed = [name for name, one in own.items() if one.value is None and _matters(name)]
    found = []
    if held:
        names = ", ".join(held)
        found.append(f"set here but held back, unless --pass names it: {names}")
    if computed:
        names = ", ".join(sorted(computed))
        found.append(f"setup lines compute a value that is not known here: {names}")
    if spec.environment.modules:
        names = ", ".join(spec.environment.modules)
        found.append(f"modules are not loaded here, so what they bring is not seen: {names}")
    if spec.environment.setup:
        found.append("setup lines are not run here: what they load or call is not seen")
    return tuple(found)


def _matters(name: str) -> bool:
    return name in _LISTS or is_told(name)


def _in_order(spec: JobSpec) -> Iterator[OwnSetting]:
    """What the job sets, as its script does: the last one counts."""
    in_setup = settings_in_setup(spec)
    own = comm_choice(spec).own
    yield from (one for one in own if not one.is_exported)
    yield from in_setup
    yield from (one for one in own if one.is_exported)


def container_of(spec: JobSpec) -> str | None:
    """The image, folder or name of what the job's command runs in; the runtime without one."""
    named = [spec.slurm.srun_extra.get(option) for option in _OPTIONS]
    runtime = posixpath.basename(spec.command[0])
    if runtime in _RUNTIMES:
        named += [*filter(_is_image, spec.command), f"of {runtime}"]
    return next((str(one) for one in named if isinstance(one, str)), None)


def _is_image(word: str) -> bool:
    return word.endswith(_IMAGES) or word.startswith(_REGISTRIES)


def _python(spec: JobSpec, person: Person, workdir: str) -> str | None:
    named = spec.environment.venv or spec.environment.conda
    if named is None:
        program = spec.command[0]
        is_python = "/" in program and _is_python(program)
        return posixpath.join(workdir, program) if is_python else None
    if named.startswith("~/"):
        return posixpath.join(person.home, named[2:])
    if spec.environment.conda is not None and "/" not in named:
        return posixpath.join(_conda_root(person), "envs", named)
    return posixpath.join(workdir, named)


def _program(spec: JobSpec) -> str | None:
    """What the job starts, where that is no Python itself."""
    launcher = LAUNCHERS.get(spec.launch.kind)
    if launcher is not None and launcher.starts_ranks:
        return launcher.kind
    program = spec.command[0]
    return None if _is_python(program) else program


def _is_python(program: str) -> bool:
    """Whether a program is an interpreter, such as python3.12; python_bench.sh is none."""
    return re.fullmatch(r"python[\d.]*t?", posixpath.basename(program), re.ASCII) is not None


def _conda_root(person: Person) -> str:
    """Where conda itself is installed: its executable lies in bin or condabin of that."""
    program = person.environment.get("CONDA_EXE")
    if program:
        return posixpath.dirname(posixpath.dirname(program))
    return person.environment.get("MAMBA_ROOT_PREFIX") or posixpath.join(person.home, "miniconda3")
