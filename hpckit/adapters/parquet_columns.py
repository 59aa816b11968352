"""How samples lie in a Parquet file: which column holds what, and how it is encoded."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.adapters.pip_line import pip_line
from hpckit.errors import ToolMissing
from hpckit.model.samples import GPU_COLUMNS, MISSING
from hpckit.model.series import GPU_DTYPE, SampleMeta

ARCHIVE_SCHEMA: Final = "hpckit.archive/1"
METADATA_KEY: Final = "hpckit"
HOST_PREFIX: Final = "host."
_DROPPED: Final = frozenset({"dt_us", "gpu", "reserved"})
KEPT: Final = tuple(one.name for one in GPU_COLUMNS if one.name not in _DROPPED)
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
            hint=pip_line("pyarrow>=16"),
        ) from error
    if not hasattr(pq.ParquetWriter, "add_key_value_metadata"):
        raise ToolMissing(
            f"pyarrow {pa.__version__} is too old to describe the file that it writes",
            hint=pip_line("--upgrade", "pyarrow>=16"),
        )
    return pa, pq


def schema_of(pa: Any, host_columns: tuple[str, ...]) -> Any:
    """The columns of a file. Times are CLOCK_REALTIME, what was not measured is null."""
    words = pa.dictionary(pa.int32(), pa.string())
    kinds: list[tuple[str, Any]] = [
        ("segment", pa.int32()),
        ("node", words),
        ("gpu_index", pa.uint8()),
        ("gpu_uuid", words),
        ("time_ns", pa.timestamp("ns", tz="UTC")),
    ]
    kinds += [(name, pa.from_numpy_dtype(GPU_DTYPE[name])) for name in KEPT]
    kinds += [(HOST_PREFIX + name, pa.uint64()) for name in host_columns]
    return pa.schema(kinds)


def encodings(host_columns: tuple[str, ...]) -> dict[str, Any]:
    """Options of the writer: differences, then zstd; words by number."""
    deltas = ["time_ns", *KEPT, *(HOST_PREFIX + name for name in host_columns)]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": ["segment", "node", "gpu_index", "gpu_uuid"],
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "write_statistics": ["segment", "time_ns"],
    }


def gpu_table(
    pa: Any, schema: Any, segment: int, meta: SampleMeta, *, times: Times, rows: NDArray[np.void]
) -> Any:
    """Rows of GPUs, sorted by GPU and time; `times` are CLOCK_REALTIME."""
    order = np.lexsort((times, rows["gpu"]))
    times, rows = times[order], rows[order]
    uuids = pa.DictionaryArray.from_arrays(
        pa.array(rows["gpu"].astype(np.int32)), pa.array([one.uuid for one in meta.gpus])
    )
    columns = _keys(pa, segment, meta, places=rows["gpu"], uuids=uuids, times=times)
    for name in KEPT:
        values = np.ascontiguousarray(rows[name])
        columns[name] = pa.array(values, mask=values == MISSING[values.itemsize])
    return _table(pa, schema, columns, len(rows))


def host_table(
    pa: Any, schema: Any, segment: int, meta: SampleMeta, *, times: Times, rows: NDArray[np.uint64]
) -> Any:
    """Rows of a host."""
    places = np.full(len(times), HOST_GPU, np.uint8)
    uuids = pa.nulls(len(times), pa.dictionary(pa.int32(), pa.string()))
    columns = _keys(pa, segment, meta, places=places, uuids=uuids, times=times)
    for place, column in enumerate(meta.host_columns):
        values = np.ascontiguousarray(rows[:, place])
        columns[HOST_PREFIX + column.name] = pa.array(values, mask=values == MISSING[8])
    return _table(pa, schema, columns, len(times))


def _keys(
    pa: Any, segment: int, meta: SampleMeta, *, places: Any, uuids: Any, times: Times
) -> dict[str, Any]:
    nothing = np.zeros(len(times), np.int32)
    return {
        "segment": pa.array(nothing + segment),
        "node": pa.DictionaryArray.from_arrays(pa.array(nothing), pa.array([meta.node])),
        "gpu_index": pa.array(places),
        "gpu_uuid": uuids,
        "time_ns": pa.array(times).cast(pa.timestamp("ns", tz="UTC")),
    }


def _table(pa: Any, schema: Any, columns: dict[str, Any], rows: int) -> Any:
    """A table of the whole schema: a column that these rows do not have is null."""
    arrays = [
        columns[one.name] if one.name in columns else pa.nulls(rows, one.type) for one in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
