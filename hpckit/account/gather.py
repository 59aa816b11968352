"""What lies there of a job, brought together by node: ledgers, sample files, and from when to when.

Times of different nodes meet on CLOCK_REALTIME; those of one node stay on the CLOCK_MONOTONIC of
its sampler, or of its ranks where there was none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from hpckit.account.energy_sums import RankClaim
from hpckit.account.ledger import EnergyReading, Moment, RankLedger, read_ledger
from hpckit.account.rows import Rows, Times, rows_by_gpu
from hpckit.account.samples import FileCondition, SampleChunk, SampleMeta
from hpckit.account.usage import LastUse
from hpckit.core.errors import ParseError, StorageFailed
from hpckit.core.text import first_of
from hpckit.spec.folder_in_job import node_of_topology

if TYPE_CHECKING:
    from hpckit.account.store import AccountFiles, FoundAccounts
    from hpckit.node.topology import NodeTopology


_MOST_TOLD = 4


class SampleStore(Protocol):
    """The accounts in job folders: what ranks and samplers wrote."""

    def find(self, folder: Path, array_task: int | None = None) -> FoundAccounts:
        """What lies below a job folder, its `account/`, or a folder of such files.

        Raises StorageFailed where the folder itself cannot be read.
        """
        ...

    def text(self, path: Path) -> bytes:
        """A ledger, or a node's topology. Raises StorageFailed, also for no regular file."""
        ...

    def samples(self, path: Path, condition: FileCondition | None = None) -> Iterable[SampleChunk]:
        """A sample file as it is now, and its condition. Raises StorageFailed, ParseError."""
        ...

    def ends(self, path: Path) -> tuple[Iterable[SampleChunk], Iterable[SampleChunk]]:
        """The beginning and the end of a sample file; nothing where these tell none of it.

        Raises as `samples`.
        """
        ...


class SampleSpan(Struct, frozen=True, kw_only=True):
    """A sample file, and from when to when it goes, on the clock of its first boot."""

    path: Path
    meta: SampleMeta
    first_ns: int
    last_ns: int
    realtime_offset_ns: int

    @property
    def node(self) -> str:
        """The node that the sampler ran on."""
        return self.meta.node

    @property
    def identity(self) -> tuple[str, str | None, int, int, int]:
        """What no other sampler's file has: the moment of its first sample on one boot."""
        meta = self.meta
        return meta.node, meta.boot_id, meta.restart, self.first_ns, self.realtime_offset_ns


class NodeEvidence(Struct, frozen=True, kw_only=True):
    """All that is known of one node in one incarnation.

    `begin_ns` and `end_ns` are the first and last evidence on CLOCK_MONOTONIC, `realtime_offset_ns`
    makes it CLOCK_REALTIME. `lives` are the ranks there, in order; `spans` its sample files.
    """

    node: str
    restart: int
    begin_ns: int
    end_ns: int
    realtime_offset_ns: int
    boot_id: str | None
    lives: tuple[RankLedger, ...] = ()
    spans: tuple[SampleSpan, ...] = ()

    @property
    def expected_rows(self) -> float:
        """About how many rows its sample files have."""
        return sum(
            (one.last_ns - one.first_ns) / 1e9 * one.meta.hz * len(one.meta.gpus)
            for one in self.spans
        )

    @property
    def started_s(self) -> float:
        """The first evidence, seconds since the epoch."""
        return (self.begin_ns + self.realtime_offset_ns) / 1e9

    @property
    def ended_s(self) -> float:
        """The last evidence."""
        return (self.end_ns + self.realtime_offset_ns) / 1e9

    def ns_of(self, life: RankLedger, at: Moment) -> int:
        """A moment of a rank on this node's clock."""
        same_boot = self.boot_id is None or life.start.boot_id in (None, self.boot_id)
        return at.monotonic_ns if same_boot else at.realtime_ns - self.realtime_offset_ns

    def readings_of(
        self, life: RankLedger, readings: Iterable[EnergyReading]
    ) -> list[EnergyReading]:
        """Readings of a rank with their times on this node's clock."""
        shift_ns = self.ns_of(life, life.start.at) - life.start.at.monotonic_ns
        return [replace(one, monotonic_ns=one.monotonic_ns + shift_ns) for one in readings]


