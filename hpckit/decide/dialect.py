"""How a job is said to one cluster: its release of Slurm, and what its site wants otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpckit.core.findings import Level, Notice
from hpckit.decide.lint import lint, takes
from hpckit.decide.slurm_facts import LARGE_SEGMENT, SEGMENT, Program
from hpckit.model.cluster import SlurmConfig, SlurmVersion, TopologyKind
from hpckit.model.job import ResourceRequest
from hpckit.model.plan import LaunchPlan, Option
from hpckit.model.site import GpuOption, SiteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What decides between two spellings, and whether an option can be used at all.

    `version` and `topology` are None where nobody said: then only what every release from 22.05
    to 26.05 refuses is refused.
    """

    version: SlurmVersion | None = None
    gpu_option: GpuOption = GpuOption.GPUS_PER_NODE
    topology: TopologyKind | None = None


_TOPOLOGY_YAML = SlurmVersion(25, 5)
"""From here on topology.yaml decides where there is one, and `scontrol show config` says flat where
slurm.conf names no plugin. Source: topology.c, `topology_g_init`; read_config.c."""


def site_dialect(site: SiteSpec, told: SlurmVersion | None = None) -> Dialect:
    """The dialect of a site by its file; `told` is a release named on the command line.

    What is installed here plays no part: a script for a cluster that is elsewhere is the same.
    """
    version = told
    if version is None and site.slurm.version is not None:
        version = SlurmVersion.of(site.slurm.version)
    return Dialect(version=version, gpu_option=site.slurm.gpu_option, topology=site.slurm.topology)


def live_dialect(site: SiteSpec, config: SlurmConfig) -> Dialect:
    """The dialect of the cluster that answers, in the spelling of its site."""
    topology = topology_kind(config.topology_plugin)
    if topology is TopologyKind.FLAT and config.version and config.version >= _TOPOLOGY_YAML:
        topology = site.slurm.topology
    return Dialect(version=config.version, gpu_option=site.slurm.gpu_option, topology=topology)


def is_another_cluster(named: str | None, config: SlurmConfig) -> bool:
    """Whether the cluster that answers is not the one of this name; unknown is no other."""
    answers = config.cluster_name
    return bool(named and answers and named.casefold() != answers.casefold())


def release_note(site: SiteSpec, config: SlurmConfig) -> Notice | None:
    """What to write where the cluster's release is another than its site file says."""
    if site.slurm.version is None or config.version is None:
        return None
    said = SlurmVersion.of(site.slurm.version)
    if said.line == config.version.line:
        return None
    return Notice(
        level=Level.NOTE,
        subject="site",
        text=f"the file of {site.name} says Slurm {said.line}, and {config.version} answers",
        remedy=f'slurm.version = "{config.version.line}" in the site file',
    )


def topology_kind(plugin: str | None) -> TopologyKind | None:
    """The kind that TopologyPlugin names, None for one that hpckit does not know.

    22.05 calls flat `topology/none`, later releases `topology/default` and `topology/flat`.
    """
    name = (plugin or "").removeprefix("topology/")
    flat = {"none": TopologyKind.FLAT, "default": TopologyKind.FLAT}
    known = {str(kind): kind for kind in TopologyKind}
    return {**known, **flat}.get(name)


def gpu_request(dialect: Dialect, request: ResourceRequest) -> Option | None:
    """The option that asks for the GPUs of each node; None for a job without GPUs."""
    if not request.gpus_per_node:
        return None
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    if dialect.gpu_option is GpuOption.GRES:
        return Option(
            name="gres",
            value=f"gpu:{kind}{request.gpus_per_node}",
            because="this site wants GPUs as --gres; --gpus-per-node beside it would be an error",
        )
    return Option(
        name="gpus-per-node",
        value=f"{kind}{request.gpus_per_node}",
        because="per node: --gpus-per-task would hide a rank's peers from it",
    )


def dialect_findings(plan: LaunchPlan, dialect: Dialect) -> tuple[Notice, ...]:
    """What sbatch and srun of this dialect would not take of a script, or would ignore."""
    return (
        *_short_segment(plan, dialect),
        *lint(plan.directives, Program.SBATCH, dialect.version, dialect.topology),
        *lint(plan.srun, Program.SRUN, dialect.version, dialect.topology),
    )


def _short_segment(plan: LaunchPlan, dialect: Dialect) -> Iterator[Notice]:
    said = {option.name: option.value for option in plan.directives}
    segment, nodes = said.get("segment"), said.get("nodes")
    if segment is None or nodes is None or dialect.topology is not TopologyKind.BLOCK:
        return
    if dialect.version is None or takes(LARGE_SEGMENT, dialect.version):
        return
    if int(nodes) < int(segment) and takes(SEGMENT, dialect.version):
        job = "1 node" if nodes == "1" else f"{nodes} nodes"
        yield Notice(
            level=Level.ERROR,
            subject="--segment",
            text=f"Slurm {dialect.version} takes no segment of {segment} nodes in a job of {job}",
            remedy=f"slurm.segment = {nodes}, or leave it out",
            source=LARGE_SEGMENT.source,
        )
