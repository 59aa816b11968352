"""All accounts of a job in one file."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.account.gather import Gathered, SampleStore
from hpckit.account.rows import Onward
from hpckit.account.sample_format import GPU_COLUMNS, MISSING, SAMPLES_SCHEMA
from hpckit.account.samples import GPU_DTYPE, SampleChunk, SampleMeta
from hpckit.core.errors import ParseError, StorageFailed, ToolMissing
from hpckit.core.fields import to_tree
from hpckit.core.files import pip_line, whole_file
from hpckit.core.values import dataclass
from hpckit.spec.folder_in_job import account_folder

ARCHIVE_SCHEMA: Final = "hpckit.archive/1"
METADATA_KEY: Final = "hpckit"
HOST_PREFIX: Final = "host."
KEPT: Final = tuple(one.name for one in GPU_COLUMNS if one.name not in ("dt_us", "gpu", "reserved"))
HOST_GPU: Final = 0xFF
"""`gpu_index` of the rows of a host: no GPU has it."""
ROWS_A_GROUP: Final = 1 << 20
"""76 MB of records: enough to compress well, little to hold."""

Times = NDArray[np.int64]


def arrow() -> tuple[Any, Any]:
    """Pyarrow and its Parquet part. Raises ToolMissing where it is absent or too old."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ToolMissing(
            "Parquet files need pyarrow, which is not installed",
            hint=pip_line("pyarrow>=17"),
        ) from error
    if not hasattr(pq.ParquetWriter, "add_key_value_metadata"):
        raise ToolMissing(
            f"pyarrow {pa.__version__} is too old: it cannot write file metadata",
            hint=pip_line("--upgrade", "pyarrow>=17"),
        )
    return pa, pq


# A row is one GPU at one moment, or one host at one moment. `segment` names the META block that
# holds for a row; these blocks, the events and the ledgers are in the file's metadata.


@dataclass(slots=True)
class _Segment:
    """Rows under one META block; their times are those of its first chunk's clock."""

    number: int
    restart: int | None
    file: str
    meta: SampleMeta
    realtime_offset_ns: int
    boottime_offset_ns: int
    events: list[Mapping[str, Any]] = field(default_factory=list)
    waiting: list[SampleChunk] = field(default_factory=list)
    rows: int = 0

    @property
    def tree(self) -> dict[str, Any]:
        """As the file's metadata has it."""
        return {
            "restart": self.restart,
            "file": self.file,
            "realtime_offset_ns": self.realtime_offset_ns,
            "boottime_offset_ns": self.boottime_offset_ns,
            "meta": {"schema": SAMPLES_SCHEMA, **to_tree(self.meta)},
            "events": self.events,
        }


