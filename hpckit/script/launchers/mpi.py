"""`mpi`: srun starts every rank, with an MPI plugin by which they find each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.script.launchers.launcher import Launcher, LauncherTool

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


_HINT = 'hpckit starts the ranks itself: give the program, and launch.kind = "mpi"'


class Mpi(Launcher):
    """srun starts one task for each rank (`launch.mpi`); without Slurm mpirun does.

    MPI numbers its ranks itself, so hpckit cannot renumber them above Slurm.
    """

    kind = "mpi"
    summary = "the same with an MPI plugin"
    identity = "mpi"
    local_identity = "mpi"
    can_renumber = False
    is_mpi = True
    tool = LauncherTool(
        argv=("mpirun", "--version"), hint="install openmpi-bin, or module load openmpi"
    )
    refused_programs = {"mpirun": _HINT, "mpiexec": _HINT}  # noqa: RUF012  never changed

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return mpirun with the number of ranks."""
        return ("mpirun", "-n", str(spec.ntasks))
