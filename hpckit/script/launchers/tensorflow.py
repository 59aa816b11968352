"""`tensorflow`: srun starts every rank, a worker that TF_CONFIG tells of the others.

Source: tf.distribute.MultiWorkerMirroredStrategy of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


class Tensorflow(Launcher):
    """srun starts one task for each rank, which listens at a port that is free on its node."""

    kind = "tensorflow"
    summary = "srun starts every rank as a worker, and `TF_CONFIG` names them all"
    local_identity = "env"
    rank_options = ("--tf-config",)

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each."""
        return spec.ntasks