class _Writer:
    """A Parquet file while it is written, a segment after the other."""

    def __init__(self, file: IO[bytes], host_columns: tuple[str, ...]) -> None:
        pa, pq = arrow()
        self._pa = pa
        words = pa.dictionary(pa.int32(), pa.string())
        host = [HOST_PREFIX + name for name in host_columns]
        self._schema = pa.schema(
            [
                ("segment", pa.int32()),
                ("node", words),
                ("gpu_index", pa.uint8()),
                ("gpu_uuid", words),
                ("time_ns", pa.timestamp("ns", tz="UTC")),
                *((name, pa.from_numpy_dtype(GPU_DTYPE[name])) for name in KEPT),
                *((name, pa.uint64()) for name in host),
            ]
        )
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=["segment", "node", "gpu_index", "gpu_uuid"],
            column_encoding=dict.fromkeys(["time_ns", *KEPT, *host], "DELTA_BINARY_PACKED"),
            write_statistics=["segment", "time_ns"],
        )
        self.segments: list[_Segment] = []
        self.samples = 0

    def take(self, file: str, restart: int | None, chunk: SampleChunk) -> None:
        """Add a chunk; its rows are written when they are a row group."""
        now = self.segments[-1] if self.segments else None
        if now is None or now.meta != chunk.meta or now.file != file:
            self.flush()
            now = _Segment(
                len(self.segments),
                restart,
                file,
                chunk.meta,
                chunk.realtime_offset_ns,
                chunk.boottime_offset_ns,
            )
            self.segments.append(now)
        now.events += chunk.events
        now.waiting.append(chunk)
        now.rows += len(chunk.gpu) + len(chunk.host)
        self.samples += len(chunk.gpu)
        if now.rows >= ROWS_A_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait, those of GPUs and those of the host."""
        now = self.segments[-1] if self.segments else None
        if now is None or not now.waiting:
            return
        chunks, now.waiting, now.rows = now.waiting, [], 0
        times = np.concatenate([one.gpu_ns for one in chunks]) + now.realtime_offset_ns
        if len(times):
            self._write_gpus(now, times, np.concatenate([one.gpu for one in chunks]))
        times = np.concatenate([one.host_ns for one in chunks]) + now.realtime_offset_ns
        if len(times) and now.meta.host_columns:
            self._write_host(now, times, np.concatenate([one.host for one in chunks]))

    def _write_gpus(self, now: _Segment, times: Times, rows: NDArray[np.void]) -> None:
        """Write rows of GPUs, sorted by GPU and time."""
        pa, order = self._pa, np.lexsort((times, rows["gpu"]))
        times, rows = times[order], rows[order]
        columns = {}
        for name in KEPT:
            values = np.ascontiguousarray(rows[name])
            columns[name] = pa.array(values, mask=values == MISSING[values.itemsize])
        columns["gpu_uuid"] = pa.DictionaryArray.from_arrays(
            pa.array(rows["gpu"].astype(np.int32)), pa.array([one.uuid for one in now.meta.gpus])
        )
        self._write(now, times, rows["gpu"], columns)

    def _write_host(self, now: _Segment, times: Times, rows: NDArray[np.uint64]) -> None:
        columns = {}
        for place, column in enumerate(now.meta.host_columns):
            values = np.ascontiguousarray(rows[:, place])
            columns[HOST_PREFIX + column.name] = self._pa.array(values, mask=values == MISSING[8])
        self._write(now, times, np.full(len(times), HOST_GPU, np.uint8), columns)

    def _write(
        self, now: _Segment, times: Times, places: NDArray[np.uint8], columns: dict[str, Any]
    ) -> None:
        """Write a table of the whole schema: a column that these rows do not have is null.

        Times are CLOCK_REALTIME, what was not measured is null.
        """
        pa, rows, nothing = self._pa, len(times), np.zeros(len(times), np.int32)
        columns["segment"] = pa.array(nothing + now.number)
        columns["node"] = pa.DictionaryArray.from_arrays(
            pa.array(nothing), pa.array([now.meta.node])
        )
        columns["gpu_index"] = pa.array(places)
        columns["time_ns"] = pa.array(times).cast(pa.timestamp("ns", tz="UTC"))
        arrays = [
            columns[kind.name] if kind.name in columns else pa.nulls(rows, kind.type)
            for kind in self._schema
        ]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=rows)

    def close(self, texts: Mapping[str, Mapping[str, str]]) -> None:
        """Write what is left, and the description."""
        self.flush()
        document = {
            "schema": ARCHIVE_SCHEMA,
            "segments": [one.tree for one in self.segments],
            **texts,
        }
        self._writer.add_key_value_metadata({METADATA_KEY: json.dumps(document)})
        self._writer.close()


def archive(
    gathered: Gathered, store: SampleStore, path: Path, progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Write the file at once or not at all; gives the GPU samples in it, and its bytes.

    A file that cannot be read, or repeats another, is left out, as the report says; one that is
    damaged gives what can be read of it. Raises StorageFailed, also where there is none at all, and
    ToolMissing.
    """
    texts: dict[str, dict[str, str]] = {"ledgers": {}, "topologies": {}}
    incarnations = gathered.found.incarnations
    for files in incarnations:
        folder = account_folder(str(files.restart or 0)).rpartition("/")[2]
        texts["ledgers"] |= _texts(store, files.ledgers, folder)
        texts["topologies"] |= _texts(store, files.topologies, folder)
    kept = {span.path for one in gathered.evidence for span in one.spans}
    named = [(files.restart, one) for files in incarnations for one in files.samples if one in kept]
    if not named:
        raise StorageFailed("no samples to write as Parquet")
    pa, _ = arrow()
    with whole_file(path) as file:
        try:
            first = [chunk for _, one in named for chunk in itertools.islice(_rows(store, one), 1)]
            names = {column.name: None for chunk in first for column in chunk.meta.host_columns}
            writer = _Writer(file, tuple(names))
            for place, (restart, one) in enumerate(named):
                progress(place, len(named))
                name = one.name if restart is None else f"restart-{restart}/{one.name}"
                for chunk in _rows(store, one):
                    writer.take(name, restart, chunk)
            writer.close(texts)
        except pa.ArrowException as error:
            raise StorageFailed(f"{path} cannot be written: {error}") from error
        return writer.samples, file.tell()


def _rows(store: SampleStore, path: Path) -> Iterator[SampleChunk]:
    """What a report counts of a file: rows that go back in time are left out."""
    onward = Onward()
    first: SampleChunk | None = None
    with contextlib.suppress(ParseError, StorageFailed):
        for chunk in store.samples(path):
            first = first or chunk
            is_same_boot = chunk.meta.boot_id == first.meta.boot_id
            behind_ns = chunk.realtime_offset_ns - first.realtime_offset_ns
            yield onward.of(chunk, 0 if is_same_boot else behind_ns)


def _texts(store: SampleStore, paths: Sequence[Path], folder: str) -> dict[str, str]:
    texts = {}
    for one in paths:
        with contextlib.suppress(StorageFailed):
            texts[f"{folder}/{one.name}"] = store.text(one).decode("utf-8", "replace")
    return texts
