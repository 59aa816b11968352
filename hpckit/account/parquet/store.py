"""An archive that `report --parquet` wrote, read back as the accounts that it was made of."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpckit.account.parquet.archive import (
    ARCHIVE_SCHEMA,
    HOST_GPU,
    HOST_PREFIX,
    KEPT,
    METADATA_KEY,
    arrow,
)
from hpckit.account.sample_format import MISSING
from hpckit.account.samples import GPU_DTYPE, FileCondition, SampleChunk, SampleMeta
from hpckit.account.store import AccountFiles, FoundAccounts
from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.core.files_in_job import open_regular
from hpckit.spec.folder_in_job import node_of_topology, rank_of, restart_of
from hpckit.spec.job_folder import INTENT_FILE

_MAGIC: Final = b"PAR1"
"""What every Parquet file begins with (apache/parquet-format, README)."""
_MOST_ABOVE: Final = 4
"""A job folder lies no further above its files."""
_FAULTS: Final = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    IndexError,
    RecursionError,
    msgspec.MsgspecError,
)

Tree = Mapping[str, Any]


class ParquetStore:
    """The accounts in one Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: tuple[Any, Tree] | None = None

    def find(self, folder: Path, array_task: int | None = None) -> FoundAccounts:
        """The accounts in the file. Raises StorageFailed, ToolMissing."""
        del folder, array_task
        _, document = self._file()
        with self._damage():
            samples = [
                (None if one["restart"] is None else int(one["restart"]), Path(str(one["file"])))
                for one in document["segments"]
            ]
            ledgers = _named(document["ledgers"], rank_of)
            topologies = _named(document.get("topologies", {}), node_of_topology)
        found = [
            AccountFiles(
                restart=restart,
                ledgers=_of(restart, ledgers),
                samples=_of(restart, samples),
                topologies=_of(restart, topologies),
            )
            for restart in {one[0] for one in (*samples, *ledgers, *topologies)}
        ]
        found.sort(key=lambda one: -1 if one.restart is None else one.restart)
        return FoundAccounts(incarnations=tuple(found))

    def text(self, path: Path) -> bytes:
        """A ledger, or a node's topology. Raises StorageFailed."""
        _, document = self._file()
        kind = "ledgers" if node_of_topology(path.name) is None else "topologies"
        with self._damage():
            return str(document[kind][str(path)]).encode()

    def samples(self, path: Path, condition: FileCondition | None = None) -> Iterator[SampleChunk]:
        """The rows of a sample file; its condition is good. Raises StorageFailed."""
        del condition
        yield from self._chunks(self._groups(path))

    def ends(self, path: Path) -> tuple[Iterable[SampleChunk], Iterable[SampleChunk]]:
        """The first and the last rows of a sample file. Raises StorageFailed."""
        groups = self._groups(path)
        return self._chunks(groups[:1]), self._chunks(groups[-2:])

    def _chunks(self, groups: Sequence[tuple[int, int]]) -> Iterator[SampleChunk]:
        """A chunk a row group; the first of a segment has its events."""
        file, document = self._file()
        told: set[int] = set()
        with self._damage():
            for number, group in groups:
                segment = document["segments"][number]
                events = () if number in told else tuple(segment["events"])
                told.add(number)
                yield _chunk(file, group, segment, events)

    def _groups(self, path: Path) -> list[tuple[int, int]]:
        """The segment and the number of each row group of a sample file."""
        file, document = self._file()
        groups = []
        with self._damage():
            for group in range(file.metadata.num_row_groups):
                number = int(file.metadata.row_group(group).column(0).statistics.min)
                if str(document["segments"][number]["file"]) == str(path):
                    groups.append((number, group))
        return groups

    def _file(self) -> tuple[Any, Tree]:
        if self._opened is None:
            pa, pq = arrow()
            try:
                with open_regular(self._path):  # Arrow would wait for whoever writes to a FIFO
                    file = pq.ParquetFile(self._path)
                text = (file.metadata.metadata or {}).get(METADATA_KEY.encode())
                document = json.loads(text or b"null")
            except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
                raise StorageFailed(f"{self._path} cannot be read as Parquet: {error}") from error
            if not isinstance(document, dict) or document.get("schema") != ARCHIVE_SCHEMA:
                raise StorageFailed(
                    f"{self._path} was not written by `hpckit report --parquet`: "
                    f"its metadata has no {ARCHIVE_SCHEMA}"
                )
            self._opened = (file, document)
        return self._opened

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (*_FAULTS, OSError, arrow()[0].ArrowException) as error:
            raise StorageFailed(f"{self._path} is damaged: {error!r}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file anew."""
        return ParquetStore, (self._path,)


def archive(path: Path) -> ParquetStore:
    """The accounts in a file. Raises HpckitError for one that is not Parquet by its first bytes.

    One that cannot be read is taken: what reads it says why.
    """
    with contextlib.suppress(OSError):
        if not path.is_file() or not _is_parquet(path):
            raise HpckitError(
                f"got the file {path}, expected a folder or a file that --parquet wrote",
                hint=f"hpckit report --from {shlex.quote(str(_folder_of(path)))}",
            )
    return ParquetStore(path)


def _is_parquet(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _folder_of(path: Path) -> Path:
    above = path.absolute().parents
    with contextlib.suppress(OSError):
        return next((one for one in above[:_MOST_ABOVE] if (one / INTENT_FILE).is_file()), above[0])
    return above[0]


def _named(
    texts: Mapping[str, Any], of: Callable[[str], int | str | None]
) -> list[tuple[int | None, Path]]:
    paths = [Path(name) for name in texts]
    return [(restart_of(one.parent.name), one) for one in paths if of(one.name) is not None]


def _of(restart: int | None, named: Sequence[tuple[int | None, Path]]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for of, path in named if of == restart))


def _chunk(
    file: Any, group: int, segment: Tree, events: tuple[Mapping[str, Any], ...]
) -> SampleChunk:
    meta = msgspec.convert(segment["meta"], SampleMeta)
    index = file.read_row_group(group, columns=["gpu_index"])["gpu_index"]
    is_host = len(index) > 0 and not index.null_count and bool(np.all(index.to_numpy() == HOST_GPU))
    names = [HOST_PREFIX + column.name for column in meta.host_columns]
    columns = ["time_ns", *(names if is_host else ("gpu_index", *KEPT))]
    table = file.read_row_group(group, columns=columns)
    offset_ns = np.int64(segment["realtime_offset_ns"])
    times = table["time_ns"].cast("int64").to_numpy() - offset_ns
    order = np.argsort(times, kind="stable")
    nothing = order[:0]
    host = np.zeros((len(times) if is_host else 0, len(names)), np.uint64)
    for place, name in enumerate(names if is_host else ()):
        host[:, place] = _whole(table[name], 8)[order]
    return SampleChunk(
        meta=meta,
        gpu_ns=times[nothing if is_host else order],
        gpu=np.zeros(0, GPU_DTYPE) if is_host else _gpu_rows(table, meta)[order],
        host_ns=times[order if is_host else nothing],
        host=host,
        realtime_offset_ns=int(offset_ns),
        boottime_offset_ns=int(segment["boottime_offset_ns"]),
        events=events,
    )


def _gpu_rows(table: Any, meta: SampleMeta) -> NDArray[np.void]:
    rows = np.zeros(len(table), GPU_DTYPE)
    rows["gpu"] = _whole(table["gpu_index"], 1)
    for name in KEPT:
        rows[name] = _whole(table[name], GPU_DTYPE[name].itemsize)
    if (rows["gpu"] >= len(meta.gpus)).any():
        raise ValueError("a row names a GPU that META does not list")
    return rows


def _whole(column: Any, size_bytes: int) -> NDArray[Any]:
    """A column with the number that says "not measured" where it is null."""
    filled: NDArray[Any] = column.fill_null(MISSING[size_bytes]).to_numpy()
    if not np.can_cast(filled.dtype, f"u{size_bytes}"):
        raise ValueError(f"a column of {column.type} where one of {size_bytes} bytes is expected")
    return filled
