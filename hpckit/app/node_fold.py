"""One node's files, read once: energy and use of each of its GPUs, and what its host did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from hpckit.app.accounts import NodeEvidence, SampleSpan, SampleStore
from hpckit.app.rank_claims import claims_of, shift_ns
from hpckit.errors import ParseError, StorageFailed
from hpckit.measure.attribution import Attribution, RankClaim, attribute, marks_of
from hpckit.measure.energy import GpuEnergyFold
from hpckit.measure.gpu_energy import GpuEnergy
from hpckit.measure.host import HostFold, HostUsage
from hpckit.measure.onward import Onward
from hpckit.measure.rows import RowBlock, Rows, Times, rows_by_gpu
from hpckit.measure.usage import GpuUsage, GpuUsageFold
from hpckit.model.ledger import EnergyReading, RankLedger
from hpckit.model.samples import HOST_PERIOD_S
from hpckit.model.series import FileCondition, SampleChunk, SampledGpu, SampleMeta
from hpckit.parse.samples import SampleReader

_SAME_OFFSET_NS = 1_000_000
"""Clocks that are read one after the other differ by less; a machine that slept by more."""
_UNKNOWN_INDEX = -1
_MOST_TOLD = 8
"""Of the GPUs that a node lost: a node has so many."""


class GpuFold(Struct, frozen=True, kw_only=True):
    """What was found of one GPU; `usage` None where no samples are of it."""

    gpu: SampledGpu
    energy: GpuEnergy
    usage: GpuUsage | None

    @property
    def index(self) -> int | None:
        """The driver's index, None where only a ledger names the GPU."""
        return None if self.gpu.index == _UNKNOWN_INDEX else self.gpu.index


class NodeFold(Struct, frozen=True, kw_only=True):
    """What was found of one node in one incarnation; `meta` None where no sampler ran."""

    evidence: NodeEvidence
    attribution: Attribution
    claims: tuple[RankClaim, ...] = ()
    gpus: tuple[GpuFold, ...] = ()
    meta: SampleMeta | None = None
    host: HostUsage | None = None
    samples: int = 0
    missing: tuple[str, ...] = ()


class FoldRequest(Struct, frozen=True, kw_only=True):
    """A node to be folded; curves of `points` points begin where `origin_s` (epoch) is.

    `is_running` is whether a rank without an end may go on.
    """

    store: SampleStore
    evidence: NodeEvidence
    origin_s: float
    points: int = 0
    is_running: bool = False


class _Folds(Struct):
    """The folds of a node's GPUs, made when a GPU is first seen.

    Rows of a GPU wait in a block of its own: copied together once, both folds pass through them
    in a core's own cache.
    """

    request: FoldRequest
    claims: Sequence[RankClaim]
    marks_ns: Sequence[int]
    readings: dict[str, list[EnergyReading]]
    updates: dict[str, list[EnergyReading]]
    gpus: dict[str, SampledGpu] = field(default_factory=dict)
    energy: dict[str, GpuEnergyFold] = field(default_factory=dict)
    usage: dict[str, GpuUsageFold] = field(default_factory=dict)
    waiting: dict[str, RowBlock] = field(default_factory=dict)
    boottime_offset_ns: int = 0
    host: HostFold | None = None
    samples: int = 0
    onward: Onward = field(default_factory=Onward)

    def take(self, chunk: SampleChunk, shift_ns: int) -> None:
        """Add a chunk whose clock is `shift_ns` behind the node's, but what others had already."""
        chunk = self.onward.of(chunk, shift_ns)
        if abs(chunk.boottime_offset_ns - self.boottime_offset_ns) > _SAME_OFFSET_NS:
            self._fold_rest()
        self.boottime_offset_ns = chunk.boottime_offset_ns
        for place, times_ns, rows in rows_by_gpu(chunk):
            gpu = chunk.meta.gpus[place]
            if gpu.uuid not in self.gpus:
                self._begin(gpu, chunk.meta.hz)
            at_ns = times_ns + shift_ns if shift_ns else times_ns
            for block in self.waiting[gpu.uuid].filled(at_ns, rows):
                self._fold(gpu.uuid, *block)
            self.samples += len(rows)
        if self.host is None:
            evidence = self.request.evidence
            period_s = max(1 / chunk.meta.hz, HOST_PERIOD_S)
            self.host = HostFold(period_s, evidence.begin_ns, evidence.end_ns)
        self.host.add(chunk, shift_ns)

    def _fold(self, uuid: str, times_ns: Times, rows: Rows) -> None:
        self.energy[uuid].add(times_ns, rows, boottime_offset_ns=self.boottime_offset_ns)
        self.usage[uuid].add(times_ns, rows)

    def _fold_rest(self) -> None:
        """Fold what waits, before the clocks are others and at the end."""
        for uuid, waiting in self.waiting.items():
            for block in waiting.rest():
                self._fold(uuid, *block)

    def _begin(self, gpu: SampledGpu, hz: float) -> None:
        evidence = self.request.evidence
        period_s = 1 / hz
        self._begin_energy(gpu, period_s)
        self.waiting[gpu.uuid] = RowBlock()
        self.usage[gpu.uuid] = GpuUsageFold(
            gpu,
            period_s,
            evidence.begin_ns,
            evidence.end_ns,
            realtime_offset_ns=evidence.realtime_offset_ns,
            origin_s=evidence.started_s - self.request.origin_s,
            points=self.request.points,
        )
        mine = [one for one in self.claims if gpu.uuid in one.gpus]
        self.usage[gpu.uuid].watch((one.started_ns, one.ended_ns) for one in mine)

    def _begin_energy(self, gpu: SampledGpu, period_s: float | None) -> None:
        self.gpus[gpu.uuid] = gpu
        self.energy[gpu.uuid] = GpuEnergyFold(
            gpu,
            self.readings.get(gpu.uuid, []),
            self.marks_ns,
            updates=self.updates.get(gpu.uuid, []),
            period_s=period_s,
        )

    def results(self) -> tuple[GpuFold, ...]:
        """All GPUs, also those that only ledgers name."""
        self._fold_rest()
        for uuid, readings in self.readings.items():
            if uuid not in self.gpus:
                has_counter = any(one.energy_mj is not None for one in readings)
                energy = "counter" if has_counter else None
                refused = {one.refused for one in readings if one.refused}
                why = {"energy_mj": sorted(refused)[0]} if refused else {}
                gpu = SampledGpu(
                    uuid=uuid, index=_UNKNOWN_INDEX, energy=energy, refused=why,
                    mig=_is_split(self.request.evidence.lives, uuid),
                )  # fmt: skip
                self._begin_energy(gpu, None)
        return tuple(
            GpuFold(
                gpu=gpu,
                energy=self.energy[uuid].result(),
                usage=self.usage[uuid].result() if uuid in self.usage else None,
            )
            for uuid, gpu in self.gpus.items()
        )


