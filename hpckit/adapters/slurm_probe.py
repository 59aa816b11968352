"""What a cluster is, asked of Slurm and remembered for an hour."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from hpckit.adapters.clock import Clock
from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.adapters.slurm_conf import cluster_name
from hpckit.adapters.whole_file import write_private
from hpckit.errors import AdapterError, ParseError, SchedulerUnreachable
from hpckit.model.cluster import ClusterView

_FRESH_S = 3600.0
_MOST_BYTES = 1 << 24  # three thousand partitions are 2 MB, 10,000 nodes as many


class SeenAt(Protocol):
    """An answer of Slurm that is kept, with the time at which it was given."""

    @property
    def seen_s(self) -> float:
        """Seconds since the epoch."""


Kept = TypeVar("Kept", bound=SeenAt)


class SlurmProbe:
    """Asks scontrol for the configuration and sinfo for the partitions, at most once an hour.

    The answers lie in `folder`, one file a cluster, so that a thousand submissions ask once. A
    file that cannot be read or written costs only the questions.
    """

    def __init__(
        self, slurm: SlurmCli, folder: Path, clock: Clock, environment: Mapping[str, str]
    ) -> None:
        self._slurm = slurm
        self._folder = folder
        self._clock = clock
        # Hosts that share a home folder need not share a Slurm: without a name, each asks itself.
        self._here = (
            environment.get("SLURM_CONF", ""),
            cluster_name(environment) or socket.gethostname(),
        )

    def look(
        self, cluster: str | None, *, fresh: bool = False, needs_partitions: bool = True
    ) -> ClusterView:
        """The cluster of this name, None for the one that is here; `fresh` asks in any case.

        Unless it `needs_partitions`, nobody has to answer for them. Raises SchedulerUnreachable,
        ToolFailed, ToolMissing, ParseError.
        """
        known = None if fresh else self.remembered(cluster, "", ClusterView)
        if known is not None:
            return known
        config, unread = self._slurm.config(cluster), None
        try:
            partitions = tuple(self._slurm.partitions(cluster))
        except (AdapterError, ParseError) as error:
            if needs_partitions and isinstance(error, SchedulerUnreachable):
                raise
            partitions, unread = (), error.message
        view = ClusterView(
            config=config, partitions=partitions, seen_s=self._now_s(), unread=unread
        )
        if unread is None:
            self.remember(cluster, "", view)
        return view

    def remembered(self, cluster: str | None, what: str, kind: type[Kept]) -> Kept | None:
        """Return what `remember` kept of the cluster in the last hour, None without."""
        known = _read(self._path(cluster, what), kind)
        # One from the future is of a clock that was wrong.
        return known if known is not None and 0 <= self._now_s() - known.seen_s < _FRESH_S else None

    def remember(self, cluster: str | None, what: str, answer: SeenAt) -> None:
        """Keep an answer about the cluster; one that cannot be written is asked again."""
        _keep(self._path(cluster, what), answer)

    def _now_s(self) -> float:
        return self._clock.now_s()

    def _path(self, cluster: str | None, what: str) -> Path:
        key = "\0".join((*self._here, cluster or "", *([what] if what else ())))
        return (
            self._folder / f"{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:16]}.json"
        )


def _read(path: Path, kind: type[Kept]) -> Kept | None:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _keep(path: Path, view: SeenAt) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, msgspec.json.encode(view))
