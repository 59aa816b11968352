"""The site file `hpckit.site/1` as a value: what is true of a cluster, whoever submits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hpckit.core.fields import (
    MAX_COUNT,
    Checked,
    between,
    key,
    listed,
    mapping,
    matching,
    one_line,
    optional,
    parses,
    table,
)
from hpckit.core.units import TIME_EXPECTED, parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.slurm.release import VERSION_EXPECTED, SlurmVersion, TopologyKind
from hpckit.spec.energy_site import EnergySite
from hpckit.spec.platform import OVERLAY_PATTERN, ContainerSite, Overlay, Platform
from hpckit.spec.slurm_options import MPI_PLUGIN

SITE_SCHEMA = "hpckit.site/1"
SITE_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
TEMPLATE_NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*"
NO_SITE = "none"


class SubmitterKind(StrEnum):
    """What starts a job at a site."""

    SLURM = "slurm"
    LOCAL = "local"


class GpuOption(StrEnum):
    """The option by which a cluster wants GPUs asked for; some accept only one of them."""

    GPUS_PER_NODE = "gpus-per-node"
    GRES = "gres"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite(Checked):
    """`[slurm]`: which Slurm runs there, and what it wants otherwise than others."""

    version: str | None = optional(
        "The release that runs there, such as `24.11`; what it cannot do is refused by `render` "
        "too. Not said: only `submit` can tell, by asking.",
        parses(SlurmVersion.of, VERSION_EXPECTED),
    )
    cluster: str | None = optional(
        "ClusterName of its slurm.conf; a submission that would go to another cluster is refused.",
        matching(r"[A-Za-z0-9_.-]+", "a cluster's name"),
    )
    gpu_option: GpuOption = key(
        "How GPUs are asked for: `gpus-per-node`, or `gres` (`--gres=gpu:N`) where nothing else "
        "is accepted. The two together are an error from Slurm 26.05 on.",
        default=GpuOption.GPUS_PER_NODE,
    )
    topology: TopologyKind | None = key(
        "TopologyPlugin: `tree` (`slurm.switches` has an effect), `block` (`slurm.segment` has) "
        "or `flat`.",
        default=None,
    )
    max_array_size: int | None = optional(
        "MaxArraySize: a larger job array is submitted in parts. Not said: `submit` asks.",
        between(2, MAX_COUNT),
    )
    mpi: str | None = optional(
        'Plugin of `srun --mpi` for jobs of `launch.kind = "mpi"` that name none; a cluster whose '
        "MpiDefault is none needs it.",
        MPI_PLUGIN,
    )
    confirm_array_above: int = key(
        "Tasks of a job array above which `submit` starts it with `--yes` alone.",
        default=1000,
        check=between(1, MAX_COUNT),
    )


def _node_mem(text: str) -> int:
    size_bytes = parse_slurm_mem_bytes(text)
    if size_bytes < 1024**2:
        raise ValueError(text)
    return size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePartition(Checked):
    """`[partitions.NAME]`: the nodes behind a partition, as scontrol show partition has them."""

    nodes: int = key("Nodes that one job can have.", check=between(1, MAX_COUNT))
    cpus_per_node: int | None = optional(
        "CPUs of a node, as Slurm counts them (threads, where it schedules threads).",
        between(1, MAX_COUNT),
    )
    mem_per_node: str | None = optional(
        "Memory of a node (RealMemory).", parses(_node_mem, "a Slurm memory size from 1M on")
    )
    gpus_per_node: int = key("GPUs of a node.", default=0, check=between(0, MAX_COUNT))
    gpu_type: str | None = optional(
        "GPU type as gres.conf names it, such as `h100`.",
        matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a GPU type such as h100"),
    )
    features: tuple[str, ...] = listed(
        "Features of its nodes (`--constraint`); told, not checked.", one_line
    )
    time_limit: str | None = optional(
        "MaxTime. Not said: no limit is known.", parses(parse_slurm_time_s, TIME_EXPECTED)
    )
    default: bool = key("Where a job goes that names no partition.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorSite(Checked):
    """`[accelerators.NAME]`: a kind of GPU that `hpckit plan` does not know, or knows wrongly."""

    tflops: float = key("Peak of dense matrix products in bf16, TFLOP/s.", check=between(0.1, 1e6))
    fp8_tflops: float | None = optional("The same in fp8.", between(0.1, 1e6))
    matmul_tflops: float | None = optional(
        "What large matrix products reach, measured.", between(0.1, 1e6)
    )
    memory_mib: int = key("Memory as the driver reports it.", check=between(1, 1 << 30))
    memory_gb_per_s: float = key("Bandwidth of the memory, GB/s.", check=between(1, 1e6))
    tdp_w: float | None = optional("Rated power, in watts.", between(1, 1e5))
    link_gb_per_s: float | None = optional(
        "NVLink, xGMI or the like, GB/s of one direction. Not said: PCIe.", between(0.1, 1e5)
    )
    node_gpus: int = key("GPUs of a node, which these links join.", check=between(1, 1024))
    nic_gbits: float | None = optional(
        "A GPU's share of the network, Gb/s. Not said: 100.", between(0.001, 1e5)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSite(Checked):
    """`[planner]`: what `hpckit plan` was found to be wrong by here."""

    step_scale: float | None = optional(
        "Measured step time over the predicted one, as `hpckit plan --from-report` says it.",
        between(0.1, 10),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec(Checked):
    """A site: how jobs are started there, where their folders lie, and defaults for jobs."""

    schema: str = key(
        f'The format of this file: `"{SITE_SCHEMA}"`.',
        check=lambda value: None if value == SITE_SCHEMA else f'"{SITE_SCHEMA}"',
        const=SITE_SCHEMA,
    )
    name: str = key(
        "Name of the site; the file is called `<name>.toml`.",
        check=matching(SITE_NAME_PATTERN, "letters, digits, dot, dash and underscore"),
    )
    description: str = key(
        "One line for `hpckit sites list`.",
        default="",
        check=lambda text: one_line(text) if text else None,
    )
    submitter: SubmitterKind = key(
        "`slurm`, or `local`: this machine without a scheduler.", default=SubmitterKind.SLURM
    )
    template: str = key(
        "The script template, a file under `templates/`.",
        default="base.sbatch.j2",
        check=matching(TEMPLATE_NAME_PATTERN, "a template name such as base.sbatch.j2"),
    )
    job_root: str = key(
        "Folder of the job folders, on a file system that all nodes share; `~` and `$NAME` are "
        "expanded when a job is submitted.",
        default="~/hpckit-jobs",
        check=one_line,
    )
    poll_interval_s: float = key(
        "Seconds between two questions for a job's state while something waits for it.",
        default=15.0,
        check=between(0.05, 3600),
    )
    kill_wait_s: float = key(
        "Seconds between SIGTERM and SIGKILL when a local job is cancelled or out of time, as "
        "Slurm's KillWait.",
        default=30.0,
        check=between(0, 3600),
    )
    slurm: SlurmSite = field(default_factory=SlurmSite)
    energy: EnergySite = field(default_factory=EnergySite)
    platform: Platform = field(default_factory=Platform)
    overlays: Mapping[str, Overlay] = table(
        "Variables that are set only for those who ask, one table each.",
        mapping(matching(OVERLAY_PATTERN, "small letters, digits, dot and dash"), lambda _: None),
    )
    container: ContainerSite = field(default_factory=ContainerSite)
    planner: PlannerSite = field(default_factory=PlannerSite)
    accelerators: Mapping[str, AcceleratorSite] = table(
        "Kinds of GPU for `hpckit plan`, one table each.",
        mapping(matching(r"[A-Za-z0-9][A-Za-z0-9_. -]*", "a kind of GPU"), lambda _: None),
    )
    partitions: Mapping[str, SitePartition] = table(
        "Partitions and their nodes, one table each; a job that does not fit one is refused "
        "before Slurm sees it.",
        mapping(matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a partition's name"), lambda _: None),
    )
    job: Mapping[str, Any] = key(
        "Defaults for any key of a job file, in the same tables.", factory=dict
    )


def generic_site() -> SiteSpec:
    """The site of somebody who named none: Slurm as its manual describes it, no defaults."""
    return SiteSpec(
        schema=SITE_SCHEMA, name=NO_SITE, description="No site file: what Slurm itself decides"
    )
