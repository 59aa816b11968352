"""A sample file, `hpckit.samples/1`, as arrays: piece after piece, in bounded memory.

Damage costs the blocks that it hit: it is skipped and counted.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from hpckit.account.sample_format import (
    EVENTS,
    GPU,
    GPU_COLUMNS,
    GPU_RECORD,
    HEADER,
    HEADER_BYTES,
    HOST,
    MAGIC,
    META,
    SAMPLES_SCHEMA,
    BlockHeader,
    Damage,
    next_part,
)
from hpckit.core.excerpt import refusal

_NUMPY_CODES = {"B": "<u1", "H": "<u2", "I": "<u4", "Q": "<u8"}
GPU_DTYPE = np.dtype([(column.name, _NUMPY_CODES[column.code]) for column in GPU_COLUMNS])
"""A record of `hpckit.account.sample_format.GPU_RECORD` for numpy."""


class HostColumn(Struct, frozen=True, kw_only=True):
    """A column of the host records.

    `name` is `cgroup.cpu_usage_us`, `psi.memory_full_us`, `ib.mlx5_0.1.tx_bytes`,
    `rapl.package-0.energy_uj` and the like, its unit at the end; `kind` is `gauge` or `counter`;
    `wraps_at` is the value at which a counter begins again from 0, None for 2^64.
    """

    name: str
    kind: str
    wraps_at: int | None = None


class SampledGpu(Struct, frozen=True, kw_only=True):
    """A GPU of a sample file, in the order of the column `gpu`.

    `energy` is `counter` or None, `power` is `average` (of one second), `instant`, `usage` (whose
    meaning depends on the GPU) or None; `scope` is `gpu` or `module` (Grace Hopper: with the CPU
    and memory). `refused` says why a quantity is not measured, by column.
    """

    uuid: str
    index: int
    name: str | None = None
    pci: str | None = None
    vendor: str = "nvidia"
    power_limit_w: float | None = None
    memory_bytes: int | None = None
    max_sm_mhz: int | None = None
    energy: str | None = None
    power: str | None = None
    scope: str = "gpu"
    mig: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)


class SampleMeta(Struct, frozen=True, kw_only=True, tag_field="schema", tag=SAMPLES_SCHEMA):
    """The META block of a sample file; what this version does not know is passed over."""

    node: str
    hz: float
    job_id: str | None = None
    array_task: int | None = None
    restart: int = 0
    boot_id: str | None = None
    synthetic: bool = False
    hpckit: str | None = None
    gpus: tuple[SampledGpu, ...] = ()
    host_columns: tuple[HostColumn, ...] = ()
    host_refused: Mapping[str, str] = field(default_factory=dict)
    cpus: int | None = None
    memory_limit_bytes: int | None = None
    exclusive: bool | None = None


class SampleChunk(Struct, frozen=True, kw_only=True):
    """Some consecutive blocks of one file.

    `gpu_ns` (int64, CLOCK_MONOTONIC) has the time of each row of `gpu` (GPU_DTYPE); `host_ns` and
    `host` (uint64, a column each of `meta.host_columns`) those of the host. Rows are in the order
    of the file, which is that of time. `realtime_offset_ns` is CLOCK_REALTIME less
    CLOCK_MONOTONIC at the first block, `boottime_offset_ns` that of CLOCK_BOOTTIME: it grows while
    the machine sleeps. `events` are the objects of EVENTS blocks.
    """

    meta: SampleMeta
    gpu_ns: NDArray[np.int64]
    gpu: NDArray[np.void]
    host_ns: NDArray[np.int64]
    host: NDArray[np.uint64]
    realtime_offset_ns: int
    boottime_offset_ns: int
    events: tuple[Mapping[str, Any], ...] = ()


class FileCondition(Struct, kw_only=True):
    """How whole a sample file was: bytes that were no block, and blocks that are not there."""

    lost_bytes: int = 0
    lost_blocks: int = 0
    is_cut_short: bool = False


TOOL: Final = "sample file"


def parse_meta(payload: bytes) -> SampleMeta:
    """What a META block says. Raises ParseError for another schema, and for wrong types."""
    text = payload.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(text, type=SampleMeta)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise refusal(
            str(error), tool=TOOL, line_no=1, line=text.split("\n", 1)[0],
            expected=f"{SAMPLES_SCHEMA}, see docs/reference/account-files.md",
        ) from error  # fmt: skip


Fill = Callable[[memoryview], int]

_PIECE_BYTES: Final = 1 << 20
"""A core's own cache holds so much while it is checked and taken apart."""


class Blocks(NamedTuple):
    """Blocks of one kind and length: the moment at which each begins, and its payload as a row."""

    begins_ns: NDArray[np.int64]
    payloads: NDArray[np.uint8]


class _Gathered(Struct):
    """The blocks of one chunk, while it grows."""

    gpu: list[Blocks] = field(default_factory=list)
    host: list[Blocks] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    first: BlockHeader | None = None


