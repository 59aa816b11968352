"""`torchrun`: one torchrun a node starts the node's ranks.

Source: torch.distributed.run, `torchrun --help` of torch 2.13.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpckit.core.errors import ConfigError, InvalidValue, PlanError
from hpckit.script.launchers.launcher import Launcher, LauncherTool, SplitCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.spec.job import JobSpec, LaunchRequest


OWNED = {
    "nnodes": "resources.nodes (--nodes)",
    "nproc-per-node": "resources.ntasks_per_node (--ntasks-per-node), else one a GPU",
    "node-rank": "nothing: hpckit reads SLURM_PROCID on each node",
    "master-addr": "nothing: hpckit takes the first node",
    "master-port": "nothing: hpckit tries free ports",
    "rdzv-backend": "nothing: the rendezvous is static",
    "rdzv-endpoint": "nothing: the rendezvous is static",
    "rdzv-id": "nothing: the rendezvous is static",
    "standalone": "nothing: one node needs no other way",
    "no-python": "the program itself as the command",
    "run-path": "python -m runpy as the command",
}
VALUED = frozenset(
    (
        *("rdzv-conf", "max-restarts", "monitor-interval", "start-method", "role", "log-dir"),
        *("redirects", "tee", "local-ranks-filter", "local-addr", "logs-specs", "numa-binding"),
        *("signals-to-handle", "event-log-handler", "duplicate-stdout-filters"),
        *("duplicate-stderr-filters", "shutdown-timeout", "r", "t"),
    )
)
_SHORT_WITH_VALUE = re.compile(r"-[rt][0-9].*")
_FLAGS = frozenset(["virtual-local-rank", "help", "h", "module", "m"])
OPTIONS = frozenset([*OWNED, *VALUED, *_FLAGS])
"""All that torchrun 2.13 has, with hyphens; it takes underscores too, and unique beginnings."""
_MEETING = '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'


class Torchrun(Launcher):
    """srun starts one torchrun a node, with a static rendezvous on the first node."""

    kind = "torchrun"
    summary = "one torchrun a node starts its ranks"
    identity = "env"
    local_identity = "env"
    starts_ranks = True
    options_key = "torchrun_args"
    tool = LauncherTool(
        argv=("torchrun", "--help"),
        hint="pip install torch, in the environment of the job",
        says_what_it_is=False,
    )

    def read_command(self, words: Sequence[str]) -> SplitCommand | None:
        """Return torchrun's options and the program, None where another program stands first."""
        if not words or PurePosixPath(words[0]).name != "torchrun":
            return None
        if "/" in words[0]:
            raise ConfigError(
                f"names a torchrun by its path, {words[0]!r}",
                key="command",
                hint="say the environment with environment.venv or conda, and torchrun alone",
            )
        options, rest, as_module = _split_options(list(words[1:]))
        if not rest:
            raise ConfigError(
                "torchrun has nothing to run", key="command", hint="torchrun train.py"
            )
        # python3, as many systems have no `python`, and environments have both.
        python = ("python3", "-m") if as_module else ("python3",)
        return SplitCommand(options=tuple(options), command=(*python, *rest))

    def refuse(self, launch: LaunchRequest) -> None:
        """Raise InvalidValue for an MPI plugin: torchrun's ranks are no tasks of srun."""
        if launch.mpi is not None:
            raise InvalidValue("mpi", launch.mpi, 'kind = "mpi" or "plain"')

    def check(self, spec: JobSpec) -> None:
        """Raise PlanError for a signal before the end: torchrun does not hand it on."""
        if spec.slurm.signal is not None:
            raise PlanError(
                "torchrun dies of the signal in slurm.signal and takes its ranks with it",
                have="a launcher that does not hand signals to its ranks",
                need=f"slurm.signal {spec.slurm.signal}",
                hint='leave slurm.signal out, or use launch.kind = "plain"',
            )

    def words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return torchrun, whose node's rank is read where it runs: a script knows only its own."""
        return _words(spec, '"$SLURM_PROCID"')

    def local_words(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the one torchrun of this machine."""
        return _words(spec, "0")


def _words(spec: JobSpec, node: str) -> tuple[str, ...]:
    size = (f"--nnodes={spec.resources.nodes}", f"--nproc-per-node={spec.ntasks_per_node}")
    start = ("bash", "-c", f'exec torchrun --node-rank={node} {_MEETING} "$@"', "torchrun")
    return (*start, *size, *spec.launch.torchrun_args, "--no-python")


def _split_options(words: list[str]) -> tuple[list[str], list[str], bool]:
    options: list[str] = []
    as_module = False
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name = _full_name(word)
        if name in ("m", "module"):
            as_module = True
            continue
        if name in OWNED:
            raise ConfigError(
                f"torchrun's {word.split('=', 1)[0]} is hpckit's to write",
                key="command",
                hint=f"say it with {OWNED[name]}",
            )
        if name in VALUED and "=" not in word and words:
            word = f"--{name}={words.pop(0)}" if len(name) > 1 else f"{word}={words.pop(0)}"
        options.append(word)
    return options, words, as_module


def _full_name(word: str) -> str:
    """Return the name of an option as torchrun reads it.

    Raises ConfigError for one of which nobody knows whether the next word is its value.
    """
    name = word.lstrip("-").split("=", 1)[0].replace("_", "-")
    meant = [option for option in OPTIONS if len(name) > 1 and option.startswith(name)]
    if name in OPTIONS:
        return name
    if len(meant) == 1:
        return meant[0]
    if "=" in word or _SHORT_WITH_VALUE.fullmatch(word):
        return name
    raise ConfigError(
        f"torchrun's {word} is not known here, so what follows may be its value or the program",
        key="command",
        hint=f'{word}=VALUE where it has a value, else launch.torchrun_args = ["{word}"]',
    )
