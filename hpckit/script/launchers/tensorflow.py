"""`tensorflow`: srun starts every rank, a worker that TF_CONFIG tells of the others.

Source: tf.distribute.MultiWorkerMirroredStrategy of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.core.errors import PlanError
from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


class Tensorflow(Launcher):
    """srun starts one task for each rank, which listens at a port that is free on its node."""

    kind = "tensorflow"
    summary = "srun starts every rank as a worker; `TF_CONFIG` lists them all"
    local_identity = "env"
    rank_options = ("--tf-config",)
    needs_runner = True

    def check(self, spec: JobSpec) -> None:
        """Raise PlanError for several ranks a node with GPUs: each would take all that it sees."""
        ranks = spec.ntasks_per_node
        if spec.resources.gpus_per_node and ranks > 1:
            raise PlanError(
                "each TensorFlow rank uses all GPUs of its node",
                have=f"resources.ntasks_per_node = {ranks}",
                need="1 (one worker with all GPUs of the node)",
                hint="remove resources.ntasks_per_node",
            )

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each."""
        return spec.ntasks