def _is_split(lives: Sequence[RankLedger], uuid: str) -> bool:
    """Whether a rank saw a slice of this GPU."""
    starts = [life.start for life in lives if "MIG-" in (life.start.visible or "")]
    return any(one.uuid == uuid for start in starts for one in start.gpus)


def fold_node(request: FoldRequest) -> NodeFold:
    """Read the files of a node, in bounded memory; once where no rank was killed.

    Damage is told in `missing`.
    """
    evidence = request.evidence
    readings, updates = _readings(evidence)
    claims = claims_of(request.store, evidence, is_running=request.is_running)
    window_ns = (evidence.begin_ns, evidence.end_ns)
    folds = _Folds(request, claims, marks_of(claims, window_ns), readings, updates)
    missing: list[str] = []
    for span in evidence.spans:
        missing += _fold_file(folds, span)
    if not evidence.spans:
        missing.append("no samples: only what its ranks wrote when they began and ended")
    left_out = folds.onward.left_out
    if left_out:
        missing.append(
            f"{left_out:,} samples go back in time and are left out: they repeat others, or were "
            "put into the file late"
        )
    gpus = folds.results()
    return NodeFold(
        evidence=evidence,
        gpus=gpus,
        claims=claims,
        attribution=attribute({one.gpu.uuid: one.energy for one in gpus}, claims, window_ns),
        meta=evidence.spans[0].meta if evidence.spans else None,
        host=None if folds.host is None else folds.host.result(),
        samples=folds.samples,
        missing=tuple(missing),
    )


def _fold_file(folds: _Folds, span: SampleSpan) -> Iterator[str]:
    evidence = folds.request.evidence
    reader = SampleReader(folds.request.store.pieces(span.path))
    lost: dict[str, None] = {}
    try:
        for chunk in reader:
            folds.take(chunk, shift_ns(chunk, evidence))
            lost |= dict.fromkeys(_lost_gpus(chunk))
    except (StorageFailed, ParseError) as error:
        line = error.message.split("\n", 1)[0]
        yield f"{span.path.name} could be read in part only: {line}"
    yield from [*lost][:_MOST_TOLD]
    if len(lost) > _MOST_TOLD:
        yield f"and {len(lost) - _MOST_TOLD} more GPUs were lost"
    yield from _damage(reader.condition)


def _lost_gpus(chunk: SampleChunk) -> Iterator[str]:
    for event in chunk.events:
        if event.get("event") != "gpu-lost":
            continue
        if "gpu" in event:
            yield f"GPU {event['gpu']} was lost to the driver while the job ran"
        else:
            which = event.get("index", event.get("uuid"))
            yield f"GPU {which}, as the driver calls it, was not sampled: {event.get('why')}"


def _damage(condition: FileCondition) -> Iterator[str]:
    if condition.lost_blocks:
        yield f"blocks of samples that are lost: {condition.lost_blocks}"
    elif condition.lost_bytes and not condition.is_cut_short:
        yield f"{condition.lost_bytes:,} bytes of its samples are damaged"


def _readings(
    evidence: NodeEvidence,
) -> tuple[dict[str, list[EnergyReading]], dict[str, list[EnergyReading]]]:
    """What ranks read of each GPU's counter, and the changes that they saw."""
    readings: dict[str, list[EnergyReading]] = {}
    updates: dict[str, list[EnergyReading]] = {}
    for life in evidence.lives:
        ended = () if life.end is None else (*life.end.readings, *life.end.gpus)
        for one in evidence.readings_of(life, [*life.start.gpus, *ended]):
            readings.setdefault(one.uuid, []).append(one)
        seen = () if life.end is None else life.end.updates
        for one in evidence.readings_of(life, seen):
            updates.setdefault(one.uuid, []).append(one)
    return readings, updates
