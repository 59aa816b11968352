"""What hpckit has to know of a way to start ranks; a kind overrides what is different about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hpckit.core.errors import InvalidValue, PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hpckit.core.findings import Notice
    from hpckit.script.plan import LaunchPlan
    from hpckit.slurm.values import SlurmConfig
    from hpckit.spec.job import JobSpec, LaunchRequest


class SplitCommand(NamedTuple):
    """A command line that began with a launcher: the launcher's options, and what a rank runs."""

    options: tuple[str, ...]
    command: tuple[str, ...]


class LauncherTool(NamedTuple):
    """The launcher's own program: how `hpckit doctor` asks it, and how to get it."""

    argv: tuple[str, ...]
    hint: str
    says_what_it_is: bool = True


class Launcher:
    """One value of `launch.kind`. As it stands srun starts one task for each rank.

    `identity` is where a rank reads its number from (`injob rank --from`): `slurm`, `mpi`, `env`
    (torch's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK), or the names of the
    variables that hold these five, separated by commas. `starts_ranks`: srun starts one launcher
    a node, and that starts the node's ranks. `can_renumber`: ranks take the number that
    hpckit gives them where srun takes no order of nodes. `is_mpi`: ranks talk by MPI.
    `hands_signals_on`: a signal before the time limit (`slurm.signal`) does not end the launcher.
    """

    kind: str
    summary: str
    identity: str = "slurm"
    local_identity: str = "slurm"
    starts_ranks: bool = False
    can_renumber: bool = True
    is_mpi: bool = False
    hands_signals_on: bool = True
    tool: LauncherTool | None = None
    rank_options: tuple[str, ...] = ()
    """What the rank entry is told besides, such as `--tf-config`."""
    needs_runner: bool = False
    """Whether ranks could not find each other without the runner: then none is started."""
    takes_args: bool = False
    """Whether the launcher has options of its own (`launch.args`)."""
    refused_programs: Mapping[str, str] = {}
    """Programs that a command does not begin with, because hpckit starts them, and what to say.

    `{command}` is the ranks of all nodes and the program, as far as they are clear.
    """

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return the parts of a command line that begins with this launcher, None for any other.

        Raises ConfigError for an option that hpckit writes itself.
        """
        del words
        return None

    def refuse(self, launch: LaunchRequest) -> None:
        """Raise InvalidValue for a key of `[launch]` that this launcher has no use for."""
        if launch.args and not self.takes_args:
            raise InvalidValue(
                "args", list(launch.args), "a launch.kind with a launcher, such as torchrun"
            )
        if launch.mpi is not None and self.starts_ranks:
            raise InvalidValue(
                "mpi", launch.mpi, "a launch.kind whose ranks srun starts, such as mpi"
            )

    def check(self, spec: JobSpec) -> None:
        """Raise PlanError for a job that this launcher cannot do."""
        if spec.slurm.signal is not None and not self.hands_signals_on:
            raise PlanError(
                f"the signal of slurm.signal kills {self.kind} and its ranks",
                have="a launcher that does not pass signals to its ranks",
                need=f"slurm.signal {spec.slurm.signal}",
                hint='remove slurm.signal, or use launch.kind = "plain"',
            )

    def live_findings(self, plan: LaunchPlan, config: SlurmConfig | None) -> Iterable[Notice]:
        """Return what keeps the ranks from finding each other on the cluster.

        `config` is None where it could not be asked.
        """
        del plan, config
        return ()

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the words between srun's options and the rank entry."""
        del spec
        return ()

    def rank_shell(self, spec: JobSpec) -> str | None:
        """Return what a shell does that becomes the rank's command ("$@"), None without one.

        It has the rank's own variables: torch's (RANK to NODE_RANK, MASTER_ADDR, MASTER_PORT) and
        those of whatever started the rank.
        """
        del spec
        return None

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the words before the rank entry on a machine without Slurm."""
        del spec
        return ()

    def local_ranks(self, spec: JobSpec) -> int | None:
        """Return how many ranks the runner starts there itself, None where the launcher does."""
        del spec
        return None
