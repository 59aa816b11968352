"""`mpi`: srun starts every rank, with an MPI plugin by which they find each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.core.findings import Level, Notice
from hpckit.script.launchers.launcher import Launcher, LauncherTool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpckit.script.plan import LaunchPlan
    from hpckit.slurm.values import SlurmConfig
    from hpckit.spec.job import JobSpec


_NONE = "none"
_VERSIONED = "pmix_v"
"""srun takes a release of PMIx too, and lists those apart."""
_HINT = '--launch mpi {command}   (in a job file: launch.kind = "mpi")'


class Mpi(Launcher):
    """srun starts one task for each rank (`launch.mpi`); without Slurm mpirun does.

    MPI numbers its ranks itself, so hpckit cannot renumber them above Slurm.
    """

    kind = "mpi"
    summary = "srun starts every rank with an MPI plugin"
    identity = "mpi"
    local_identity = "mpi"
    can_renumber = False
    is_mpi = True
    tool = LauncherTool(
        argv=("mpirun", "--version"), hint="install openmpi-bin, or module load openmpi"
    )
    refused_programs = {"mpirun": _HINT, "mpiexec": _HINT}  # noqa: RUF012  never changed

    def live_findings(self, plan: LaunchPlan, config: SlurmConfig | None) -> Iterable[Notice]:
        """Return that srun would start each rank as process 0 of 1, or has no such plugin."""
        said = next((option.value for option in plan.srun if option.name == "mpi"), None)
        types = [name for name in config.mpi_types if name != _NONE] if config else []
        fix = " or ".join(f'launch.mpi = "{name}"' for name in types) or "set launch.mpi"
        if said is None and (config is None or not config.has_mpi):
            yield Notice(
                level=Level.ERROR,
                subject="launch.mpi",
                text="every rank would be process 0 of 1: the job sets no MPI plugin, and this "
                f"cluster's MpiDefault is {'none' if config else 'unknown'}",
                remedy=f"{fix}, to match the program's MPI library (srun --mpi=list)",
                source="srun(1), --mpi",
            )
        elif said and types and said not in types and not said.startswith(_VERSIONED):
            text = f"srun has no MPI plugin {said} here"
            yield Notice(level=Level.NOTE, subject="launch.mpi", text=text, remedy=fix)

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return mpirun with the number of ranks."""
        return ("mpirun", "-n", str(spec.ntasks))
