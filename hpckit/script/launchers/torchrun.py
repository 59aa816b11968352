"""`torchrun`: one torchrun a node starts the node's ranks.

Source: torch.distributed.run, `torchrun --help` of torch 2.13.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpckit.core.errors import ConfigError
from hpckit.script.launchers.launcher import Launcher, LauncherTool, SplitCommand
from hpckit.script.launchers.options import LauncherOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.spec.job import JobSpec


OWNED = {
    "nnodes": "resources.nodes (--nodes)",
    "nproc-per-node": "resources.ntasks_per_node (--ntasks-per-node; default: one per GPU)",
    "node-rank": "nothing: hpckit reads SLURM_PROCID on each node",
    "master-addr": "nothing: hpckit uses the first node",
    "master-port": "nothing: hpckit finds a free port",
    "rdzv-backend": "nothing: the rendezvous is static",
    "rdzv-endpoint": "nothing: the rendezvous is static",
    "rdzv-id": "nothing: the rendezvous is static",
    "standalone": "nothing: one node needs nothing in its place",
    "no-python": "the program itself as the command",
    "run-path": "python -m runpy as the command",
}
TORCHRUN = LauncherOptions(
    program=("torchrun",),
    owned=OWNED,
    valued=frozenset(
        (
            *("rdzv-conf", "max-restarts", "monitor-interval", "start-method", "role", "log-dir"),
            *("redirects", "tee", "local-ranks-filter", "local-addr", "logs-specs", "t", "r"),
            *("signals-to-handle", "event-log-handler", "duplicate-stdout-filters"),
            *("duplicate-stderr-filters", "shutdown-timeout", "numa-binding"),
        )
    ),
    flags=frozenset(["virtual-local-rank", "help", "h"]),
    as_module=frozenset(["module", "m"]),
)
"""All that torchrun 2.13 has."""
_MEETING = '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'


class Torchrun(Launcher):
    """srun starts one torchrun a node, with a static rendezvous on the first node."""

    kind = "torchrun"
    summary = "one torchrun per node starts its ranks"
    identity = "env"
    local_identity = "env"
    starts_ranks = True
    takes_args = True
    hands_signals_on = False
    tool = LauncherTool(
        argv=("torchrun", "--help"),
        hint="pip install torch in the environment of the job",
        says_what_it_is=False,
    )

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return torchrun's options and the program, None where another program stands first."""
        is_python = bool(words) and PurePosixPath(words[0]).name.startswith("python")
        if is_python and tuple(words[1:3]) == ("-m", "torch.distributed.launch"):
            hint = "give: torchrun train.py   (the program reads LOCAL_RANK, not --local-rank)"
            raise ConfigError("torch.distributed.launch is deprecated", key="command", hint=hint)
        if is_python and tuple(words[1:3]) == ("-m", "torch.distributed.run"):
            words = (str(PurePosixPath(words[0]).with_name("torchrun")), *words[3:])
        return TORCHRUN.read(words)

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return torchrun, whose node's rank is read where it runs: a script knows only its own."""
        return _words(spec, '"$SLURM_PROCID"')

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the one torchrun of this machine."""
        return _words(spec, "0")


def _words(spec: JobSpec, node: str) -> tuple[str, ...]:
    size = (f"--nnodes={spec.resources.nodes}", f"--nproc-per-node={spec.ntasks_per_node}")
    start = ("bash", "-c", f'exec torchrun --node-rank={node} {_MEETING} "$@"', "torchrun")
    return (*start, *size, *spec.launch.args, "--no-python")
