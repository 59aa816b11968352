"""Where a job will look for its libraries, as far as its file and this machine tell."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpckit.decide.shell_environment import submission_environment
from hpckit.model.job import JobSpec, LauncherKind
from hpckit.model.nccl_found import NcclWhere

_IMAGES = (".sqsh", ".sif", ".simg", ".squashfs")
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


def job_place(spec: JobSpec, person: Person, container: str | None, workdir: str) -> NcclWhere:
    """Where the job's command looks for libraries.

    `container` stands over the one that the job's step names, and `workdir` is where the job runs:
    relative paths of the job are below it. Modules are not loaded here.
    """
    asked = spec.environment
    kept = submission_environment(person.environment, asked.inherit, asked.pass_).variables
    environment = {**kept, **asked.set, **spec.tune.env}
    return NcclWhere(
        environment=environment,
        python=_python(spec, person, workdir),
        program=_program(spec),
        container=container or _image(spec, workdir),
        workdir=workdir,
        library=None,
        account_home=person.account_home,
    )


def unseen(spec: JobSpec) -> tuple[str, ...]:
    """What of the job's environment is not looked at, in sentences."""
    found = []
    if spec.environment.modules:
        names = ", ".join(spec.environment.modules)
        found.append(f"modules are not loaded here, so what they bring is not seen: {names}")
    if spec.environment.setup:
        found.append("setup lines are not run here: a library path that they set is not seen")
    return tuple(found)


def absent_container(spec: JobSpec) -> str | None:
    """The container of the job's command, where it is not a file or folder that can be read."""
    return _container(spec) if _image(spec, "/") is None else None


def _python(spec: JobSpec, person: Person, workdir: str) -> str | None:
    named = spec.environment.venv or spec.environment.conda
    if named is None:
        program = _command(spec)[0]
        is_python = "/" in program and posixpath.basename(program).startswith("python")
        return posixpath.join(workdir, program) if is_python else None
    if named.startswith("~/"):
        return posixpath.join(person.home, named[2:])
    if spec.environment.conda is not None and "/" not in named:
        return posixpath.join(_conda_root(person), "envs", named)
    return posixpath.join(workdir, named)


def _program(spec: JobSpec) -> str | None:
    """What the job starts, where that may be linked with NCCL or say which Python runs it."""
    if spec.launch.kind is LauncherKind.TORCHRUN:
        return "torchrun"
    program = _command(spec)[0]
    return None if posixpath.basename(program).startswith("python") else program


def _conda_root(person: Person) -> str:
    """Where conda itself is installed: its executable lies in bin or condabin of that."""
    program = person.environment.get("CONDA_EXE")
    if program:
        return posixpath.dirname(posixpath.dirname(program))
    return person.environment.get("MAMBA_ROOT_PREFIX") or posixpath.join(person.home, "miniconda3")


def _container(spec: JobSpec) -> str | None:
    """The image, folder or name of what the job's command runs in; the runtime without one."""
    named = [spec.slurm.srun_extra.get(option) for option in _OPTIONS]
    runtime = posixpath.basename(spec.command[0])
    if runtime in _RUNTIMES:
        named += [*filter(_is_image, spec.command), f"of {runtime}"]
    return next((str(one) for one in named if isinstance(one, str)), None)


def _command(spec: JobSpec) -> Sequence[str]:
    """The words of the program: behind its image where a container's runtime stands in front."""
    if posixpath.basename(spec.command[0]) not in _RUNTIMES:
        return spec.command
    image = next((at for at, word in enumerate(spec.command) if _is_image(word)), len(spec.command))
    return spec.command[image + 1 :] or spec.command


def _is_image(word: str) -> bool:
    return word.endswith(_IMAGES) or "://" in word


def _image(spec: JobSpec, workdir: str) -> str | None:
    """The job's container where it is a file or folder, not a name in a registry."""
    image = _container(spec)
    if image is None or "://" in image:
        return None
    is_file = image.startswith(("/", "./")) or image.endswith(_IMAGES)
    return posixpath.join(workdir, image) if is_file else None