class Gathered(Struct, frozen=True, kw_only=True):
    """The evidence by incarnation and node, and a sentence for what could not be read.

    `empty` are the sentences for ledgers in which nothing is: those of a running job another node
    may only have begun.
    """

    found: FoundAccounts
    evidence: tuple[NodeEvidence, ...]
    unread: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def _by_place() -> dict[tuple[int, str], list[Any]]:
    return defaultdict(list)


class _Gathering(Struct):
    """Evidence while it is gathered, by restart and node; `seen` is which file had what first."""

    lives: dict[tuple[int, str], list[RankLedger]] = field(default_factory=_by_place)
    spans: dict[tuple[int, str], list[SampleSpan]] = field(default_factory=_by_place)
    seen: dict[Hashable, Path] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    repeated: dict[str, None] = field(default_factory=dict)

    def is_new(self, identity: Hashable, path: Path) -> bool:
        """Whether no file had this before; that one repeats another is told."""
        if identity not in self.seen:
            self.seen[identity] = path
            return True
        here, there = (f"{one.parent.name}/{one.name}" for one in (path, self.seen[identity]))
        self.repeated[f"{here} is a copy of {there}: counted once"] = None
        return False


def gather(store: SampleStore, found: FoundAccounts) -> Gathered:
    """What lies in the files that were found."""
    gathering = _Gathering()
    for files in found.incarnations:
        _take_ledgers(store, files, gathering)
        _take_samples(store, files, gathering)
    evidence = tuple(
        _evidence(*place, gathering.lives[place], gathering.spans[place])
        for place in sorted({*gathering.lives, *gathering.spans})
    )
    told = first_of(gathering.refused, _MOST_TOLD, "more files could not be read")
    told += first_of([*gathering.repeated], _MOST_TOLD, "more files are copies")
    return Gathered(
        found=found,
        evidence=evidence,
        unread=(*found.missing, *told),
        empty=tuple(first_of(gathering.empty, _MOST_TOLD, "more ledgers are empty")),
    )


def _take_ledgers(store: SampleStore, files: AccountFiles, gathering: _Gathering) -> None:
    for path in files.ledgers:
        try:
            text = store.text(path).decode("utf-8", "replace")
            lives, error = read_ledger(text)
        except StorageFailed as refused:
            gathering.refused.append(refused.message)
            continue
        if error is not None:
            what = "is only partly readable" if lives else "is not a ledger"
            gathering.refused.append(f"{path.name} {what}: {_first_line(error)}")
        elif not text:
            gathering.empty.append(f"{path.name} is empty, expected the start record of a rank")
        elif not lives:
            begin = f"has no complete start record: it begins with {text[:16]!r}"
            zeros = f"is not a ledger: {len(text):,} zero bytes"
            gathering.refused.append(f"{path.name} {begin if text.strip(chr(0)) else zeros}")
        for life in lives:
            _take_life(gathering, files.restart or 0, life, path)


def _take_life(gathering: _Gathering, restart: int, life: RankLedger, path: Path) -> None:
    moments = _moments(life)
    if moments[-1].monotonic_ns < moments[0].monotonic_ns:
        gathering.refused.append(f"{path.name} has impossible times")
        return
    if gathering.is_new(life.start.identity, path):
        gathering.lives[restart, life.start.node].append(life)
    elif life.end is not None:  # of copies the one with an end counts
        for lives in gathering.lives.values():
            lives[:] = [
                life if other.end is None and other.start.identity == life.start.identity else other
                for other in lives
            ]


def _take_samples(store: SampleStore, files: AccountFiles, gathering: _Gathering) -> None:
    for path in files.samples:
        try:
            span = span_of(store, path)
        except StorageFailed as error:
            gathering.refused.append(error.message)
            continue
        except ParseError as error:
            gathering.refused.append(f"{path.name} is not a sample file: {_first_line(error)}")
            continue
        if span is None:
            gathering.refused.append(f"{path.name} has no samples")
            continue
        restart = span.meta.restart if files.restart is None else files.restart
        if gathering.is_new(span.identity, path):
            gathering.spans[restart, span.node].append(span)
            continue
        for spans in gathering.spans.values():  # of copies the longest counts
            spans[:] = [
                span if other.identity == span.identity and other.last_ns < span.last_ns else other
                for other in spans
            ]


