"""`ft_launcher`: NVIDIA Resiliency Extension's launcher, which restarts ranks that fail or hang.

Source: nvidia_resiliency_ext/fault_tolerance/launcher.py of nvidia-resiliency-ext 0.4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.script.launchers.options import LauncherOptions
from hpckit.script.launchers.torchrun import OWNED, TORCHRUN, Torchrun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.script.launchers.launcher import SplitCommand
    from hpckit.spec.job import JobSpec


FT_LAUNCHER = LauncherOptions(
    program=("ft_launcher",),
    owned={name: key.replace("static", "c10d") for name, key in OWNED.items()},
    valued=TORCHRUN.valued | {"term-timeout", "workers-stop-timeout", "fault-tol-cfg-path"}
    | {"restart-policy"},
    flags=TORCHRUN.flags,
    as_module=TORCHRUN.as_module,
    prefixes=("ft-",),
)  # fmt: skip
"""All that ft_launcher 0.4.1 has: torchrun's, and `--ft-NAME`, which all take a value."""


class FtLauncher(Torchrun):
    """srun starts one ft_launcher a node, which knows no rendezvous but c10d.

    That numbers the nodes by their names, whatever order was planned.
    """

    kind = "ft_launcher"
    summary = "one ft_launcher of NVRx a node starts its ranks, and restarts them"
    keeps_order = False
    tool = None  # few have it, and `hpckit doctor` would miss it everywhere

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return the launcher's options and the program, None where another program is first."""
        return FT_LAUNCHER.read(words)

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the launcher; the node that it meets at is the one that has that address."""
        return _words(spec)

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the one launcher of this machine."""
        return _words(spec)


def _words(spec: JobSpec) -> tuple[str, ...]:
    size = (f"--nnodes={spec.resources.nodes}", f"--nproc-per-node={spec.ntasks_per_node}")
    start = (
        'exec ft_launcher --rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" '
        '--rdzv-id="$MASTER_PORT" "$@"'
    )
    return ("bash", "-c", start, "ft_launcher", *size, *spec.launch.args, "--no-python")
