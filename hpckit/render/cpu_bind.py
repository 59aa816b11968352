"""The binding of a node's ranks as an option of srun, for sites where Slurm is to do it."""

from __future__ import annotations

from hpckit.errors import RenderError
from hpckit.model.binding import NodeBinding
from hpckit.model.index_list import expand_indices


def cpu_bind_option(binding: NodeBinding) -> str:
    """The value of `--cpu-bind`: a mask of CPUs for each local rank, in their order.

    The masks hold for every node of the step, and srun takes them only where the step has whole
    nodes; a CPU is meant by the system's number. Source: srun(1), `--cpu-bind`, mask_cpu. Raises
    RenderError for a rank whose CPUs are not known.
    """
    for rank in binding.ranks:
        if not rank.cpus:
            raise RenderError(
                f"the CPUs of rank {rank.local_rank} are not known: {rank.cpus_because}",
                template="srun --cpu-bind",
                variable="mask_cpu",
            )
    return "mask_cpu:" + ",".join(_mask(rank.cpus) for rank in binding.ranks)


def _mask(cpus: str) -> str:
    return hex(sum(1 << cpu for cpu in expand_indices(cpus)))