def _first_line(error: ParseError) -> str:
    return error.message.split("\n", 1)[0]


def span_of(store: SampleStore, path: Path) -> SampleSpan | None:
    """From when to when a sample file goes, by its ends alone where these are whole.

    None for one without samples. Raises StorageFailed, ParseError.
    """
    begin, end = store.ends(path)
    first = next((chunk for chunk in begin if _times(chunk)), None)
    last = None
    for chunk in end:
        last = chunk if _times(chunk) else last
    if first is None or last is None:
        for chunk in store.samples(path):
            if _times(chunk):
                first, last = first or chunk, chunk
    if first is None or last is None:
        return None
    is_rebooted = max(_times(last)) < min(_times(first))
    shift_ns = last.realtime_offset_ns - first.realtime_offset_ns if is_rebooted else 0
    return SampleSpan(
        path=path,
        meta=first.meta,
        first_ns=min(_times(first)),
        last_ns=max(*_times(first), max(_times(last)) + shift_ns),
        realtime_offset_ns=first.realtime_offset_ns,
    )


def _times(chunk: SampleChunk) -> list[int]:
    return [int(one) for ns in (chunk.gpu_ns, chunk.host_ns) if len(ns) for one in ns[[0, -1]]]


def _evidence(
    restart: int, node: str, lives: list[RankLedger], spans: list[SampleSpan]
) -> NodeEvidence:
    spans.sort(key=lambda span: span.first_ns + span.realtime_offset_ns)
    if spans:
        offset_ns, boot_id = spans[0].realtime_offset_ns, spans[0].meta.boot_id
    else:
        start = lives[0].start
        offset_ns, boot_id = start.at.realtime_ns - start.at.monotonic_ns, start.boot_id
    found = NodeEvidence(
        node=node,
        restart=restart,
        begin_ns=0,
        end_ns=0,
        realtime_offset_ns=offset_ns,
        boot_id=boot_id,
        lives=tuple(sorted(lives, key=lambda life: (life.start.rank, life.start.at.realtime_ns))),
        spans=tuple(spans),
    )
    times = []
    for span in spans:
        shift_ns = 0 if span.meta.boot_id == boot_id else span.realtime_offset_ns - offset_ns
        times += [span.first_ns + shift_ns, span.last_ns + shift_ns]
    for life in lives:
        times += [found.ns_of(life, at) for at in _moments(life)]
    begin_ns = min(times)
    return replace(found, begin_ns=begin_ns, end_ns=max(*times, begin_ns + 1))


def _moments(life: RankLedger) -> list[Moment]:
    return [life.start.at] if life.end is None else [life.start.at, life.end.at]


Beginnings = Mapping[tuple[int, str], Sequence[int]]
"""When the lives of a rank began that had a GPU, by the rank and the GPU, in order."""


def claims_of(
    store: SampleStore, evidence: NodeEvidence, *, is_running: bool
) -> tuple[RankClaim, ...]:
    """The claims of a node's lives, in their order.

    One without an end holds its GPUs until the next life of its rank takes one of them, at most to
    the node's last evidence; and only until its GPUs are seen without a process and a kernel for
    good, unless it may still run. `is_running` is whether it may.
    """
    begun_ns = _beginnings(evidence)
    claims = [_claim(evidence, life, begun_ns, is_running=is_running) for life in evidence.lives]
    cut = [at for at, one in enumerate(claims) if one.ended_by in ("sample", "next-life")]
    uses = _uses(store, evidence, [claims[at] for at in cut])
    for at in cut:
        claims[at] = _until_gone(claims[at], uses)
    return tuple(claims)


def shift_ns(chunk: SampleChunk, evidence: NodeEvidence) -> int:
    """By how much the chunk's clock is behind the node's: that of another boot begins anew."""
    if chunk.meta.boot_id == evidence.boot_id:
        return 0
    return chunk.realtime_offset_ns - evidence.realtime_offset_ns


