"""Requests that cannot be met, found before anything is written or submitted."""

from __future__ import annotations

from hpckit.core.errors import PlanError
from hpckit.core.units import counted, parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.script.container import runtime_of
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.script.segment import check_segment
from hpckit.slurm.values import NodeGroup, Partition
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import EffectiveJob, OriginKind
from hpckit.spec.platform import ContainerRuntime
from hpckit.spec.site import SiteSpec, SubmitterKind


def check_job(spec: JobSpec, site: SiteSpec, launchers: Launchers = LAUNCHERS) -> None:
    """Raise PlanError for a job that contradicts itself or its site."""
    local = site.submitter is SubmitterKind.LOCAL
    _check_mesh(spec, local=local)
    launchers[spec.launch.kind].check(spec)
    check_segment(spec, site)
    if local:
        _check_local(spec, site)


_NEEDS_SCHEDULER = ("resources.gpu", "resources.mem", "resources.exclusive", "slurm.", "place.")


def not_applied(effective: EffectiveJob, site: SiteSpec) -> tuple[str, ...]:
    """Keys that somebody said and that this site, having no scheduler, does nothing with."""
    if site.submitter is not SubmitterKind.LOCAL:
        return ()
    return tuple(
        one.key
        for one in effective.origins
        if one.origin is not OriginKind.DEFAULT and one.key.startswith(_NEEDS_SCHEDULER)
    )


def _check_mesh(spec: JobSpec, *, local: bool) -> None:
    need = spec.mesh_ranks
    if need is None or need == spec.ntasks:
        return
    mesh = " × ".join(f"{axis} {size}" for axis, size in spec.parallel.items())
    per_node = spec.ntasks_per_node
    hint = f"set the mesh so that its product is {spec.ntasks}"
    if local:
        hint = f"--ntasks-per-node {need}, or {hint}"
    elif need % per_node == 0:
        hint = f"--nodes {need // per_node}, or {hint}"
    raise PlanError(
        "parallel mesh",
        have=f"{counted(spec.ntasks, 'rank')}"
        f" ({counted(spec.resources.nodes, 'node')} × {per_node})",
        need=f"{counted(need, 'rank')} ({mesh})",
        hint=hint,
    )


def _check_local(spec: JobSpec, site: SiteSpec) -> None:
    if spec.resources.nodes > 1:
        raise PlanError(
            f"site {site.name} is this machine alone",
            have="1 node",
            need=counted(spec.resources.nodes, "node"),
            hint="--nodes 1, or a site with Slurm",
        )
    if spec.container.image and runtime_of(spec, site) is ContainerRuntime.PYXIS:
        raise PlanError(
            "Pyxis is a plugin of srun",
            have=f"site {site.name}, without Slurm",
            need="Apptainer or Singularity",
            hint='container.runtime = "apptainer"',
        )
    if spec.slurm.array is not None:
        raise PlanError(
            f"site {site.name} has no scheduler for arrays",
            have="one job",
            need=f"array {spec.slurm.array}",
            hint="run one task of it without slurm.array, or use a site with Slurm",
        )


_MIB = 1024**2


def site_partitions(site: SiteSpec) -> tuple[Partition, ...]:
    """The partitions that a site file describes."""
    return tuple(
        Partition(
            name=name,
            is_default=one.default,
            is_up=True,
            time_limit_s=None if one.time_limit is None else parse_slurm_time_s(one.time_limit),
            groups=(
                NodeGroup(
                    nodes=one.nodes,
                    cpus=one.cpus_per_node,
                    mem_mib=None
                    if one.mem_per_node is None
                    else parse_slurm_mem_bytes(one.mem_per_node) // _MIB,
                    gpus=one.gpus_per_node,
                    gpu_types=() if one.gpu_type is None else (one.gpu_type,),
                    features=one.features,
                ),
            ),
        )
        for name, one in site.partitions.items()
    )
