"""The ways to start ranks: one module a kind, and all of them by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from hpckit.core.errors import ConfigError
from hpckit.core.fields import InvalidValue
from hpckit.script.launchers.launcher import Launcher
from hpckit.script.launchers.mpi import Mpi
from hpckit.script.launchers.plain import Plain
from hpckit.script.launchers.torchrun import Torchrun

if TYPE_CHECKING:
    from hpckit.spec.job import JobSpec


Launchers: TypeAlias = Mapping[str, Launcher]


def launchers_of(*launchers: Launcher) -> Launchers:
    """Return launchers by their kind."""
    return MappingProxyType({launcher.kind: launcher for launcher in launchers})


LAUNCHERS: Final[Launchers] = launchers_of(Plain(), Mpi(), Torchrun())


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
