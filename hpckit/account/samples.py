"""A sample file, `hpckit.samples/1`, as arrays: piece after piece, in bounded memory.

Damage costs the blocks that it hit: it is skipped and counted.
"""

from __future__ import annotations

import json
import zlib
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
    HEADER,
    HEADER_BYTES,
    HOST,
    MAGIC,
    META,
    MOST_VAIN_BYTES,
    SAMPLES_SCHEMA,
    VAIN_BYTES_A_MAGIC,
    BlockHeader,
    decode_header,
    find_magic,
)
from hpckit.account.sample_rows import Blocks, run_at
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
    """The META block of a sample file. `rest` is what this version does not know."""

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
    rest: Mapping[str, Any] = field(default_factory=dict)


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


class FileCondition(Struct, frozen=True, kw_only=True):
    """How whole a sample file was: bytes that were no block, and blocks that are not there."""

    bytes_read: int
    lost_bytes: int
    lost_blocks: int
    is_cut_short: bool


TOOL: Final = "sample file"

_META_KEYS: Final = set(SampleMeta.__struct_fields__) - {"rest"}
_GPU_KEYS: Final = set(SampledGpu.__struct_fields__)
_COLUMN_KEYS: Final = set(HostColumn.__struct_fields__)


def parse_meta(payload: bytes) -> SampleMeta:
    """What a META block says; unknown keys are in `rest`, those of GPU 3 as `gpus[3].key`.

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
    rest = _rest(tree)
    known = {key: value for key, value in tree.items() if key in _META_KEYS}
    try:
        return msgspec.convert(known | {"rest": rest}, SampleMeta)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _refuse(text, 0, str(error), "what docs/reference/account-files.md lists") from error


def _rest(tree: dict[str, Any]) -> dict[str, Any]:
    beside = {key: value for key, value in tree.items() if key not in _META_KEYS | {"schema"}}
    for name, keys in (("gpus", _GPU_KEYS), ("host_columns", _COLUMN_KEYS)):
        items = tree.get(name)
        for at, item in enumerate(items if isinstance(items, list) else ()):
            unknown = set(item) - keys if isinstance(item, dict) else set()
            beside |= {f"{name}[{at}].{key}": item[key] for key in sorted(unknown)}
    return beside


def _refuse(text: str, at: int, message: str, expected: str) -> ParseError:
    line_no = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].split("\n", 1)[0]
    return refusal(
        message, tool=TOOL, line_no=line_no, line=line, column=at - begin + 1, expected=expected
    )


PIECE_BYTES: Final = 1 << 25
_HEAD_BYTES = 100

Piece = bytes | memoryview
_Group = list[Blocks]


def pieces_of(data: Piece) -> Iterator[memoryview]:
    """Whole contents (an mmap's view) as pieces that are cheap to walk through."""
    view = memoryview(data)
    for at in range(0, len(view), PIECE_BYTES):
        yield view[at : at + PIECE_BYTES]


class _Walk(Struct):
    """Where in the file the reader is, and what it found to be lost."""

    bytes_read: int = 0
    lost_bytes: int = 0
    lost_blocks: int = 0
    vain_bytes: int = 0
    is_in_damage: bool = False
    next_sequence: int | None = None
    rest: bytes = b""


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
    """

    def __init__(self, source: Piece | Iterable[Piece]) -> None:
        if isinstance(source, (bytes, memoryview)):
            source = pieces_of(source)
        self._pieces: Iterator[Piece] = iter(source)
        self._walk = _Walk()
        self._meta: SampleMeta | None = None
        self._now = _Gathered()
        self._head = b""
        self._orphans = 0
        self.unknown_blocks = 0
        """Blocks of kinds that this version does not know."""

    @property
    def condition(self) -> FileCondition:
        """How whole the file was, as far as it was read."""
        walk = self._walk
        return FileCondition(
            bytes_read=walk.bytes_read,
            lost_bytes=walk.lost_bytes,
            lost_blocks=walk.lost_blocks,
            is_cut_short=walk.is_in_damage,
        )

    def __iter__(self) -> Iterator[SampleChunk]:
        for whole, is_last in _with_last(self._pieces):
            piece = memoryview(whole)  # a part of bytes would be a copy
            self._walk.bytes_read += len(piece)
            self._head += bytes(piece[: _HEAD_BYTES - len(self._head)])
            cut = _completing(self._walk.rest, piece)
            if cut:
                yield from self._piece(piece[:cut], is_last=False)
            yield from self._piece(piece[cut:] if cut else piece, is_last=is_last)
            yield from self._chunk()
        if self._meta is None:
            self._refuse_other()

    def _piece(self, piece: Piece, *, is_last: bool) -> Iterator[SampleChunk]:
        """Take the blocks in what was left over and a piece; META ends a chunk."""
        walk = self._walk
        data = b"".join((walk.rest, piece)) if walk.rest else piece
        view, at, end = memoryview(data), 0, len(data)
        while at < end:
            at = self._take_run(view, at)
            if at == end:
                break
            found = _block_at(walk, view, at, is_last=is_last)
            if found == _MORE:
                break
            if isinstance(found, tuple):
                header, payload = found
                at += HEADER_BYTES + len(payload)
                _count_lost(walk, header.sequence)
                if header.kind == META:
                    yield from self._chunk()
                    self._meta = parse_meta(bytes(payload))
                else:
                    self._take(header, payload)
                continue
            walk.is_in_damage = True
            following = _next_magic(walk, view, at + 1, is_last=is_last)
            walk.lost_bytes += following - at
            at = following
        walk.rest = bytes(view[at:])

    def _take_run(self, view: memoryview, at: int) -> int:
        now, walk = self._now, self._walk
        if self._meta is None or now.first is None:
            return at
        sizes = {GPU: GPU_RECORD.size, HOST: self._host_bytes()}
        while True:
            found, run_bytes = run_at(view, at, walk.next_sequence, sizes)
            if not found:
                following = self._take_next(view, at, sizes)
                if following == at:
                    return at
                at = following
                continue
            for kind, blocks in found.items():
                (now.gpu if kind == GPU else now.host).append(blocks)
                walk.next_sequence = (walk.next_sequence or 0) + len(blocks.begins_ns)
            walk.is_in_damage = False
            at += run_bytes

    def _take_next(self, view: memoryview, at: int, sizes: Mapping[int, int]) -> int:
        """Take one such block; where the next begins, or `at` if this one is odd."""
        if at > len(view) - HEADER_BYTES:
            return at
        magic, kind, _, size, length, number, _, begin_ns, _, crc = HEADER.unpack_from(view, at)
        payload = view[at + HEADER_BYTES : at + HEADER_BYTES + length]
        is_next = number == self._walk.next_sequence
        is_known = magic == MAGIC and sizes.get(kind) == size and not length % size
        if not (is_next and is_known and len(payload) == length):
            return at
        if zlib.crc32(payload, zlib.crc32(view[at : at + HEADER_BYTES - 4])) != crc:
            return at
        (self._now.gpu if kind == GPU else self._now.host).append(_alone(begin_ns, payload))
        self._walk.next_sequence = number + 1
        self._walk.is_in_damage = False
        return at + HEADER_BYTES + len(payload)

    def _host_bytes(self) -> int:
        return 8 + 8 * len(self._meta.host_columns) if self._meta else 8

    def _refuse_other(self) -> None:
        head = self._head
        shown = head.decode("latin-1").split("\n", 1)[0]
        if self._orphans:
            raise refusal(
                f"no block META is whole, by which its {self._orphans:,} other blocks are read",
                tool=TOOL, line_no=1, line=shown,
                expected="META as the first block: the beginning is damaged, or elsewhere",
            )  # fmt: skip
        if head[: len(MAGIC)] == MAGIC[: len(head)]:
            return
        raise refusal(
            "this is no sample file", tool=TOOL, line_no=1, line=shown,
            expected="blocks that begin with HKS1, as the sampler writes them",
        )  # fmt: skip

    def _take(self, header: BlockHeader, payload: memoryview) -> None:
        """Put a block where it belongs; what has no META before it is lost."""
        now, meta = self._now, self._meta
        sizes = {GPU: GPU_RECORD.size, HOST: self._host_bytes(), EVENTS: 1}
        size = sizes.get(header.kind)
        if size is None:
            self.unknown_blocks += 1
        elif meta is None:
            self._orphans += 1
            self._walk.lost_bytes += HEADER_BYTES + len(payload)
        elif header.record_bytes != size or len(payload) % size:
            self._walk.lost_bytes += HEADER_BYTES + len(payload)
        else:
            now.first = now.first or header
            if header.kind == EVENTS:
                self._take_events(payload)
                return
            group = now.gpu if header.kind == GPU else now.host
            group.append(_alone(header.monotonic_ns, payload))

    def _take_events(self, payload: memoryview) -> None:
        for line in bytes(payload).splitlines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                self._now.events.append(event)
            else:
                self._walk.lost_bytes += len(line)

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
            self._walk.lost_bytes += int(np.count_nonzero(~is_known)) * GPU_RECORD.size
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


def _alone(begin_ns: int, payload: memoryview) -> Blocks:
    payloads = np.frombuffer(payload, np.uint8)[np.newaxis, :]
    return Blocks(np.array([begin_ns], np.int64), payloads)


def _arrays(group: _Group, dtype: np.dtype[Any]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    whole = np.empty(sum(one.payloads.size for one in group), np.uint8)
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


def _with_last(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Each piece and whether it is the last; at least one, which may be empty."""
    now: Piece = b""
    for following in pieces:
        if now:
            yield now, False
        now = following
    yield now, True


def _completing(rest: bytes, piece: Piece) -> int:
    """How much of a piece completes the block that was left over, 0 if that is not inside of it.

    Then the two need not be joined, which would copy all of the piece.
    """
    head = rest[:HEADER_BYTES] + bytes(piece[: max(0, HEADER_BYTES - len(rest))])
    decoded = decode_header(head) if rest and len(head) == HEADER_BYTES else None
    if decoded is None:
        return 0
    cut = HEADER_BYTES + decoded[0].payload_bytes - len(rest)
    return cut if 0 < cut < len(piece) else 0


_MORE: Final = "more"
_NONE: Final = "none"


def _block_at(
    walk: _Walk, view: memoryview, at: int, *, is_last: bool
) -> tuple[BlockHeader, memoryview] | str:
    """The block there; `_MORE` where only what follows can tell, `_NONE` where there is none."""
    begin = at + HEADER_BYTES
    if begin > len(view) and not is_last and bytes(view[at : at + 4]) == MAGIC[: len(view) - at]:
        return _MORE
    decoded = decode_header(view[at:begin])
    if decoded is None:
        return _NONE
    header, crc = decoded
    end = begin + header.payload_bytes
    if end > len(view):
        return _NONE if is_last else _MORE
    payload = view[begin:end]
    if zlib.crc32(payload, zlib.crc32(view[at : begin - 4])) == crc:
        walk.is_in_damage = False
        return header, payload
    walk.vain_bytes += len(payload)
    return _NONE


def _next_magic(walk: _Walk, view: memoryview, at: int, *, is_last: bool) -> int:
    """Where the next block may begin: the end of the data where there is none."""
    walk.vain_bytes += VAIN_BYTES_A_MAGIC
    if walk.vain_bytes > MOST_VAIN_BYTES:
        return len(view)
    found = find_magic(view, at)
    if found >= 0:
        return found
    return len(view) if is_last else max(at, len(view) - len(MAGIC) + 1)


def _count_lost(walk: _Walk, sequence: int) -> None:
    """Holes in the numbers of blocks; a smaller number is that of another sampler's."""
    expected = walk.next_sequence
    if expected is not None and sequence > expected:
        walk.lost_blocks += sequence - expected
    walk.next_sequence = sequence + 1
