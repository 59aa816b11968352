"""What a job says of its communication environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hpckit.comm.environment import CommChoice, OwnSetting
from hpckit.comm.facts import CommQuestion
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import NcclVersion, Platform
from hpckit.spec.site import SiteSpec

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


# --- What is set of the communication environment before hpckit sets anything, and by whom.


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