class SampleReader:
    """Reads one sample file: iterate over it once, then ask for its `condition`.

    `source` is the contents, or gives what reads them on: into a buffer, with the number of bytes
    returned. Iteration raises ParseError where a file is no sample file, or of another schema; an
    empty file is one whose sampler was killed early. Blocks of kinds that this version does not
    know are passed over.
    """

    def __init__(
        self, source: bytes | AbstractContextManager[Fill], condition: FileCondition | None = None
    ) -> None:
        self._source: AbstractContextManager[Fill] = (
            nullcontext(BytesIO(source).readinto) if isinstance(source, bytes) else source
        )
        self._meta: SampleMeta | None = None
        self._now = _Gathered()
        self._head = b""
        self._orphans = 0
        self._next_sequence: int | None = None
        self.condition = condition or FileCondition()
        """How whole the file was, as far as it was read."""

    def __iter__(self) -> Iterator[SampleChunk]:
        with self._source as fill:
            piece, kept = memoryview(bytearray(_PIECE_BYTES)), 0
            while count := fill(piece[kept:]):
                data = piece[: kept + count]
                self._head += bytes(data[kept : kept + 100 - len(self._head)])
                at = yield from self._walk(data, is_last=False)
                yield from self._chunk()
                kept = len(data) - at
                if 2 * kept > len(piece):
                    piece = memoryview(bytearray(2 * len(piece)))
                piece[:kept] = data[at:]
        yield from self._walk(piece[:kept], is_last=True)
        yield from self._chunk()
        if self._meta is None:
            self._refuse_other()

    def _walk(self, data: memoryview, *, is_last: bool) -> Generator[SampleChunk, None, int]:
        """Take the blocks of some data; return where what is not whole yet begins."""
        at = 0
        while (part := next_part(data, at, is_last=is_last)) is not None:
            self.condition.is_cut_short = isinstance(part, Damage)
            if isinstance(part, Damage):
                self.condition.lost_bytes += part.lost_bytes
                at += part.lost_bytes
                continue
            at += HEADER_BYTES + len(part.payload)
            self._count_lost(part.header.sequence)
            if part.header.kind == META:
                yield from self._chunk()
                self._meta = parse_meta(bytes(part.payload))
            else:
                self._take(*part)
                at += self._take_equal(data, at, part.header.sequence + 1)
        return at

    def _count_lost(self, sequence: int) -> None:
        """Count holes in the numbers of blocks; a smaller number is that of another sampler's."""
        if self._next_sequence is not None and sequence > self._next_sequence:
            self.condition.lost_blocks += sequence - self._next_sequence
        self._next_sequence = sequence + 1

    def _refuse_other(self) -> None:
        shown = self._head.decode("latin-1").split("\n", 1)[0]
        if self._orphans:
            raise refusal(
                f"no complete META block, so its {self._orphans:,} other blocks cannot be read",
                tool=TOOL, line_no=1, line=shown,
                expected="META as the first block: the beginning is damaged or missing",
            )  # fmt: skip
        if self._head[: len(MAGIC)] != MAGIC[: len(self._head)]:
            raise refusal(
                "not a sample file", tool=TOOL, line_no=1, line=shown,
                expected="blocks that begin with HKS1",
            )  # fmt: skip

    def _take(self, header: BlockHeader, payload: memoryview) -> None:
        """Put a block where it belongs; what has no META before it is lost."""
        now, kind = self._now, header.kind
        if kind not in (GPU, HOST, EVENTS):
            return
        size = 1
        if kind != EVENTS:
            size = GPU_RECORD.size if kind == GPU else self._host_bytes
        self._orphans += self._meta is None
        if self._meta is None or header.record_bytes != size or len(payload) % size:
            self.condition.lost_bytes += HEADER_BYTES + len(payload)
            return
        now.first = now.first or header
        if kind == EVENTS:
            self._take_events(payload)
        else:
            begins_ns = np.array([header.monotonic_ns], np.int64)
            blocks = Blocks(begins_ns, np.frombuffer(payload, np.uint8)[np.newaxis])
            (now.gpu if kind == GPU else now.host).append(blocks)

    def _take_equal(self, view: memoryview, at: int, sequence: int) -> int:
        """Take the blocks that repeat from there on, at once; how many bytes they have."""
        if self._now.first is None:
            return 0
        run_bytes = 0
        sizes = {GPU: GPU_RECORD.size, HOST: self._host_bytes}
        for kind, blocks in _equal_blocks(view, at, sequence, sizes).items():
            (self._now.gpu if kind == GPU else self._now.host).append(blocks)
            run_bytes += len(blocks.payloads) * HEADER_BYTES + blocks.payloads.size
            sequence += len(blocks.payloads)
            self._next_sequence = sequence
        return run_bytes

    @property
    def _host_bytes(self) -> int:
        return 8 + 8 * len(self._meta.host_columns) if self._meta else 8

    def _take_events(self, payload: memoryview) -> None:
        for line in bytes(payload).splitlines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                self._now.events.append(event)
            else:
                self.condition.lost_bytes += len(line)

    def _chunk(self) -> Iterator[SampleChunk]:
        now, meta = self._now, self._meta
        self._now = _Gathered()
        if meta is None or now.first is None:
            return
        host_dtype = np.dtype(
            [("dt_us", "<u4"), ("zero", "<u4"), ("values", "<u8", (len(meta.host_columns),))]
        )
        host_ns, host = _arrays(now.host, host_dtype)
        gpu_ns, gpu = _arrays(now.gpu, GPU_DTYPE)
        is_known = gpu["gpu"] < len(meta.gpus)
        if not is_known.all():
            self.condition.lost_bytes += int(np.count_nonzero(~is_known)) * GPU_RECORD.size
            gpu_ns, gpu = gpu_ns[is_known], gpu[is_known]
        yield SampleChunk(
            meta=meta,
            gpu_ns=gpu_ns,
            gpu=gpu,
            host_ns=host_ns,
            host=host["values"],
            realtime_offset_ns=now.first.realtime_ns - now.first.monotonic_ns,
            boottime_offset_ns=now.first.boottime_ns - now.first.monotonic_ns,
            events=tuple(now.events),
        )


