"""What a job takes with it in order to order its nodes itself when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpckit.errors import AdapterError, ParseError, PlanError
from hpckit.model.finding import Finding, Level
from hpckit.model.job import JobSpec, MeshAxis

if TYPE_CHECKING:
    from hpckit.app.prepare import PreparedJob
    from hpckit.model.fabric import ClusterTopology
    from hpckit.model.order_plan import OrderPlan
    from hpckit.ports import ClusterProbe


def order_plan(
    job: PreparedJob,
    probe: ClusterProbe | None,
    cluster: str | None,
    partition: str | None = None,
) -> tuple[OrderPlan | None, tuple[Finding, ...]]:
    """The plan of a job whose script orders its nodes, and a note of why there is none.

    `partition` is the one that sbatch takes where the job names none. A cluster without a network
    that Slurm knows is no fault: the job then runs in Slurm's order.
    """
    spec, place = job.effective.spec, job.plan.place
    if place is None or not place.order or probe is None:
        return None, ()
    try:
        chosen = _of_partition(probe.topologies(cluster), spec.slurm.partition or partition)
        return (_plan(spec, chosen) if chosen and chosen.nodes else None), ()
    except (AdapterError, ParseError) as error:
        why = f"the cluster's network is not known: {error.message}"
    except PlanError as error:
        why = f"there is no order for this mesh: {error.message}"
    text = f"{why}; ranks will be in Slurm's own order"
    return None, (Finding(level=Level.NOTE, subject="order", text=text),)


def _of_partition(
    topologies: Sequence[ClusterTopology], partition: str | None
) -> ClusterTopology | None:
    """The topology of a partition, or of one of several that are named, else the default."""
    names = set() if partition is None else set(partition.split(","))
    for one in topologies:
        if names.intersection(one.partitions):
            return one
    return next((one for one in topologies if one.is_default), None)


def _plan(spec: JobSpec, topology: ClusterTopology) -> OrderPlan:
    # Few submissions are of several nodes on a cluster with a network.
    from hpckit.app.place import speeds_of  # noqa: PLC0415
    from hpckit.decide.locality import locality_of  # noqa: PLC0415
    from hpckit.decide.mesh import mesh_of  # noqa: PLC0415
    from hpckit.model.order_plan import OrderPlan  # noqa: PLC0415

    sizes = dict(spec.parallel) or {MeshAxis.DATA: spec.ntasks}
    gbits = spec.place.node_gbits
    speeds = speeds_of(
        spec.resources.gpus_per_node or 1,
        None if gbits is None else gbits * 1e9 / 8,
        spec.place.oversubscription,
    )
    return OrderPlan(
        mesh=mesh_of(sizes, spec.place.volume),
        ranks_per_node=spec.ntasks_per_node,
        locality=locality_of(topology),
        nic_bytes_per_s=speeds.nic_bytes_per_s,
        nvlink_bytes_per_s=speeds.nvlink_bytes_per_s,
        oversubscription=speeds.oversubscription,
        source=str(topology.source),
    )
