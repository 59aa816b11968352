"""What a job says of its communication environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpckit.decide.comm_env import CommChoice, OwnSetting
from hpckit.model.comm import NcclVersion
from hpckit.model.comm_facts import CommQuestion
from hpckit.model.job import JobSpec, LauncherKind


def comm_question(spec: JobSpec) -> CommQuestion:
    """What is asked of the rules for a job."""
    tune = spec.tune
    return CommQuestion(
        nodes=spec.resources.nodes,
        version=None if tune.nccl is None else NcclVersion.of(tune.nccl),
        plugin=tune.plugin,
        is_mpi=spec.launch.kind is LauncherKind.MPI,
    )


def comm_choice(spec: JobSpec, in_setup: Sequence[OwnSetting] = ()) -> CommChoice:
    """What the job decides itself; `in_setup` are the variables that its setup lines set."""
    return CommChoice(
        derive=spec.tune.derive,
        overlays=spec.tune.overlays,
        own=(*_own(spec), *in_setup),
        passed=spec.environment.pass_,
    )


def _own(spec: JobSpec) -> Iterator[OwnSetting]:
    for name, value in spec.tune.env.items():
        yield OwnSetting(name=name, value=value, where="[tune] env", is_exported=True)
    for name, value in spec.environment.set.items():
        yield OwnSetting(name=name, value=value, where="[environment] set")
