"""`plain`: srun starts every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


class Plain(Launcher):
    """srun starts one task for each rank; without Slurm the runner starts them."""

    kind = "plain"
    summary = "srun starts every rank"
    local_identity = "env"
    refused_programs = {  # noqa: RUF012  never changed
        "srun": "hpckit adds srun itself: {command}",
        "sbatch": "hpckit init --from SCRIPT   (a job file from a batch script)",
    }

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each, as torch's variables say."""
        return spec.ntasks