def _claim(
    evidence: NodeEvidence, life: RankLedger, begun_ns: Beginnings, *, is_running: bool
) -> RankClaim:
    begin_ns = evidence.ns_of(life, life.start.at)
    if life.end is not None:
        end_ns, ended_by = evidence.ns_of(life, life.end.at), "ledger"
    else:
        end_ns, ended_by = evidence.end_ns, "running" if is_running else "sample"
        next_ns = _next_ns(life, begin_ns, begun_ns)
        if next_ns is not None:
            end_ns, ended_by = next_ns, "next-life"
    begin_ns = min(max(begin_ns, evidence.begin_ns), evidence.end_ns)
    return RankClaim(
        rank=life.start.rank,
        gpus=_gpus(life),
        started_ns=begin_ns,
        ended_ns=min(max(end_ns, begin_ns), evidence.end_ns),
        ended_by=ended_by,
    )


def _gpus(life: RankLedger) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.uuid for one in life.start.gpus))


def _beginnings(evidence: NodeEvidence) -> Beginnings:
    found: dict[tuple[int, str], list[int]] = {}
    for life in evidence.lives:
        for uuid in _gpus(life):
            at_ns = evidence.ns_of(life, life.start.at)
            found.setdefault((life.start.rank, uuid), []).append(at_ns)
    return {key: sorted(each) for key, each in found.items()}


def _next_ns(life: RankLedger, begin_ns: int, begun_ns: Beginnings) -> int | None:
    """When the rank began again on one of its GPUs; steps at once have others."""
    following: list[int] = []
    for uuid in _gpus(life):
        times_ns = begun_ns[life.start.rank, uuid]
        following += times_ns[(at := bisect_right(times_ns, begin_ns)) : at + 1]
    return min(following, default=None)


def _until_gone(claim: RankClaim, uses: Mapping[tuple[str, int, int], LastUse]) -> RankClaim:
    seen = [uses.get((uuid, claim.started_ns, claim.ended_ns)) for uuid in claim.gpus]
    used = [one.gone_ns for one in seen if one is not None and one.was_used]
    gone = [at_ns for at_ns in used if at_ns is not None]
    if not gone or len(gone) < len(used) or None in seen:
        return claim
    return replace(claim, ended_ns=max(gone), ended_by="processes")


def _uses(
    store: SampleStore, evidence: NodeEvidence, claims: Sequence[RankClaim]
) -> dict[tuple[str, int, int], LastUse]:
    uses: dict[str, dict[tuple[str, int, int], LastUse]] = defaultdict(dict)
    for claim in claims:
        for uuid in claim.gpus:
            stretch = claim.started_ns, claim.ended_ns
            uses[uuid][uuid, *stretch] = LastUse(*stretch)
    for span in evidence.spans if uses else ():
        for uuid, times_ns, rows in _rows_of(store, span, evidence):
            for use in uses[uuid].values():
                use.add(times_ns, rows)
    return {place: use for its in uses.values() for place, use in its.items()}


def _rows_of(
    store: SampleStore, span: SampleSpan, evidence: NodeEvidence
) -> Iterator[tuple[str, Times, Rows]]:
    """The rows of a file by GPU; what cannot be read is told by who reads all of it."""
    try:
        for chunk in store.samples(span.path):
            for place, times_ns, rows in rows_by_gpu(chunk):
                yield chunk.meta.gpus[place].uuid, times_ns + shift_ns(chunk, evidence), rows
    except (StorageFailed, ParseError):
        return


def node_topologies(
    store: SampleStore, found: FoundAccounts, nodes: Collection[str] | None = None
) -> tuple[dict[str, NodeTopology], list[str]]:
    """The topologies by node, of the last incarnation; a sentence for what cannot be read.

    Those of `nodes` alone where these are named. A node without such a file is none of them, and
    nothing is said of it.
    """
    topologies: dict[str, NodeTopology] = {}
    refused = []
    for path in (path for files in found.incarnations for path in files.topologies):
        node = node_of_topology(path.name)
        if nodes is not None and node not in nodes:
            continue
        try:
            from hpckit.node.capture.snapshot import read_snapshot  # most reports read none

            topology = read_snapshot(store.text(path))
        except StorageFailed as error:
            refused.append(error.message)
        except ParseError as error:
            refused.append(f"{path.name} is not a node topology: {_first_line(error)}")
        else:
            if node is not None:
                topologies[node] = topology
    return topologies, first_of(refused, _MOST_TOLD, "more topologies could not be read")
