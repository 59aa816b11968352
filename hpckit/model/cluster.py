"""A cluster as Slurm describes it: its version, what it is configured with, its partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SlurmVersion:
    """A release of Slurm: year, month, and the maintenance release, 0 where none was said.

    What follows it (a packager's number, a release candidate's) is left out.
    """

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02d}.{self.micro}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """What a cluster is configured with, in Slurm's words; None is a key that it did not print.

    `max_array_size` is one above the largest index of an array. The plugins are as written, such
    as `topology/tree`, `select/cons_tres` and `proctrack/cgroup`; `mpi_default` is None where the
    site set none. `kill_on_bad_exit` is what srun does unless it is told.
    """

    version: SlurmVersion | None = None
    cluster_name: str | None = None
    max_array_size: int | None = None
    topology_plugin: str | None = None
    select_type: str | None = None
    mpi_default: str | None = None
    proctrack_type: str | None = None
    kill_on_bad_exit: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of a partition that are alike: how many, and what each of them has.

    `cpus` is what Slurm schedules, a core or a hardware thread. `gpu_types` are the names that
    the site gave its GPUs, none where it gave no name. `features` can be asked for by
    `--constraint`.
    """

    nodes: int
    cpus: int
    mem_mib: int
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
