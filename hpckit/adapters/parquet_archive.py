"""The accounts of a job in one Parquet file, which other tools read, and `report --from` too.

A row is one GPU at one moment, or one host at one moment. `segment` names the META block that holds
for a row; these blocks, the events and the ledgers are in the file's metadata.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from msgspec import Struct

from hpckit.adapters.parquet_columns import (
    ARCHIVE_SCHEMA,
    METADATA_KEY,
    ROWS_A_GROUP,
    arrow,
    encodings,
    gpu_table,
    host_table,
    schema_of,
)
from hpckit.adapters.whole_file import whole_file
from hpckit.errors import ParseError, StorageFailed
from hpckit.measure.onward import Onward
from hpckit.model.samples import SAMPLES_SCHEMA
from hpckit.model.series import SampleChunk, SampleMeta
from hpckit.model.tree import to_tree
from hpckit.parse.samples import SampleReader


class ArchivedFile(Struct, frozen=True, kw_only=True):
    """A sample file for an archive: the incarnation that it is of (None: its META says).

    `pieces` reads it anew each time that it is called.
    """

    name: str
    restart: int | None
    pieces: Callable[[], Iterable[bytes]]


class ParquetArchive:
    """Accounts as Parquet."""

    def write(
        self,
        path: Path,
        ledgers: Mapping[str, str],
        files: Sequence[ArchivedFile],
        topologies: Mapping[str, str] = {},
    ) -> tuple[int, int]:
        """Write the file at once or not at all; gives the GPU samples in it, and its bytes.

        `ledgers` is text by `restart-<n>/rank-<n>.ledger`, `topologies` the same by
        `restart-<n>/node-<name>.topology.json`. A file that is damaged gives what can be read of
        it, and rows that go back in time are left out. Raises StorageFailed, ToolMissing.
        """
        pa, _ = arrow()
        with whole_file(path) as file:
            try:
                texts = {"ledgers": dict(ledgers), "topologies": dict(topologies)}
                samples = _write(file, texts, files)
            except pa.ArrowException as error:
                raise StorageFailed(f"{path} cannot be written: {error}") from error
            return samples, file.tell()


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
        known = to_tree(self.meta)
        rest = known.pop("rest")
        return {
            "restart": self.restart,
            "file": self.file,
            "realtime_offset_ns": self.realtime_offset_ns,
            "boottime_offset_ns": self.boottime_offset_ns,
            "meta": {"schema": SAMPLES_SCHEMA, **rest, **known},
            "events": self.events,
        }


class _Writer:
    """A Parquet file while it is written, a segment after the other."""

    def __init__(self, file: IO[bytes], host_columns: tuple[str, ...]) -> None:
        self._pa, pq = arrow()
        self._schema = schema_of(self._pa, host_columns)
        self._writer = pq.ParquetWriter(file, self._schema, **encodings(host_columns))
        self.segments: list[_Segment] = []
        self.samples = 0

    def take(self, source: ArchivedFile, chunk: SampleChunk) -> None:
        """Add a chunk; its rows are written when they are a row group."""
        now = self.segments[-1] if self.segments else None
        if now is None or now.meta != chunk.meta or now.file != source.name:
            self.flush()
            now = _Segment(
                len(self.segments),
                source.restart,
                source.name,
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
        what = (self._pa, self._schema, now.number, now.meta)
        times = np.concatenate([one.gpu_ns for one in chunks]) + now.realtime_offset_ns
        if len(times):
            rows = np.concatenate([one.gpu for one in chunks])
            self._writer.write_table(
                gpu_table(*what, times=times, rows=rows), row_group_size=len(rows)
            )
        times = np.concatenate([one.host_ns for one in chunks]) + now.realtime_offset_ns
        if len(times) and now.meta.host_columns:
            host = np.concatenate([one.host for one in chunks])
            self._writer.write_table(
                host_table(*what, times=times, rows=host), row_group_size=len(host)
            )

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


def _write(
    file: IO[bytes], texts: Mapping[str, Mapping[str, str]], files: Sequence[ArchivedFile]
) -> int:
    first = [chunk for one in files for chunk in itertools.islice(_readable(one), 1)]
    names = {column.name: None for chunk in first for column in chunk.meta.host_columns}
    writer = _Writer(file, tuple(names))
    for source in files:
        for chunk in _readable(source):
            writer.take(source, chunk)
    writer.close(texts)
    return writer.samples


def _readable(source: ArchivedFile) -> Iterator[SampleChunk]:
    """What a report counts of a file: rows that go back in time are left out."""
    onward = Onward()
    first: SampleChunk | None = None
    try:
        for chunk in SampleReader(source.pieces()):
            first = first or chunk
            is_same_boot = chunk.meta.boot_id == first.meta.boot_id
            behind_ns = chunk.realtime_offset_ns - first.realtime_offset_ns
            yield onward.of(chunk, 0 if is_same_boot else behind_ns)
    except ParseError:
        return
