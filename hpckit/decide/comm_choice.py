"""What a job says of its communication environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hpckit.decide.comm_env import CommChoice, OwnSetting
from hpckit.model.comm import NcclVersion
from hpckit.model.comm_facts import CommQuestion
from hpckit.model.job import JobSpec
from hpckit.model.platform import Platform
from hpckit.model.site import SiteSpec
from hpckit.script.launchers.registry import LAUNCHERS, Launchers

_READS: Final = re.compile(r"(^|[;&|({\s])(source|\.|eval|module|ml|spack|conda)\s", re.ASCII)


def comm_question(spec: JobSpec, launchers: Launchers = LAUNCHERS) -> CommQuestion:
    """What is asked of the rules for a job."""
    tune = spec.tune
    return CommQuestion(
        nodes=spec.resources.nodes,
        version=None if tune.nccl is None else NcclVersion.of(tune.nccl),
        plugin=tune.plugin,
        is_mpi=launchers[spec.launch.kind].is_mpi,
    )


def site_of_job(site: SiteSpec, spec: JobSpec) -> SiteSpec:
    """The site as a job meets it: without `[platform]` on a partition that has no GPU.

    `[platform]` tells of the nodes with GPUs; a job on others has no use for what NCCL needs there.
    """
    partition = site.partitions.get(spec.slurm.partition or "")
    is_of_cpus = partition is not None and partition.gpus_per_node == 0
    if not is_of_cpus or site.platform.gpu is None or spec.resources.gpus_per_node:
        return site
    overlays = site.overlays if spec.tune.overlays else {}
    return replace(site, platform=Platform(), overlays=overlays)


def comm_choice(spec: JobSpec, in_setup: Sequence[OwnSetting] = ()) -> CommChoice:
    """What the job decides itself; `in_setup` are the variables that its setup lines set.

    What modules set, and files that setup lines read, is not known.
    """
    return CommChoice(
        derive=spec.tune.derive,
        overlays=spec.tune.overlays,
        own=(*_own(spec), *in_setup),
        passed=spec.environment.pass_,
        is_unread=bool(spec.environment.modules) or any(map(_reads, spec.environment.setup)),
    )


def _reads(line: str) -> bool:
    """Whether a line of shell runs what is not in it."""
    return bool(_READS.search(line))


def _own(spec: JobSpec) -> Iterator[OwnSetting]:
    for name, value in spec.tune.env.items():
        yield OwnSetting(name=name, value=value, where="[tune] env", is_exported=True)
    for name, value in spec.environment.set.items():
        yield OwnSetting(name=name, value=value, where="[environment] set")
