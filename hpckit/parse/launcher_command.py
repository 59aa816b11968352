"""What a command line says about its own launch: a leading torchrun, and a name for the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from hpckit.errors import ConfigError
from hpckit.parse.job_file import Layer

TORCHRUN_OWNED = {
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
TORCHRUN_VALUED = frozenset(
    [
        "rdzv-conf",
        "max-restarts",
        "monitor-interval",
        "start-method",
        "role",
        "log-dir",
        "redirects",
        "tee",
        "local-ranks-filter",
        "local-addr",
        "logs-specs",
        "numa-binding",
        "signals-to-handle",
        "event-log-handler",
        "duplicate-stdout-filters",
        "duplicate-stderr-filters",
        "shutdown-timeout",
        "r",
        "t",
    ]
)
_SHORT_WITH_VALUE = re.compile(r"-[rt][0-9].*")
_TORCHRUN_FLAGS = frozenset(["virtual-local-rank", "help", "h", "module", "m"])
TORCHRUN_OPTIONS = frozenset([*TORCHRUN_OWNED, *TORCHRUN_VALUED, *_TORCHRUN_FLAGS])
"""All that torchrun 2.13 has, with hyphens; it takes underscores too, and unique beginnings."""
_LAUNCHERS = {
    "srun": "hpckit writes srun itself: give the program after it",
    "mpirun": 'hpckit starts the ranks itself: give the program, and launch.kind = "mpi"',
    "mpiexec": 'hpckit starts the ranks itself: give the program, and launch.kind = "mpi"',
    "sbatch": "hpckit writes the script: give the program that the script runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchrunCommand:
    """A command that began with torchrun: torchrun's own options, and what each rank runs."""

    options: tuple[str, ...]
    command: tuple[str, ...]


def read_torchrun(command: Sequence[str]) -> TorchrunCommand | None:
    """The parts of a command that begins with torchrun, None for any other.

    Raises ConfigError for an option that the launch owns, and for another launcher in front.
    """
    if not command:
        return None
    program = PurePosixPath(command[0]).name
    if program == "torchrun" and "/" in command[0]:
        raise ConfigError(
            f"names a torchrun by its path, {command[0]!r}",
            key="command",
            hint="say the environment with environment.venv or conda, and torchrun alone",
        )
    if program in _LAUNCHERS:
        raise ConfigError(f"begins with {program}", key="command", hint=_LAUNCHERS[program])
    if program != "torchrun":
        return None
    options, rest, as_module = _split_options(list(command[1:]))
    if not rest:
        raise ConfigError("torchrun has nothing to run", key="command", hint="torchrun train.py")
    # python3, as many systems have no `python`, and environments have both.
    python = ("python3", "-m") if as_module else ("python3",)
    return TorchrunCommand(options=tuple(options), command=(*python, *rest))


def read_launchers(layers: Sequence[Layer]) -> list[Layer]:
    """The layers with a command that begins with torchrun taken apart, and its launch said.

    Somebody who says `launch.kind = "plain"` keeps torchrun as the program. Raises ConfigError
    for a command that begins with a launcher which hpckit writes itself.
    """
    read_layers = list(layers)
    kinds = [_launch_table(layer)["kind"] for layer in layers if "kind" in _launch_table(layer)]
    for position, layer in enumerate(layers):
        command = layer.tree.get("command")
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            continue
        said_otherwise = bool(kinds) and kinds[0] != "torchrun"
        read = None if said_otherwise and _names_torchrun(command) else read_torchrun(command)
        if read is not None:
            read_layers[position] = _with_torchrun(layer, read)
        break
    return read_layers


def _names_torchrun(command: Sequence[str]) -> bool:
    return bool(command) and PurePosixPath(command[0]).name == "torchrun"


def _with_torchrun(layer: Layer, read: TorchrunCommand) -> Layer:
    launch = {**_launch_table(layer), "kind": "torchrun"}
    if read.options:
        launch["torchrun_args"] = list(read.options)
    details = dict.fromkeys(("launch.kind", "launch.torchrun_args"), "torchrun in command")
    tree = {**layer.tree, "command": list(read.command), "launch": launch}
    return replace(layer, tree=tree, details={**details, **layer.details})


def _launch_table(layer: Layer) -> Mapping[str, object]:
    table = layer.tree.get("launch")
    return table if isinstance(table, Mapping) else {}


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
        if name in TORCHRUN_OWNED:
            raise ConfigError(
                f"torchrun's {word.split('=', 1)[0]} is hpckit's to write",
                key="command",
                hint=f"say it with {TORCHRUN_OWNED[name]}",
            )
        if name in TORCHRUN_VALUED and "=" not in word and words:
            word = f"--{name}={words.pop(0)}" if len(name) > 1 else f"{word}={words.pop(0)}"
        options.append(word)
    return options, words, as_module


def _full_name(word: str) -> str:
    """The name of an option as torchrun reads it.

    Raises ConfigError for one of which nobody knows whether the next word is its value.
    """
    name = word.lstrip("-").split("=", 1)[0].replace("_", "-")
    meant = [one for one in TORCHRUN_OPTIONS if len(name) > 1 and one.startswith(name)]
    if name in TORCHRUN_OPTIONS:
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


def job_name_of(command: Sequence[str]) -> str:
    """A name for a job that has only a command: its script's, else its program's."""
    for word in command:
        path = PurePosixPath(word)
        if path.suffix in (".py", ".sh", ".jl", ".R"):
            return path.stem or "job"
    return PurePosixPath(command[0]).name or "job" if command else "job"
