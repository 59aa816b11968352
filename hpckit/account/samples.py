"""A sample file, `hpckit.samples/1`, as arrays: piece after piece, in bounded memory.

Damage costs the blocks that it hit: it is skipped and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from hpckit.account.sample_format import (
    EVENTS,
    GPU,
    GPU_COLUMNS,
    GPU_RECORD,
    HEADER_BYTES,
    HOST,
    MAGIC,
    META,
    SAMPLES_SCHEMA,
    BlockHeader,
    Damage,
    read_blocks,
)
from hpckit.core.errors import ParseError
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


class SampleMeta(Struct, frozen=True, kw_only=True):
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

    bytes_read: int = 0
    lost_bytes: int = 0
    lost_blocks: int = 0
    is_cut_short: bool = False


TOOL: Final = "sample file"


def parse_meta(payload: bytes) -> SampleMeta:
    """What a META block says.

    Raises ParseError for what is no JSON object, for another schema, and for wrong types.
    """
    text = payload.decode("utf-8", "replace")
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refuse(text, error.pos, error.msg, "a META block of JSON") from error
    except (RecursionError, ValueError) as error:
        raise _refuse(text, 0, f"not readable: {error}", "a META block of JSON") from None
    if not isinstance(tree, dict):
        raise _refuse(text, 0, f"got {type(tree).__name__}", "a JSON object")
    if tree.get("schema") != SAMPLES_SCHEMA:
        at = max(text.find('"schema"'), 0)
        raise _refuse(text, at, f"schema is {tree.get('schema')!r}", f'"{SAMPLES_SCHEMA}"')
    try:
        return msgspec.convert(tree, SampleMeta)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _refuse(text, 0, str(error), "what docs/reference/account-files.md lists") from error


def _refuse(text: str, at: int, message: str, expected: str) -> ParseError:
    line_no = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].split("\n", 1)[0]
    return refusal(
        message, tool=TOOL, line_no=line_no, line=line, column=at - begin + 1, expected=expected
    )


Piece = bytes | memoryview
_Group = list[tuple[int, memoryview]]
"""Blocks of one kind: the moment at which each begins, and its records."""


class _Gathered(Struct):
    """The blocks of one chunk, while it grows."""

    gpu: _Group = field(default_factory=list)
    host: _Group = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    first: BlockHeader | None = None


class SampleReader:
    """Reads one sample file: iterate over it once, then ask for its `condition`.

    `source` is the contents, or their consecutive pieces. Iteration raises ParseError where a file
    is no sample file, or of another schema; an empty file is one whose sampler was killed early.
    Blocks of kinds that this version does not know are passed over.
    """

    def __init__(self, source: Piece | Iterable[Piece]) -> None:
        self._pieces = [source] if isinstance(source, (bytes, memoryview)) else source
        self._meta: SampleMeta | None = None
        self._now = _Gathered()
        self._head = b""
        self._orphans = 0
        self._next_sequence: int | None = None
        self.condition = FileCondition()
        """How whole the file was, as far as it was read."""

    def __iter__(self) -> Iterator[SampleChunk]:
        rest = b""
        for piece, is_last in _with_last(self._pieces):
            self.condition.bytes_read += len(piece)
            self._head += bytes(piece[: 100 - len(self._head)])
            data, at = memoryview(b"".join((rest, piece)) if rest else piece), 0
            for found in read_blocks(data, is_last=is_last):
                self.condition.is_cut_short = isinstance(found, Damage)
                if isinstance(found, Damage):
                    self.condition.lost_bytes += found.lost_bytes
                    at += found.lost_bytes
                    continue
                at += HEADER_BYTES + len(found.payload)
                self._count_lost(found.header.sequence)
                if found.header.kind == META:
                    yield from self._chunk()
                    self._meta = parse_meta(bytes(found.payload))
                else:
                    self._take(*found)
            rest = bytes(data[at:])
            yield from self._chunk()
        if self._meta is None:
            self._refuse_other()

    def _count_lost(self, sequence: int) -> None:
        """Count holes in the numbers of blocks; a smaller number is that of another sampler's."""
        if self._next_sequence is not None and sequence > self._next_sequence:
            self.condition.lost_blocks += sequence - self._next_sequence
        self._next_sequence = sequence + 1

    def _refuse_other(self) -> None:
        shown = self._head.decode("latin-1").split("\n", 1)[0]
        if self._orphans:
            raise refusal(
                f"no block META is whole, by which its {self._orphans:,} other blocks are read",
                tool=TOOL, line_no=1, line=shown,
                expected="META as the first block: the beginning is damaged, or elsewhere",
            )  # fmt: skip
        if self._head[: len(MAGIC)] != MAGIC[: len(self._head)]:
            raise refusal(
                "this is no sample file", tool=TOOL, line_no=1, line=shown,
                expected="blocks that begin with HKS1, as the sampler writes them",
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
            (now.gpu if kind == GPU else now.host).append((header.monotonic_ns, payload))

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


def _arrays(group: _Group, dtype: np.dtype[Any]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """The times of the records of some blocks, and the records."""
    rows: NDArray[np.void] = np.frombuffer(bytearray().join(one for _, one in group), dtype)
    counts = [len(payload) // dtype.itemsize for _, payload in group]
    begins_ns = np.repeat(np.array([begin_ns for begin_ns, _ in group], np.int64), counts)
    return begins_ns + np.multiply(rows["dt_us"], 1000, dtype=np.int64), rows


def _with_last(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Each piece and whether it is the last; at least one, which may be empty."""
    now: Piece = b""
    for following in pieces:
        if now:
            yield now, False
        now = following
    yield now, True
