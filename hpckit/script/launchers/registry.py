"""The ways to start ranks by name: one module a kind; and which of them a command begins with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from hpckit.core.errors import ConfigError, InvalidValue
from hpckit.script.launchers.accelerate import Accelerate
from hpckit.script.launchers.deepspeed import Deepspeed
from hpckit.script.launchers.horovod import Horovod
from hpckit.script.launchers.jax import Jax
from hpckit.script.launchers.launcher import Launcher, SplitCommand
from hpckit.script.launchers.mpi import Mpi
from hpckit.script.launchers.plain import Plain
from hpckit.script.launchers.ray import Ray
from hpckit.script.launchers.tensorflow import Tensorflow
from hpckit.script.launchers.torchrun import Torchrun
from hpckit.spec.merge import Layer

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


_COUNTS: Final = ("np", "n", "c")
"""How mpirun and mpiexec are given the number of ranks."""
Launchers: TypeAlias = Mapping[str, Launcher]


def launchers_of(*launchers: Launcher) -> Launchers:
    """Return launchers by their kind."""
    return MappingProxyType({launcher.kind: launcher for launcher in launchers})


LAUNCHERS: Final[Launchers] = launchers_of(
    Plain(), Mpi(), Torchrun(), Accelerate(), Deepspeed(), Horovod(), Jax(), Tensorflow(), Ray()
)


def refuse_launch(spec: JobSpec, launchers: Launchers = LAUNCHERS) -> None:
    """Raise ConfigError for a kind that is no launcher, and for keys that it has no use for."""
    kind = spec.launch.kind
    launcher = launchers.get(kind)
    if launcher is None:
        import difflib

        near = difflib.get_close_matches(kind, launchers, n=1, cutoff=0.5)
        raise ConfigError(
            f"got {kind!r}, expected one of: {', '.join(launchers)}",
            key="launch.kind",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    try:
        launcher.refuse(spec.launch)
    except InvalidValue as error:
        raise ConfigError(str(error), key=f"launch.{error.key}") from error


def read_launchers(layers: Sequence[Layer], launchers: Launchers = LAUNCHERS) -> list[Layer]:
    """Return the layers with a command that begins with a launcher taken apart, its launch said.

    Somebody who says another `launch.kind` keeps the launcher as the program. Raises ConfigError
    for a command that begins with a program which hpckit starts itself.
    """
    read_layers = list(layers)
    kinds = [_launch_table(layer)["kind"] for layer in layers if "kind" in _launch_table(layer)]
    for position, layer in enumerate(layers):
        command = layer.tree.get("command")
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            continue
        _refuse_programs(command, launchers)
        for launcher in launchers.values():
            split = launcher.read_command(command) if kinds[:1] in ([], [launcher.kind]) else None
            if split is not None:
                read_layers[position] = _with_launcher(layer, launcher, split)
        break
    return read_layers


def _refuse_programs(command: Sequence[str], launchers: Launchers) -> None:
    program = PurePosixPath(command[0]).name if command else ""
    for launcher in launchers.values():
        if program in launcher.refused_programs:
            hint = launcher.refused_programs[program].format(command=_without(command))
            raise ConfigError(f"starts with {program}", key="command", hint=hint)


def _without(command: Sequence[str]) -> str:
    """Return a command without the launcher in front, its `-np 4` as an option of hpckit."""
    rest = list(command[1:])
    count = ""
    if len(rest) > 1 and rest[0].lstrip("-") in _COUNTS and rest[1].isdecimal():
        count, rest = f"-N 1 -n {rest[1]} ", rest[2:]
    if not rest or rest[0].startswith("-"):
        return "-N NODES -n RANKS -- PROGRAM"
    return f"{count}-- {shlex.join(rest)}"


def _with_launcher(layer: Layer, launcher: Launcher, split: SplitCommand) -> Layer:
    launch = {**_launch_table(layer), "kind": launcher.kind}
    if split.options:
        launch["args"] = list(split.options)
    details = dict.fromkeys(("launch.kind", "launch.args"), f"{launcher.kind} in command")
    tree = {**layer.tree, "command": list(split.command), "launch": launch}
    return replace(layer, tree=tree, details={**details, **layer.details})


def _launch_table(layer: Layer) -> Mapping[str, object]:
    table = layer.tree.get("launch")
    return table if isinstance(table, Mapping) else {}


def job_name_of(command: Sequence[str]) -> str:
    """A name for a job that has only a command: its script's, else its program's."""
    for word in command:
        path = PurePosixPath(word)
        if path.suffix in (".py", ".sh", ".jl", ".R"):
            return path.stem or "job"
    return PurePosixPath(command[0]).name or "job" if command else "job"
