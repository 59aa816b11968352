"""The sample file `hpckit.samples/1`: what one node's sampler wrote, block after block.

A file is a sequence of blocks, each with a header, a payload and a CRC-32 over both, and it is only
ever appended to: a block that was cut short, or bytes that are none, cost that block alone. All
numbers are little-endian. docs/reference/account-files.md describes it for other readers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from hpckit.core.late import regex

SAMPLES_SCHEMA: Final = "hpckit.samples/1"
MAGIC: Final = b"HKS1"

META: Final = 1
"""A JSON object: what this file is, its GPUs, the columns of the host; docs have its keys."""
GPU: Final = 2
"""Records of `GPU_RECORD`."""
HOST: Final = 3
"""Records of a time and one unsigned 64-bit number for each host column of the last META."""
EVENTS: Final = 4
"""JSON objects, a line each: what happened, with `t_ns` of the monotonic clock and `event`."""

MISSING: Final = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
"""The number that says "not measured", by the bytes that a column has."""


HOST_PERIOD_S: Final = 5.0
"""Seconds between two HOST records of a sampler that is under way; at its beginning one."""


class Column(NamedTuple):
    """A column of a record: `code` is that of the module struct, `kind` gauge or counter.

    A counter counts up since some moment before the file, modulo the size of the column. The unit
    is at the end of the name.
    """

    name: str
    code: str
    kind: str


GPU_COLUMNS: Final = (
    Column("dt_us", "I", "time"),  # since the block's monotonic_ns
    Column("gpu", "B", "index"),  # into `gpus` of the last META
    Column("util_pct", "B", "gauge"),  # nvmlUtilization_t.gpu: time in which a kernel ran
    Column("mem_util_pct", "B", "gauge"),  # nvmlUtilization_t.memory
    Column("temp_c", "B", "gauge"),
    Column("power_mw", "I", "gauge"),  # which power, META says: gpus[].power
    Column("energy_mj", "Q", "counter"),  # NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION and its like
    Column("mem_used_mib", "I", "gauge"),  # without what the driver keeps for itself
    Column("sm_mhz", "H", "gauge"),
    Column("mem_mhz", "H", "gauge"),
    Column("event_reasons", "I", "gauge"),  # nvmlClocksEventReasons bits
    Column("sw_power_cap_ms", "I", "counter"),  # NVML field 74
    Column("sw_thermal_ms", "I", "counter"),  # 269
    Column("hw_thermal_ms", "I", "counter"),  # 270
    Column("hw_power_brake_ms", "I", "counter"),  # 271
    Column("nvlink_tx_mib", "I", "counter"),  # all links: field 138, or 202
    Column("nvlink_rx_mib", "I", "counter"),
    Column("pcie_tx_mib", "I", "counter"),  # field 197
    Column("pcie_rx_mib", "I", "counter"),
    Column("sm_active_pct100", "H", "gauge"),  # GPM, hundredths of a percent
    Column("tensor_active_pct100", "H", "gauge"),
    Column("dram_active_pct100", "H", "gauge"),
    Column("processes", "B", "gauge"),  # that compute on it
    Column("reserved", "B", "index"),
)
GPU_RECORD: Final = struct.Struct("<" + "".join(column.code for column in GPU_COLUMNS))
"""One GPU at one moment."""

HEADER: Final = struct.Struct("<4sBxHIIQQQI")
"""`HKS1` and BlockHeader in its order, with a 0 behind the kind, then the CRC."""
HEADER_BYTES: Final = HEADER.size
MOST_PAYLOAD_BYTES: Final = 1 << 24
_BEGINNING: Final = regex(rb"HKS1|HKS\Z|HK\Z|H\Z")
"""Of a block, also where the data end in the middle of it."""


class BlockHeader(NamedTuple):
    """What stands before a payload; the three clocks are read together when the block begins.

    `record_bytes` is 1 for JSON. `sequence` counts a sampler's blocks from 0: a hole is a lost one.
    """

    kind: int
    record_bytes: int
    payload_bytes: int
    sequence: int
    realtime_ns: int
    monotonic_ns: int
    boottime_ns: int


def encode_block(header: BlockHeader, payload: bytes) -> bytes:
    """A whole block; `header.payload_bytes` is taken from the payload."""
    unsigned = HEADER.pack(MAGIC, *header._replace(payload_bytes=len(payload)), 0)[:-4]
    crc = zlib.crc32(payload, zlib.crc32(unsigned))
    return unsigned + crc.to_bytes(4, "little") + payload


class Block(NamedTuple):
    """A block that was read whole; `payload` is a view into the data."""

    header: BlockHeader
    payload: memoryview


class Damage(NamedTuple):
    """Bytes that are no block; `is_tail` where the file ends in them, as in a write cut short."""

    offset: int
    lost_bytes: int
    is_tail: bool


def read_blocks(data: bytes | memoryview) -> Iterator[Block | Damage]:
    """The blocks of a file in their order, and what lies between them that is none."""
    view, at = memoryview(data), 0
    while (part := next_part(view, at)) is not None:
        yield part
        at += part.lost_bytes if isinstance(part, Damage) else HEADER_BYTES + len(part.payload)


def next_part(view: memoryview, at: int, *, is_last: bool = True) -> Block | Damage | None:
    """What is there: a block, or the bytes that are none up to the next; None at the end.

    Where more of the file follows (not `is_last`), what may be the beginning of a block is left
    at the end.
    """
    end, block = at, _block_at(view, at)
    while block is False or (block is None and is_last and end < len(view)):
        begun = _BEGINNING.search(view, end + 1)
        end = begun.start() if begun else len(view)
        block = _block_at(view, end)
    if end > at:
        return Damage(at, end - at, is_tail=is_last and end == len(view))
    return block


def _block_at(view: memoryview, at: int) -> Block | Literal[False] | None:
    """The block there, False for none, None where what follows the data may complete one."""
    begin = at + HEADER_BYTES
    if begin > len(view):
        return None if MAGIC.startswith(bytes(view[at : at + len(MAGIC)])) else False
    magic, *fields, crc = HEADER.unpack_from(view, at)
    header = BlockHeader._make(fields)
    if magic != MAGIC or header.payload_bytes > MOST_PAYLOAD_BYTES or not header.record_bytes:
        return False
    end = begin + header.payload_bytes
    if end > len(view):
        return None
    payload = view[begin:end]
    if zlib.crc32(payload, zlib.crc32(view[at : begin - 4])) != crc:
        return False
    return Block(header, payload)


class Moment(NamedTuple):
    """The system's three clocks, read together."""

    realtime_ns: int
    monotonic_ns: int
    boottime_ns: int


class HostColumn(NamedTuple):
    """A column of a HOST record: `kind` is gauge or counter, `wraps_at` None is 2⁶⁴."""

    name: str
    kind: str
    wraps_at: int | None = None
