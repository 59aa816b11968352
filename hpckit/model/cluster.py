"""A Slurm cluster as its commands describe it: the release, partitions and their nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_RELEASE = re.compile(r"(\d\d)\.(\d\d)(?:\.(\d{1,2}))?", re.ASCII)

VERSION_EXPECTED = "a Slurm release such as 24.11 or 24.11.5"


@dataclass(frozen=True, slots=True, order=True)
class SlurmVersion:
    """A release of Slurm, a line called by year and month and the maintenance release in it.

    `micro` is 0 where only the line is known; a packager's number or a release candidate's is
    left out.
    """

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        """Give the version as Slurm writes it, such as 22.05.8."""
        return f"{self.line}.{self.micro}"

    @property
    def line(self) -> str:
        """The release line, such as 22.05."""
        return f"{self.major:02d}.{self.minor:02d}"

    @classmethod
    def of(cls, text: str) -> SlurmVersion:
        """Read `24.11` or `24.11.5`. Raises ValueError for anything else."""
        match = _RELEASE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected {VERSION_EXPECTED}, got {text!r}")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))


class TopologyKind(StrEnum):
    """Which topology plugin places the nodes of a job. Source: slurm.conf(5), TopologyPlugin."""

    TREE = "tree"
    BLOCK = "block"
    FLAT = "flat"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """What a cluster is configured with, in Slurm's words; None is a key that it did not print.

    `max_array_size` is one above the largest index of an array. The plugin is as written, such
    as `topology/tree`, or `acct_gather_energy/ipmi`.
    """

    version: SlurmVersion | None = None
    cluster_name: str | None = None
    max_array_size: int | None = None
    topology_plugin: str | None = None
    energy_plugin: str | None = None
    mpi_default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of a partition that are alike: how many, and what each of them has.

    `cpus` is what Slurm schedules, a core or a hardware thread; it and `mem_mib` are None where
    a site file does not say. `gpu_types` are the names that the site gave its GPUs, none where it
    gave no name. `features` can be asked for by `--constraint`.
    """

    nodes: int
    cpus: int | None
    mem_mib: int | None
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition and the kinds of nodes in it.

    `is_up` is whether it takes jobs and starts them. `time_limit_s` is the longest that a job may
    ask for, None where there is no limit.
    """

    name: str
    is_default: bool
    is_up: bool
    time_limit_s: int | None
    groups: tuple[NodeGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as it was at `seen_s`, in seconds since the epoch.

    `unread` is why its partitions are not known, where sinfo failed or was not understood.
    """

    config: SlurmConfig
    partitions: tuple[Partition, ...]
    seen_s: float
    unread: str | None = None