_LEAST_PERIODS, _MOST_PERIODS = 4, 1024
_HEADER_DTYPE = np.dtype(
    [("form", "<u4", (3,)), ("sequence", "<u4"), ("ns", "<u8", (3,)), ("crc", "<u4")]
)
"""`form` is magic, kind and sizes; `ns` are the clocks."""


def _equal_blocks(
    view: memoryview, at: int, sequence: int, sizes: Mapping[int, int]
) -> dict[int, Blocks]:
    """The whole blocks by kind where one kind follows, or two in turn, each of one length.

    A day of a sampler has 35,000 of them: one by one they would take a fifth of a report's time.
    `sizes` are the bytes of a record by the kinds that are taken, `sequence` is the first's number.
    """
    begins, end = _period(view, at, sizes)
    step = end - at
    count = min((len(view) - at) // step if begins else 0, _MOST_PERIODS)
    if count < _LEAST_PERIODS:
        return {}
    heads = [np.ndarray(count, _HEADER_DTYPE, view, begin, step) for begin in begins.values()]
    for place, head in enumerate(heads):
        numbers = sequence + place + len(heads) * np.arange(len(head))
        is_next = (head["form"] == head["form"][0]).all(axis=1) & (head["sequence"] == numbers)
        count = min(count, _until_false(is_next))
    found = []
    for head, begin in zip(heads, begins.values(), strict=True):
        size = int(head["form"][0, 2])
        unsigned = np.ndarray((count, HEADER_BYTES - 4), np.uint8, view, begin, (step, 1))
        payloads = np.ndarray((count, size), np.uint8, view, begin + HEADER_BYTES, (step, 1))
        crcs = map(zlib.crc32, payloads, map(zlib.crc32, unsigned))
        count = _until_false(np.fromiter(crcs, np.uint32, count) == head["crc"][:count])
        found.append(Blocks(head["ns"][:, 1].astype(np.int64), payloads))
    whole = [Blocks(begins_ns[:count], payloads[:count]) for begins_ns, payloads in found]
    return dict(zip(begins, whole, strict=True)) if count else {}


def _period(view: memoryview, at: int, sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Where the one or two blocks begin that seem to repeat, by kind, and where these end."""
    begins: dict[int, int] = {}
    while at + HEADER_BYTES <= len(view) and len(begins) <= len(sizes):
        _, kind, record_bytes, payload_bytes, *_ = HEADER.unpack_from(view, at)
        if kind in begins or sizes.get(kind) != record_bytes or payload_bytes % record_bytes:
            break
        begins[kind] = at
        at += HEADER_BYTES + payload_bytes
    first = min(begins.values(), default=at)
    return (begins, at) if view[first : first + 12] == view[at : at + 12] else ({}, at)


def _until_false(values: NDArray[np.bool_]) -> int:
    return len(values) if values.all() else int(values.argmin())


def _arrays(
    group: list[Blocks], dtype: np.dtype[Any]
) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """The times of the records of some blocks, and the records."""
    whole = np.empty(sum(blocks.payloads.size for blocks in group), np.uint8)
    rows: NDArray[np.void] = whole.view(dtype)
    times: NDArray[np.int64] = np.empty(len(rows), np.int64)
    at = 0
    for begins_ns, payloads in group:
        end = at + payloads.size
        whole[at:end].reshape(payloads.shape)[...] = payloads
        here = slice(at // dtype.itemsize, end // dtype.itemsize)
        np.multiply(rows["dt_us"][here], 1000, out=times[here], dtype=np.int64)
        times[here].reshape(len(begins_ns), -1)[...] += begins_ns[:, np.newaxis]
        at = end
    return times, rows
