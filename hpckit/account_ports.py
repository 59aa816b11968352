"""What reports need from the world: the accounts of jobs, and archives of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from hpckit.model.energy_reason import EnergyReason


class AccountFiles(Struct, frozen=True, kw_only=True):
    """What one incarnation left: its ledgers, by rank, its sample files and topologies, by node.

    `restart` is None for files that lie in no folder of an incarnation, as of a sampler that was
    started by hand.
    """

    restart: int | None
    ledgers: tuple[Path, ...] = ()
    samples: tuple[Path, ...] = ()
    topologies: tuple[Path, ...] = ()


class FoundAccounts(Struct, frozen=True, kw_only=True):
    """The accounts of a job, or of one task of an array, by incarnation.

    `missing` has a sentence for each thing that lies there and cannot be read. `array_tasks` are
    those that have accounts of their own.
    """

    incarnations: tuple[AccountFiles, ...] = ()
    missing: tuple[str, ...] = ()
    array_tasks: tuple[int, ...] = ()


class SampleStore(Protocol):
    """The accounts in job folders: what ranks and samplers wrote."""

    def find(self, folder: Path, array_task: int | None = None) -> FoundAccounts:
        """What lies below a job folder, its `account/`, or a folder of such files.

        Raises StorageFailed where the folder itself cannot be read.
        """
        ...

    def ledger(self, path: Path) -> bytes:
        """A ledger. Raises StorageFailed, also for what is no regular file."""
        ...

    def topology(self, path: Path) -> bytes:
        """A node's topology, as JSON. Raises as `ledger`."""
        ...

    def pieces(self, path: Path) -> Iterator[bytes]:
        """A sample file as it is now, in pieces of some MiB. Raises StorageFailed as `ledger`."""
        ...

    def ends(self, path: Path) -> tuple[bytes, bytes]:
        """The first and the last MiB of a sample file, or less. Raises as `ledger`."""
        ...


class ArchivedFile(Struct, frozen=True, kw_only=True):
    """A sample file for an archive: the incarnation that it is of (None: its META says).

    `pieces` reads it anew each time that it is called.
    """

    name: str
    restart: int | None
    pieces: Callable[[], Iterable[bytes]]


class SlurmEnergy(Struct, frozen=True, kw_only=True):
    """Joules of a job's nodes by Slurm's accounting, and the plugin that counted them.

    `value_j` is None where it has none, and `reasons` say why.
    """

    value_j: float | None = None
    plugin: str | None = None
    reasons: tuple[EnergyReason, ...] = ()


class EnergyAccounting(Protocol):
    """Tells the energy of jobs' nodes as the scheduler has it; never raises HpckitError."""

    def of(self, job_id: str, cluster: str | None) -> SlurmEnergy:
        """That of an ended job, of all its incarnations."""
        ...


class AccountArchive(Protocol):
    """All accounts of a job in one file that other tools can read."""

    def write(
        self,
        path: Path,
        ledgers: Mapping[str, str],
        files: Sequence[ArchivedFile],
        topologies: Mapping[str, str] = {},
    ) -> tuple[int, int]:
        """Write the file at once or not at all; gives the GPU samples in it, and its bytes.

        `ledgers` is text by `restart-<n>/rank-<n>.ledger`, `topologies` the same by
        `restart-<n>/node-<name>.topology.json`. Raises StorageFailed, ToolMissing.
        """
        ...
