"""`horovod`: srun starts every rank, and they find each other by Gloo, without horovodrun and ssh.

Source: Horovod 0.28.1, docs/gloo.rst and horovod/common/gloo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.core.errors import InvalidValue
from hpckit.script.launchers.launcher import Launcher

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec, LaunchRequest


_HINT = '--launch horovod {command}   (in a job file: launch.kind = "horovod")'


class Horovod(Launcher):
    """srun starts one task for each rank; rank 0 keeps the store at which all meet."""

    kind = "horovod"
    summary = "srun starts every rank; Gloo connects them, as with horovodrun"
    local_identity = "env"
    rank_options = ("--horovod",)
    needs_runner = True
    refused_programs = {"horovodrun": _HINT}  # noqa: RUF012  never changed

    def refuse(self, launch: LaunchRequest) -> None:
        """Raise InvalidValue for an MPI plugin, which ranks that meet by Gloo have no use for."""
        super().refuse(launch)
        if launch.mpi is not None:
            raise InvalidValue("mpi", launch.mpi, "none, because Horovod's ranks connect by Gloo")

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return the ranks of the job: the runner starts each."""
        return spec.ntasks
