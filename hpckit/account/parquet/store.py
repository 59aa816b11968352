"""An archive that `report --parquet` wrote, read back as the accounts that it was made of."""

from __future__ import annotations

import contextlib
import json
import shlex
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
from hpckit.account.sample_format import EVENTS, GPU, HOST, META, MISSING, BlockHeader, encode_block
from hpckit.account.samples import GPU_DTYPE
from hpckit.account.store import AccountFiles, FoundAccounts
from hpckit.core.errors import HpckitError, StorageFailed
from hpckit.core.files_in_job import open_regular
from hpckit.spec.folder import node_of_topology, rank_of, restart_of
from hpckit.spec.job_folder import INTENT_FILE

_MAGIC: Final = b"PAR1"
"""What every Parquet file begins with (apache/parquet-format, README)."""
_MOST_ABOVE: Final = 4
"""A job folder lies no further above its files."""
_BLOCK_NS: Final = 600 * 10**9
_BLOCK_ROWS: Final = 100_000
_FAULTS: Final = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    IndexError,
    RecursionError,
    struct.error,
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

    def pieces(self, path: Path) -> Iterator[bytes]:
        """A sample file as it was, but for the cuts between blocks. Raises StorageFailed."""
        file, document = self._file()
        with self._damage():
            groups = self._groups(path)
            for number in dict.fromkeys(segment for segment, _ in groups):
                yield _head(document["segments"][number])
                for group in (group for segment, group in groups if segment == number):
                    yield _blocks(file, group, document["segments"][number])

    def ends(self, path: Path) -> tuple[bytes, bytes]:
        """The first and the last blocks of a sample file. Raises StorageFailed."""
        file, document = self._file()
        with self._damage():
            groups = self._groups(path)
            made = [
                _blocks(file, group, document["segments"][number])
                for number, group in (groups[0], *groups[-2:])
            ]
            return _head(document["segments"][groups[0][0]]) + made[0], b"".join(made[1:])

    def _groups(self, path: Path) -> list[tuple[int, int]]:
        file, document = self._file()
        groups = []
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
                    f"{self._path} is no archive of `hpckit report --parquet`: "
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
                f"got the file {path}, expected a folder, or a file of --parquet",
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


def _head(segment: Tree) -> bytes:
    """META and events of a segment, at the first moment that no clock has below 0."""
    at_ns = max(0, *(-int(segment[f"{clock}_offset_ns"]) for clock in ("realtime", "boottime")))
    events = b"".join(json.dumps(one).encode() + b"\n" for one in segment["events"])
    parts = [_block(segment, META, 1, at_ns, json.dumps(segment["meta"]).encode())]
    return b"".join([*parts, _block(segment, EVENTS, 1, at_ns, events)] if events else parts)


def _blocks(file: Any, group: int, segment: Tree) -> bytes:
    index = file.read_row_group(group, columns=["gpu_index"])["gpu_index"]
    is_host = len(index) > 0 and not index.null_count and bool(np.all(index.to_numpy() == HOST_GPU))
    names = [HOST_PREFIX + str(one["name"]) for one in segment["meta"]["host_columns"]]
    columns = ["time_ns", *(names if is_host else ("gpu_index", *KEPT))]
    table = file.read_row_group(group, columns=columns)
    times = table["time_ns"].cast("int64").to_numpy() - int(segment["realtime_offset_ns"])
    order = np.argsort(times, kind="stable")
    rows = _host_rows(table, names) if is_host else _gpu_rows(table)
    times, rows = times[order], rows[order]
    blocks, at = [], 0
    while at < len(times):
        last_ns = int(times[at]) + _BLOCK_NS
        end = min(int(np.searchsorted(times, last_ns)), at + _BLOCK_ROWS)
        piece = rows[at:end]
        piece["dt_us"] = (times[at:end] - times[at] + 500) // 1000
        kind = HOST if is_host else GPU
        blocks.append(_block(segment, kind, rows.dtype.itemsize, int(times[at]), piece.tobytes()))
        at = end
    return b"".join(blocks)


def _block(segment: Tree, kind: int, record: int, at_ns: int, payload: bytes) -> bytes:
    realtime_ns = max(0, at_ns + int(segment["realtime_offset_ns"]))
    boottime_ns = max(0, at_ns + int(segment["boottime_offset_ns"]))
    header = BlockHeader(kind, record, 0, 0, realtime_ns, at_ns, boottime_ns)
    return encode_block(header, payload)


def _gpu_rows(table: Any) -> NDArray[np.void]:
    rows = np.zeros(len(table), GPU_DTYPE)
    rows["gpu"] = _whole(table["gpu_index"], 1)
    for name in KEPT:
        rows[name] = _whole(table[name], GPU_DTYPE[name].itemsize)
    return rows


def _host_rows(table: Any, columns: Sequence[str]) -> NDArray[np.void]:
    kinds = [("dt_us", "<u4"), ("zero", "<u4"), ("values", "<u8", (len(columns),))]
    rows = np.zeros(len(table), np.dtype(kinds))
    for place, name in enumerate(columns):
        rows["values"][:, place] = _whole(table[name], 8)
    return rows


def _whole(column: Any, size_bytes: int) -> NDArray[Any]:
    """A column with the number that says "not measured" where it is null."""
    filled: NDArray[Any] = column.fill_null(MISSING[size_bytes]).to_numpy()
    if not np.can_cast(filled.dtype, f"u{size_bytes}"):
        raise ValueError(f"a column of {column.type} where one of {size_bytes} bytes is expected")
    return filled
