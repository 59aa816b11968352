"""The accounts below a job folder: anything may lie there, and only regular files are read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hpckit.account.sample_format import HEADER_BYTES, META, Block, read_blocks
from hpckit.account.samples import FileCondition, Fill, SampleChunk, SampleReader
from hpckit.account.values import EnergyLack, EnergyReason, SlurmEnergy
from hpckit.core.errors import HpckitError, NoSuchFile, StorageFailed
from hpckit.spec.folder_in_job import (
    ACCOUNT_FOLDER,
    array_task_of,
    node_of,
    node_of_topology,
    rank_of,
    restart_of,
)

if TYPE_CHECKING:
    from hpckit.slurm.ask import SlurmCli, SlurmProbe
    from hpckit.spec.store import FileJobFolders

_END_BYTES = (1 << 17, 1 << 20)  # the second where blocks are large: at rates above 1 Hz


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


class FileSampleStore:
    """Accounts on a file system."""

    def find(self, folder: Path, array_task: int | None = None) -> FoundAccounts:
        """What lies below a job folder, its `account/`, or a folder of such files.

        Raises StorageFailed where the folder itself cannot be read.
        """
        try:
            return _found(folder, array_task)
        except OSError as error:
            raise StorageFailed(f"{folder} cannot be read: {error.strerror}") from error

    def text(self, path: Path) -> bytes:
        """A ledger, or a node's topology. Raises StorageFailed, also for no regular file."""
        try:
            with _opened(path) as handle:
                return os.pread(handle, _size_of(handle), 0)
        except OSError as error:
            raise _cannot_read(path, error) from error

    def samples(self, path: Path, condition: FileCondition | None = None) -> SampleReader:
        """A sample file as it is now, read in pieces of some MiB. Raises StorageFailed."""
        return SampleReader(_filling(path), condition)

    def ends(self, path: Path) -> tuple[Iterable[SampleChunk], Iterable[SampleChunk]]:
        """The beginning and the end of a sample file whose META is whole. Raises as `samples`."""
        ends: tuple[list[SampleChunk], list[SampleChunk]] = [], []
        for size_bytes in _END_BYTES:
            head, tail = _ends_of(path, size_bytes)
            meta = next(read_blocks(head), None)
            if isinstance(meta, Block) and meta.header.kind == META:
                meta_bytes = head[: HEADER_BYTES + len(meta.payload)]
                ends = [*SampleReader(head)], [*SampleReader(meta_bytes + tail)]
            if all(any(len(chunk.gpu_ns) for chunk in chunks) for chunks in ends):
                break
        return ends


def array_tasks(folder: Path) -> Mapping[int, Path]:
    """Return the measured tasks of an array's folder, with where each lies; none of other jobs."""
    try:
        found = _found(folder, None)
    except OSError:
        return {}
    below = folder / ACCOUNT_FOLDER
    where = below if below.is_dir() else folder
    return {} if found.incarnations else {one: where / f"array-{one}" for one in found.array_tasks}


