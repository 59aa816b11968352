"""Which container the ranks run in, and how what the job decides reaches them inside.

Sources: pyxis, README.md (an image's own value of a variable wins unless `--container-env` names
it; `--container-mounts`, `--container-workdir`); Apptainer User Guide, Environment and Metadata
(what begins with APPTAINERENV_ wins over the image), Bind Paths and Mounts, GPU Support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from hpckit.core.findings import Level, Notice
from hpckit.core.late import regex
from hpckit.script.plan import ContainerPlan, LaunchPlan, Option
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CLOSING_OPTIONS, CommEnv, CommLibrary, ContainerRuntime
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from hpckit.slurm.values import SlurmConfig

_PYXIS_OPTIONS: Final = frozenset({"container-image", "container-name"})
_LET_IN: Final = "container-env"
_PREFIXES: Final[Mapping[str, str]] = {
    ContainerRuntime.APPTAINER: "APPTAINERENV_",
    ContainerRuntime.SINGULARITY: "SINGULARITYENV_",
}
_FILES: Final = regex(r"^[/~.]|\.(sif|sqsh|simg)$")
_VERBS: Final = frozenset({"exec", "run", "shell", "test"})


def plan_container(spec: JobSpec, site: SiteSpec, comm: CommEnv) -> ContainerPlan | None:
    """Return how the ranks' container is started, None for a job whose ranks run in none.

    Of a command that starts a closed container itself, what is let into that.
    """
    names = _names(spec, site, comm)
    if spec.container.image is None:
        prefix = closed_prefix(spec.command)
        return None if prefix is None else ContainerPlan(env_prefix=prefix, variables=names)
    runtime = runtime_of(spec, site)
    if runtime is ContainerRuntime.PYXIS:
        return ContainerPlan(
            runtime=runtime,
            image=spec.container.image,
            mounts=_named_twice(spec.container.mounts),
            workdir=spec.container.workdir,
            variables=names,
        )
    return ContainerPlan(
        runtime=runtime,
        image=spec.container.image,
        mounts=spec.container.mounts,
        workdir=spec.container.workdir,
        options=(*_gpu_option(spec, site), *spec.container.args),
        env_prefix=_PREFIXES[runtime],
        variables=names,
    )


def runtime_of(spec: JobSpec, site: SiteSpec) -> ContainerRuntime:
    """Return what starts the job's container."""
    return spec.container.runtime or site.container.runtime or ContainerRuntime.APPTAINER


def _names(spec: JobSpec, site: SiteSpec, comm: CommEnv) -> tuple[str, ...]:
    """The variables that an image of its own must not overrule."""
    said = (*spec.environment.set, *(one.name for one in comm.settings))
    return tuple(dict.fromkeys((*said, *site.container.variables)))


def _gpu_option(spec: JobSpec, site: SiteSpec) -> Iterator[str]:
    """What brings the GPUs' devices and libraries in."""
    request, platform = spec.resources, site.platform
    if not (request.gpus_per_node or (request.exclusive and platform.gpu)):
        return
    yield "--rocm" if has_amd_gpus(spec, site) else "--nv"


def has_amd_gpus(spec: JobSpec, site: SiteSpec) -> bool:
    """Return whether the job's GPUs are AMD's, as far as the job or its site says."""
    kind = spec.resources.gpu_type or site.platform.gpu or ""
    return kind.startswith("mi") or site.platform.library is CommLibrary.RCCL


def _named_twice(mounts: Sequence[str]) -> tuple[str, ...]:
    # Pyxis takes SRC:DST[:FLAGS]; of a name alone it wants both too.
    return tuple(mount if ":" in mount else f"{mount}:{mount}" for mount in mounts)


def step_options(
    options: Sequence[Option], spec: JobSpec, comm: CommEnv, site: SiteSpec
) -> tuple[Option, ...]:
    """Return srun's options with those of Pyxis that the job says besides its image and mounts.

    A step that runs a container by Pyxis lets the job's variables in.
    """
    is_own = spec.container.image is not None and runtime_of(spec, site) is ContainerRuntime.PYXIS
    words = spec.container.args if is_own else ()
    parts = (word.lstrip("-").partition("=") for word in words)
    asked = (
        *options,
        *(Option(name=name, value=value if equals else None) for name, equals, value in parts),
    )
    if not (is_own or _PYXIS_OPTIONS & {option.name for option in asked}):
        return asked
    said = [option.value or "" for option in asked if option.name == _LET_IN]
    own = [name for value in said for name in value.split(",") if name]
    secrets = (*spec.environment.secrets, *spec.environment.secret_files)
    names = dict.fromkeys((*own, *_names(spec, site, comm), *secrets))
    kept = [option for option in asked if option.name != _LET_IN]
    return (*kept, Option(name=_LET_IN, value=",".join(names))) if names else asked


def wants_pyxis(plan: LaunchPlan) -> bool:
    """Return whether srun starts a container of the job's."""
    names = {option.name for option in plan.srun}
    is_own = plan.container is not None and plan.container.runtime is ContainerRuntime.PYXIS
    return is_own or bool(names & _PYXIS_OPTIONS)


def container_notices(plan: LaunchPlan, config: SlurmConfig | None) -> Iterator[Notice]:
    """Yield that srun does not know the options of the job's container."""
    if config is None or config.has_pyxis is not False or not wants_pyxis(plan):
        return
    yield Notice(
        level=Level.ERROR,
        subject="container",
        text="srun has no --container-image here: the Pyxis plugin is not loaded",
        remedy='container.runtime = "apptainer" if it is installed; else ask the admins',
        source="pyxis, README.md; srun --help",
    )


def is_image_file(image: str) -> bool:
    """Return whether an image is named by a path, and not as a registry's."""
    return "://" not in image and _FILES.search(image) is not None


def image_notices(plan: LaunchPlan, is_there: Callable[[str], bool]) -> Iterator[Notice]:
    """Yield that the image's file is not seen from where the job is submitted.

    To Apptainer a name without `://` is a file (User Guide, Interact with images).
    """
    image = None if plan.container is None else plan.container.image
    if plan.container is None or image is None:
        return
    is_file = "://" not in image
    if plan.container.runtime is ContainerRuntime.PYXIS:
        is_file = is_image_file(image)
    if not is_file or is_there(image):
        return
    remedy = "give its absolute path, or build it: apptainer build FILE.sif docker://NAME"
    if not is_image_file(image):
        remedy = f"an image of a registry is docker://{image.replace('#', '/', 1)}"
    yield Notice(
        level=Level.NOTE,
        subject="container.image",
        text=f"{image} does not exist on this host; if it is also missing on the nodes, no rank "
        "starts",
        remedy=remedy,
    )


def closed_prefix(command: Sequence[str]) -> str | None:
    """Return how a variable is called that is let into this container; None for an open one."""
    prefix = _PREFIXES.get(PurePath(command[0]).name)
    if prefix is None or not any(word in _VERBS for word in command[1:]):
        return None
    image = next((at for at, word in enumerate(command) if _is_image(word)), len(command))
    return prefix if any(word in CLOSING_OPTIONS for word in command[:image]) else None


def _is_image(word: str) -> bool:
    """Whether a word of the command is the image: what stands behind it is the program's own."""
    return word.endswith((".sif", ".sqsh", ".simg")) or "://" in word
