"""The sample file `hpckit.samples/1`: what one node's sampler wrote, block after block.

A file is a sequence of blocks, each with a header, a payload and a CRC-32 over both, and it is only
ever appended to: a block that was cut short, or bytes that are none, cost that block alone. All
numbers are little-endian. docs/reference/account-files.md describes it for other readers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

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

HEADER: Final = struct.Struct("<4sBBHIIQQQI")
"""`HKS1`, kind, 0, and the rest of BlockHeader in its order, then the CRC."""
HEADER_BYTES: Final = HEADER.size
MOST_PAYLOAD_BYTES: Final = 1 << 24

MOST_VAIN_BYTES: Final = 1 << 30
"""So many bytes are looked at for blocks that are none, before the rest of a file is given up."""
VAIN_BYTES_A_MAGIC: Final = 1 << 15
"""What a place that only looks like a block counts for, beside its payload: the time is alike."""
_LEAST_LOOK_BYTES, _MOST_LOOK_BYTES = 1 << 12, 1 << 20


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
    fields = (
        header.kind,
        0,
        header.record_bytes,
        len(payload),
        header.sequence,
        header.realtime_ns,
        header.monotonic_ns,
        header.boottime_ns,
    )
    unsigned = HEADER.pack(MAGIC, *fields, 0)[:-4]
    crc = zlib.crc32(payload, zlib.crc32(unsigned))
    return unsigned + crc.to_bytes(4, "little") + payload


def decode_header(data: bytes | memoryview) -> tuple[BlockHeader, int] | None:
    """The header at the beginning of `data` and its CRC; None where none can be."""
    if len(data) < HEADER_BYTES:
        return None
    magic, kind, _, record_bytes, payload_bytes, sequence, *clocks, crc = HEADER.unpack_from(data)
    if magic != MAGIC or payload_bytes > MOST_PAYLOAD_BYTES or not record_bytes:
        return None
    realtime_ns, monotonic_ns, boottime_ns = clocks
    header = BlockHeader(
        kind, record_bytes, payload_bytes, sequence, realtime_ns, monotonic_ns, boottime_ns
    )
    return header, crc


class Block(NamedTuple):
    """A block that was read whole; `payload` is a view into the data."""

    header: BlockHeader
    payload: memoryview


class Damage(NamedTuple):
    """Bytes that are no block; `is_tail` where the file ends in them, as in a write cut short.

    `is_given_up` where so much looked like blocks that there may be some in them all the same.
    """

    offset: int
    lost_bytes: int
    is_tail: bool
    is_given_up: bool = False


def read_blocks(data: bytes | memoryview) -> Iterator[Block | Damage]:
    """The blocks of a file in their order, and what lies between them that is none."""
    view = memoryview(data)
    at = vain_bytes = 0
    while at < len(view):
        block = _block_at(view, at)
        if block is not None:
            yield block
            at += HEADER_BYTES + block.header.payload_bytes
            continue
        found = at
        while found >= 0 and vain_bytes <= MOST_VAIN_BYTES:
            found = find_magic(view, found + 1)
            if found < 0 or _block_at(view, found) is not None:
                break
            vain_bytes += VAIN_BYTES_A_MAGIC + _claimed_bytes(view, found)
        is_given_up = vain_bytes > MOST_VAIN_BYTES
        is_tail = found < 0 or is_given_up
        end = len(view) if is_tail else found
        yield Damage(at, end - at, is_tail, is_given_up)
        at = end


def find_magic(view: memoryview, at: int) -> int:
    """Where a block may begin from `at` on, -1 where none does; what is looked at is copied."""
    look_bytes = _LEAST_LOOK_BYTES
    while at < len(view):
        found = bytes(view[at : at + look_bytes]).find(MAGIC)
        if found >= 0:
            return at + found
        at += look_bytes - len(MAGIC) + 1
        look_bytes = min(2 * look_bytes, _MOST_LOOK_BYTES)
    return -1


def _claimed_bytes(view: memoryview, at: int) -> int:
    decoded = decode_header(view[at : at + HEADER_BYTES])
    return 0 if decoded is None else min(decoded[0].payload_bytes, len(view) - at)


def _block_at(view: memoryview, at: int) -> Block | None:
    decoded = decode_header(view[at : at + HEADER_BYTES])
    if decoded is None:
        return None
    header, crc = decoded
    begin = at + HEADER_BYTES
    payload = view[begin : begin + header.payload_bytes]
    unsigned = view[at : begin - 4]
    if len(payload) < header.payload_bytes or zlib.crc32(payload, zlib.crc32(unsigned)) != crc:
        return None
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
