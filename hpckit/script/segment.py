"""How many nodes belong into one block: those of the groups that talk most, and what a job says."""

from __future__ import annotations

from math import isqrt, lcm
from typing import NamedTuple

from hpckit.core.errors import PlanError
from hpckit.core.units import counted
from hpckit.slurm.release import TopologyKind
from hpckit.spec.job import JobSpec, MeshAxis
from hpckit.spec.site import SiteSpec


class GroupNodes(NamedTuple):
    """The nodes that ranks of one group take, or of several groups that share nodes."""

    axis: MeshAxis
    nodes: int


def group_nodes(spec: JobSpec) -> GroupNodes | None:
    """Return how many neighbouring nodes hold whole tensor and expert groups.

    None where one node does, or the job has no such axis. Experts split the data axis.
    """
    spans: dict[MeshAxis, int] = {}
    stride = 1
    for axis, size in spec.parallel.items():
        if axis is MeshAxis.EXPERT:
            continue
        if axis is MeshAxis.TENSOR:
            spans[axis] = stride * size
        elif axis is MeshAxis.DATA and MeshAxis.EXPERT in spec.parallel:
            spans[MeshAxis.EXPERT] = stride * spec.parallel[MeshAxis.EXPERT]
        stride *= size
    nodes = lcm(spec.ntasks_per_node, *spans.values()) // spec.ntasks_per_node
    return GroupNodes(max(spans, key=lambda axis: spans[axis]), nodes) if nodes > 1 else None


def derived_segment(spec: JobSpec, site: SiteSpec) -> GroupNodes | None:
    """Return the segment that keeps these groups whole where Slurm places jobs by blocks.

    None where the job says one itself, or segments of this size do not fill it.
    """
    group = group_nodes(spec)
    is_by_block = site.slurm.topology is TopologyKind.BLOCK
    if not is_by_block or group is None or spec.slurm.segment is not None:
        return None
    return None if spec.resources.nodes % group.nodes else group


def kept_together(spec: JobSpec, site: SiteSpec) -> int:
    """Return how many nodes one after the other are of one block in the order of ranks."""
    group = group_nodes(spec)
    segment = spec.slurm.segment
    if group is None or (segment is not None and segment % group.nodes):
        return 1
    return group.nodes if segment is not None or derived_segment(spec, site) else 1


def check_segment(spec: JobSpec, site: SiteSpec) -> None:
    """Raise PlanError for segments that do not fill the job, and for groups larger than a block.

    Source: sbatch(1), --segment; slurm_opt.c, _validate_segment_size (Slurm 26.05). A job smaller
    than a segment is the releases' affair.
    """
    derived, block_nodes = derived_segment(spec, site), site.platform.domain_nodes
    if derived is not None and block_nodes is not None and derived.nodes > block_nodes:
        raise PlanError(
            f"a {derived.axis} group must fit in one block",
            have=f"blocks of {counted(block_nodes, 'node')}",
            need=f"{counted(derived.nodes, 'node')} per group, with {spec.ntasks_per_node} ranks "
            "per node",
            hint=f"make the {derived.axis} axis smaller, or set slurm.segment = 1 to let groups "
            "cross blocks",
        )
    segment, nodes = spec.slurm.segment, spec.resources.nodes
    if segment is None or nodes < segment or nodes % segment == 0:
        return
    pairs = ((size, nodes // size) for size in range(1, isqrt(nodes) + 1) if nodes % size == 0)
    fitting = max(size for pair in pairs for size in pair if size <= segment)
    full = (nodes // segment * segment, -(-nodes // segment) * segment)
    raise PlanError(
        "slurm.segment",
        have=counted(nodes, "node"),
        need=f"a multiple of {segment}",
        hint=f"--nodes {' or '.join(map(str, full))}, or slurm.segment = {fitting}",
    )
