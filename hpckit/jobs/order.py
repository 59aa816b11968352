"""What a job takes with it in order to order its nodes itself when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import AdapterError, ParseError, PlanError
from hpckit.core.findings import Level, Notice
from hpckit.script.segment import kept_together
from hpckit.slurm.values import SlurmVersion
from hpckit.spec.job import JobSpec, MeshAxis

if TYPE_CHECKING:
    from hpckit.fabric.ask import FabricProbe
    from hpckit.fabric.topology import ClusterTopology
    from hpckit.jobs.prepare import PreparedJob
    from hpckit.placement.order_plan import OrderPlan


_MAPS_ORDERS: Final = SlurmVersion(24, 5)


def order_plan(
    job: PreparedJob,
    probe: FabricProbe | None,
    cluster: str | None,
    partition: str | None = None,
) -> tuple[OrderPlan | None, tuple[Notice, ...]]:
    """The plan of a job whose script orders its nodes, and a note of why there is none.

    `partition` is the one that sbatch takes where the job names none. A cluster without a network
    that Slurm knows is no fault: the job then runs in Slurm's order.
    """
    spec, place = job.effective.spec, job.plan.place
    if place is None or not place.order or probe is None:
        return None, ()
    try:
        chosen = _of_partition(probe.topologies(cluster), spec.slurm.partition or partition)
        if chosen is None or not chosen.nodes:
            return None, ()
        _refuse_old_pmi2(job, probe, cluster)
        return _plan(spec, chosen, kept_together(spec, job.site)), ()
    except (AdapterError, ParseError) as error:
        said, _, _ = error.message.partition("\n")
        why = f"the cluster's network is unknown: {said}"
    except PlanError as error:
        why = f"no node order for this job: {error.message}"
    text = f"ranks keep Slurm's order: {why}"
    return None, (Notice(level=Level.NOTE, subject="order", text=text),)


def _refuse_old_pmi2(job: PreparedJob, probe: FabricProbe, cluster: str | None) -> None:
    """Raise PlanError where MPI would be told a wrong map of an order.

    It may then look for memory of a rank that is on another node. Source: Slurm's changes, 24.05.
    """
    if not job.launcher.is_mpi:
        return
    config = probe.look(cluster, needs_partitions=False).config
    said = next((option.value for option in job.plan.srun if option.name == "mpi"), None)
    plugin = str(said or config.mpi_default or "")
    if plugin.startswith("pmi2") and (config.version is None or config.version < _MAPS_ORDERS):
        raise PlanError(
            "PMI-2 gets from Slurm which ranks share a node",
            have=f"Slurm {config.version or '(release unknown)'}, which ignores the order",
            need="Slurm 24.05 or later, or PMIx",
        )


def _of_partition(
    topologies: Sequence[ClusterTopology], partition: str | None
) -> ClusterTopology | None:
    """The topology of a partition, or of one of several that are named, else the default."""
    names = set() if partition is None else set(partition.split(","))
    for one in topologies:
        if names.intersection(one.partitions):
            return one
    return next((one for one in topologies if one.is_default), None)


def _plan(spec: JobSpec, topology: ClusterTopology, segment: int) -> OrderPlan:
    # Few submissions are of several nodes on a cluster with a network.
    from hpckit.fabric.domains import locality_of
    from hpckit.placement.order_plan import OrderPlan
    from hpckit.placement.place import speeds_of
    from hpckit.placement.request import mesh_of

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
        speeds=speeds,
        source=str(topology.source),
        segment=segment,
    )
