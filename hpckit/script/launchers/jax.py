"""`jax`: srun starts every rank, and jax.distributed finds the others.

Source: jax/_src/distributed.py and jax/_src/clusters/slurm_cluster.py of jax 0.10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.core.errors import PlanError
from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


class Jax(Launcher):
    """srun starts one task for each rank, whose number and count JAX reads from Slurm.

    By itself it would meet at the first node of the sorted list, at a port that may be taken, and
    give each rank one GPU whatever their number.
    """

    kind = "jax"
    summary = "srun starts every rank; `jax.distributed.initialize()` connects them"
    local_identity = "env"

    def check(self, spec: JobSpec) -> None:
        """Raise PlanError where the GPUs of a node cannot be dealt out to its ranks."""
        gpus, ranks = spec.resources.gpus_per_node or 0, spec.ntasks_per_node
        if gpus % ranks:
            raise PlanError(
                "the GPUs of a node cannot be shared out evenly to its ranks",
                have=f"{gpus} GPUs per node",
                need=f"a multiple of {ranks}, the ranks per node",
                hint=f"resources.ntasks_per_node = {gpus}, or 1",
            )

    def rank_shell(self, spec: JobSpec) -> str | None:
        """Return where the ranks meet, and which GPUs of the node are a rank's."""
        gpus, ranks = spec.resources.gpus_per_node or 0, spec.ntasks_per_node
        each = gpus // ranks
        at = "${LOCAL_RANK:-$SLURM_LOCALID}"  # without the runner Slurm's own
        device_ids = {0: None, 1: at}.get(
            each, f"$(seq -s, $(({at} * {each})) $(({at} * {each} + {each - 1})))"
        )
        devices = f' JAX_LOCAL_DEVICE_IDS="{device_ids}"' if device_ids else ""
        return f'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"{devices} exec "$@"'

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each."""
        return spec.ntasks
