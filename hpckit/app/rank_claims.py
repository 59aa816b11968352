"""From when to when each life of a rank held its GPUs, also where it was killed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from hpckit.app.accounts import NodeEvidence, SampleSpan, SampleStore
from hpckit.errors import ParseError, StorageFailed
from hpckit.measure.attribution import RankClaim
from hpckit.measure.last_use import LastUse, Use
from hpckit.measure.rows import Rows, Times, rows_by_gpu
from hpckit.model.ledger import RankLedger
from hpckit.model.series import SampleChunk
from hpckit.parse.samples import SampleReader

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


def _until_gone(claim: RankClaim, uses: Mapping[tuple[str, int, int], Use]) -> RankClaim:
    seen = [uses.get((uuid, claim.started_ns, claim.ended_ns)) for uuid in claim.gpus]
    used = [one.gone_ns for one in seen if one is not None and one.was_used]
    gone = [at_ns for at_ns in used if at_ns is not None]
    if not gone or len(gone) < len(used) or None in seen:
        return claim
    return replace(claim, ended_ns=max(gone), ended_by="processes")


def _uses(
    store: SampleStore, evidence: NodeEvidence, claims: Sequence[RankClaim]
) -> dict[tuple[str, int, int], Use]:
    """How the GPUs of some claims were used in them; the files are read only if there are any."""
    stretches: dict[str, list[tuple[int, int]]] = {}
    for claim in claims:
        for uuid in claim.gpus:
            stretches.setdefault(uuid, []).append((claim.started_ns, claim.ended_ns))
    folds = {uuid: LastUse(each) for uuid, each in stretches.items()}
    for span in evidence.spans if folds else ():
        for uuid, times_ns, rows in _rows_of(store, span, evidence):
            if uuid in folds:
                folds[uuid].add(times_ns, rows)
    return {
        (uuid, *stretch): use
        for uuid, fold in folds.items()
        for stretch, use in zip(stretches[uuid], fold.found(), strict=True)
    }


def _rows_of(
    store: SampleStore, span: SampleSpan, evidence: NodeEvidence
) -> Iterator[tuple[str, Times, Rows]]:
    """The rows of a file by GPU; what cannot be read is told by who reads all of it."""
    try:
        for chunk in SampleReader(store.pieces(span.path)):
            for place, times_ns, rows in rows_by_gpu(chunk):
                yield chunk.meta.gpus[place].uuid, times_ns + shift_ns(chunk, evidence), rows
    except (StorageFailed, ParseError):
        return