class _Listing:
    """One folder: what in it is a folder, and what is not: reading refuses what is no file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with os.scandir(path) as entries:
            is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        self.folders = [name for name, is_one in is_folder.items() if is_one]
        self.others = sorted(name for name, is_one in is_folder.items() if not is_one)


def _found(folder: Path, array_task: int | None) -> FoundAccounts:
    below = folder / ACCOUNT_FOLDER
    listing = _Listing(below if below.is_dir() else folder)
    tasks = {array_task_of(name): name for name in listing.folders}
    numbers = tuple(sorted(task for task in tasks if task is not None))
    if array_task is not None:
        if array_task not in tasks:
            return FoundAccounts(array_tasks=numbers)
        listing = _Listing(listing.path / tasks[array_task])
    incarnations = [_files(listing, None)]
    missing = [
        f"{listing.path.name}/{name} is ignored: not a folder"
        for name in listing.others
        if restart_of(name) is not None
    ]
    for name in listing.folders:
        restart = restart_of(name)
        if restart is None:
            continue
        try:
            incarnations.append(_files(_Listing(listing.path / name), restart))
        except OSError as error:
            missing.append(f"{name} cannot be read: {error.strerror}")
    kept = [files for files in incarnations if files.ledgers or files.samples]
    kept.sort(key=lambda files: -1 if files.restart is None else files.restart)
    return FoundAccounts(incarnations=tuple(kept), missing=tuple(missing), array_tasks=numbers)


def _files(listing: _Listing, restart: int | None) -> AccountFiles:
    names = listing.others
    ranks = sorted((rank, name) for name in names if (rank := rank_of(name)) is not None)
    return AccountFiles(
        restart=restart,
        ledgers=tuple(listing.path / name for _, name in ranks),
        samples=tuple(listing.path / name for name in names if node_of(name) is not None),
        topologies=tuple(listing.path / name for name in names if node_of_topology(name)),
    )


def _ends_of(path: Path, size_bytes: int) -> tuple[bytes, bytes]:
    try:
        with _opened(path) as handle:
            tail_at = max(0, _size_of(handle) - size_bytes)
            return os.pread(handle, size_bytes, 0), os.pread(handle, size_bytes, tail_at)
    except OSError as error:
        raise _cannot_read(path, error) from error


@contextlib.contextmanager
def _filling(path: Path) -> Iterator[Fill]:
    """Give what reads a file as it is now."""
    try:
        with _opened(path) as handle:
            left = _size_of(handle)

            def fill(piece: memoryview) -> int:
                nonlocal left
                count = os.readv(handle, [piece[:left]]) if left else 0
                left -= count
                return count

            yield fill
    except OSError as error:
        raise _cannot_read(path, error) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor: of a FIFO an ordinary open() would wait, and a link is another's file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def _cannot_read(path: Path, error: OSError) -> StorageFailed:
    why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
    return StorageFailed(f"{path.name} cannot be read: {why}")


def _size_of(handle: int) -> int:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return status.st_size


class SlurmEnergies:
    """Asks sacct, but only where the cluster, as it is remembered, gathers energy."""

    def __init__(self, slurm: SlurmCli, probe: SlurmProbe) -> None:
        self._slurm = slurm
        self._probe = probe

    def of(self, job_id: str, cluster: str | None) -> SlurmEnergy:
        """That of an ended job, of all its incarnations."""
        from hpckit.slurm.values import JobId

        try:
            plugin = self._probe.look(cluster, needs_partitions=False).config.energy_plugin
            if plugin is None:
                return SlurmEnergy(reasons=(EnergyReason(kind=EnergyLack.SLURM_PLUGIN),))
            value_j = self._slurm.energy_j(JobId(job_id), cluster)
        except HpckitError as error:
            reason = EnergyReason(text=f"Slurm's energy unavailable: {error.message}")
            return SlurmEnergy(reasons=(reason,))
        reasons = () if value_j else (EnergyReason(text=f"Slurm's {plugin} recorded none"),)
        return SlurmEnergy(value_j=value_j, plugin=plugin, reasons=reasons)


class JobDocuments:
    """The files of one folder, each read once; `damaged` tells those that are not understood."""

    def __init__(self, folder: Path, folders: FileJobFolders) -> None:
        self._folder = folder
        self._folders = folders
        self._read: dict[str, Mapping[str, Any] | None] = {}
        self._damaged: dict[str, str] = {}

    def read(self, name: str) -> Mapping[str, Any] | None:
        """The document, empty where it is damaged, None where there is no such file."""
        if name not in self._read:
            self._read[name] = self._document(name)
        return self._read[name]

    def refuse(self, name: str, why: str) -> None:
        """Tell a file as damaged: it is JSON, and not what it should be."""
        self._damaged.setdefault(name, f"{name} is damaged: {why}")

    def refuse_version(self, name: str, got: str, expected: str) -> None:
        """Tell a file as one of another version: it may be whole, and is not understood."""
        why = f"{name} has a different version: got {got}, expected {expected}"
        self._damaged.setdefault(name, why)

    def is_of_other_version(self, name: str, *known: str) -> bool:
        """Whether its schema is one of `known` with another number, which then is told."""
        schema = (self.read(name) or {}).get("schema")
        if not isinstance(schema, str) or schema in known:
            return False
        is_other = schema.rpartition("/")[0] in {one.rpartition("/")[0] for one in known}
        if is_other:
            self.refuse_version(name, repr(schema), " or ".join(known))
        return is_other

    @property
    def damaged(self) -> tuple[str, ...]:
        """A sentence for each file that is damaged or of another version."""
        return tuple(self._damaged.values())

    def _document(self, name: str) -> Mapping[str, Any] | None:
        try:
            document = self._folders.read_json(self._folder, name)
        except NoSuchFile:
            return None
        except StorageFailed as error:
            self._damaged[name] = error.message.removeprefix(f"{self._folder}/")
            return {}
        if not document:
            self.refuse(name, "it is an empty JSON object")
        return document
