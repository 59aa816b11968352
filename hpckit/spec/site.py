"""The site file `hpckit.site/1` as a value: what is true of a cluster, whoever submits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
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
from hpckit.core.values import dataclass
from hpckit.slurm.release import VERSION_EXPECTED, SlurmVersion, TopologyKind
from hpckit.spec.energy_site import EnergySite
from hpckit.spec.pace import KILL_WAIT_S, POLL_INTERVAL_S, SubmitterKind
from hpckit.spec.platform import OVERLAY_PATTERN, ContainerSite, Overlay, Platform
from hpckit.spec.slurm_options import MPI_PLUGIN

SITE_SCHEMA = "hpckit.site/1"
SITE_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
TEMPLATE_NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*"
NO_SITE = "none"


class GpuOption(StrEnum):
    """The option by which a cluster wants GPUs asked for; some accept only one of them."""

    GPUS_PER_NODE = "gpus-per-node"
    GRES = "gres"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite(Checked):
    """`[slurm]`: the cluster's Slurm release and configuration."""

    version: str | None = optional(
        "Slurm release of the cluster, such as `24.11`. With it, `render` also refuses what that "
        "release cannot do. Default: `submit` asks Slurm.",
        parses(SlurmVersion.of, VERSION_EXPECTED),
    )
    cluster: str | None = optional(
        "ClusterName in slurm.conf. hpckit refuses to submit to another cluster, and uses this "
        "site on the cluster's hosts without `--site`.",
        matching(r"[A-Za-z0-9_.-]+", "a cluster name"),
    )
    gpu_option: GpuOption = key(
        "Option that requests GPUs: `gpus-per-node`, or `gres` (`--gres=gpu:N`) if the cluster "
        "accepts nothing else. From Slurm 26.05 on, both together are an error.",
        default=GpuOption.GPUS_PER_NODE,
    )
    topology: TopologyKind | None = key(
        "TopologyPlugin: `tree` (uses `slurm.switches`), `block` (uses `slurm.segment`) or `flat`.",
        default=None,
    )
    max_array_size: int | None = optional(
        "MaxArraySize. Larger job arrays are submitted in parts. Default: `submit` asks Slurm.",
        between(2, MAX_COUNT),
    )
    mpi: str | None = optional(
        'Default `srun --mpi` plugin for jobs with `launch.kind = "mpi"`. Required if the '
        "cluster's MpiDefault is none.",
        MPI_PLUGIN,
    )
    confirm_array_above: int = key(
        "For a job array with more tasks than this, `submit` requires `--yes`.",
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
    """`[partitions.NAME]`: the nodes of a partition, as in `scontrol show partition`."""

    nodes: int = key("Nodes available to one job.", check=between(1, MAX_COUNT))
    cpus_per_node: int | None = optional(
        "CPUs per node as Slurm counts them (hardware threads, if it schedules threads).",
        between(1, MAX_COUNT),
    )
    mem_per_node: str | None = optional(
        "Memory per node (RealMemory).", parses(_node_mem, "a Slurm memory size of at least 1M")
    )
    gpus_per_node: int = key("GPUs per node.", default=0, check=between(0, MAX_COUNT))
    gpu_type: str | None = optional(
        "GPU type as in gres.conf, such as `h100`.",
        matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a GPU type such as h100"),
    )
    features: tuple[str, ...] = listed(
        "Features of the nodes (`--constraint`). Shown, not checked.", one_line
    )
    time_limit: str | None = optional(
        "MaxTime. Default: no limit is checked.", parses(parse_slurm_time_s, TIME_EXPECTED)
    )
    default: bool = key("This is the cluster's default partition.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorSite(Checked):
    """`[accelerators.NAME]`: a GPU model that `hpckit plan` lacks, or has wrong."""

    tflops: float = key("Dense bf16 peak in TFLOP/s.", check=between(0.1, 1e6))
    fp8_tflops: float | None = optional("Dense fp8 peak in TFLOP/s.", between(0.1, 1e6))
    matmul_tflops: float | None = optional(
        "Measured TFLOP/s of large matrix products.", between(0.1, 1e6)
    )
    memory_mib: int = key("GPU memory in MiB, as the driver reports it.", check=between(1, 1 << 30))
    memory_gb_per_s: float = key("Memory bandwidth in GB/s.", check=between(1, 1e6))
    tdp_w: float | None = optional("Rated power (TDP) in watts.", between(1, 1e5))
    link_gb_per_s: float | None = optional(
        "GPU link bandwidth (NVLink, xGMI) in GB/s, one direction. Default: the GPUs have only "
        "PCIe.",
        between(0.1, 1e5),
    )
    node_gpus: int = key("GPUs per node, joined by these links.", check=between(1, 1024))
    nic_gbits: float | None = optional(
        "Network bandwidth per GPU in Gb/s. Default: 100.", between(0.001, 1e5)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSite(Checked):
    """`[planner]`: how far the predictions of `hpckit plan` are off at this site."""

    step_scale: float | None = optional(
        "Measured step time ÷ predicted step time, as `hpckit plan --from-report` prints it.",
        between(0.1, 10),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec(Checked):
    """A site: how it starts jobs, where it keeps their folders, and its defaults for jobs."""

    schema: str = key(
        f'Format of this file: `"{SITE_SCHEMA}"`.',
        check=lambda value: None if value == SITE_SCHEMA else f'"{SITE_SCHEMA}"',
        const=SITE_SCHEMA,
    )
    name: str = key(
        "Name of the site. The file is named `<name>.toml`.",
        check=matching(
            SITE_NAME_PATTERN, "a name of letters, digits, dots, dashes and underscores"
        ),
    )
    description: str = key(
        "One-line description for `hpckit sites list`.",
        default="",
        check=lambda text: one_line(text) if text else None,
    )
    submitter: SubmitterKind = key(
        "`slurm`, or `local` (this machine, no scheduler).", default=SubmitterKind.SLURM
    )
    template: str = key(
        "Script template, a file in `templates/`.",
        default="base.sbatch.j2",
        check=matching(TEMPLATE_NAME_PATTERN, "a template name such as base.sbatch.j2"),
    )
    job_root: str = key(
        "Parent of the job folders, on a file system that all nodes share. `~` and `$NAME` are "
        "expanded when a job is submitted.",
        default="~/hpckit-jobs",
        check=one_line,
    )
    poll_interval_s: float = key(
        "Seconds between two queries of a job's state while a command waits for the job.",
        default=POLL_INTERVAL_S,
        check=between(0.05, 3600),
    )
    kill_wait_s: float = key(
        "Seconds between SIGTERM and SIGKILL when a local job is cancelled or reaches its time "
        "limit (as Slurm's KillWait).",
        default=KILL_WAIT_S,
        check=between(0, 3600),
    )
    slurm: SlurmSite = field(default_factory=SlurmSite)
    energy: EnergySite = field(default_factory=EnergySite)
    platform: Platform = field(default_factory=Platform)
    overlays: Mapping[str, Overlay] = table(
        "Sets of variables that a job can choose (`--overlay NAME`), one table each.",
        mapping(
            matching(OVERLAY_PATTERN, "a name of lower-case letters, digits, dots and dashes"),
            lambda _: None,
        ),
    )
    container: ContainerSite = field(default_factory=ContainerSite)
    planner: PlannerSite = field(default_factory=PlannerSite)
    accelerators: Mapping[str, AcceleratorSite] = table(
        "GPU models for `hpckit plan`, one table each.",
        mapping(matching(r"[A-Za-z0-9][A-Za-z0-9_. -]*", "a GPU model"), lambda _: None),
    )
    partitions: Mapping[str, SitePartition] = table(
        "Partitions and their nodes, one table each. hpckit refuses a job that does not fit its "
        "partition before it submits.",
        mapping(matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a partition name"), lambda _: None),
    )
    job: Mapping[str, Any] = key(
        "Defaults for any key of a job file, in the same tables as there.", factory=dict
    )


def generic_site() -> SiteSpec:
    """The site of somebody who named none: Slurm as its manual describes it, no defaults."""
    return SiteSpec(
        schema=SITE_SCHEMA, name=NO_SITE, description="No site file: Slurm's own defaults"
    )
