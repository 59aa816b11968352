"""One node's files, read once: energy and use of each of its GPUs, and what its host did."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import (
    Attribution,
    GpuEnergy,
    Part,
    RankClaim,
    attribute,
    from_slurm,
    marks_of,
    reasons_of,
    sum_of_boards,
    sum_of_parts,
)
from hpckit.account.gather import NodeEvidence, SampleSpan, SampleStore, claims_of, shift_ns
from hpckit.account.host import HostFold
from hpckit.account.ledger import EnergyReading, RankEnd, RankLedger
from hpckit.account.rows import GpuBlock, Onward, RowBlocks
from hpckit.account.sample_format import HOST_PERIOD_S
from hpckit.account.samples import FileCondition, SampleChunk, SampledGpu, SampleMeta
from hpckit.account.usage import GpuUsageFold
from hpckit.account.values import (
    MODEL_KEYS,
    SPLIT_GPU,
    Conservation,
    Energy,
    EnergyLack,
    EnergyReason,
    EnergySource,
    GpuAccount,
    NodeAccount,
    RankAccount,
    Share,
    SlurmEnergy,
)
from hpckit.core.errors import ParseError, StorageFailed
from hpckit.core.quantities import whole_sum
from hpckit.core.text import first_of
from hpckit.spec.energy_site import EnergySite

_UNKNOWN_INDEX = -1
_MOST_TOLD = 8
"""Of the GPUs that a node lost: a node has so many."""
_MOST_NAMED = 4


class GpuFold(Struct, frozen=True, kw_only=True):
    """What was found of one GPU: its account but for the idle remainder.

    `useful_fracs` is the useful part of ranks' times, by first and last ns.
    """

    gpu: SampledGpu
    energy: GpuEnergy
    account: GpuAccount
    useful_fracs: Mapping[tuple[int, int], float | None] = field(default_factory=dict)


class NodeFold(Struct, frozen=True, kw_only=True):
    """What was found of one node in one incarnation; `meta` None where no sampler ran.

    Of `account` the energy is that of a meter alone, and nothing is of the GPUs.
    """

    evidence: NodeEvidence
    account: NodeAccount
    attribution: Attribution
    claims: tuple[RankClaim, ...] = ()
    gpus: tuple[GpuFold, ...] = ()
    meta: SampleMeta | None = None
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
    """The folds of a node's GPUs, made when a GPU is first seen."""

    request: FoldRequest
    claims: Sequence[RankClaim]
    marks_ns: Sequence[int]
    readings: dict[str, list[EnergyReading]]
    updates: dict[str, list[EnergyReading]]
    gpus: dict[str, SampledGpu] = field(default_factory=dict)
    rows: RowBlocks = field(default_factory=RowBlocks)
    energy: dict[str, GpuEnergyFold] = field(default_factory=dict)
    usage: dict[str, GpuUsageFold] = field(default_factory=dict)
    host: HostFold | None = None
    samples: int = 0
    onward: Onward = field(default_factory=Onward)

    def take(self, chunk: SampleChunk, shift_ns: int) -> None:
        """Add a chunk whose clock is `shift_ns` behind the node's, but what others had already."""
        chunk = self.onward.of(chunk, shift_ns)
        if any(gpu.uuid not in self.gpus for gpu in chunk.meta.gpus):
            for place in sorted({*chunk.gpu["gpu"].tolist()}):
                if chunk.meta.gpus[place].uuid not in self.gpus:
                    self._begin(chunk.meta.gpus[place], chunk.meta.hz)
        self._fold(self.rows.filled(chunk, shift_ns))
        self.samples += len(chunk.gpu)
        if self.host is None:
            evidence = self.request.evidence
            period_s = max(1 / chunk.meta.hz, HOST_PERIOD_S)
            self.host = HostFold(chunk.meta, period_s, evidence.begin_ns, evidence.end_ns)
        self.host.add(chunk, shift_ns)

    def _fold(self, blocks: Iterable[GpuBlock]) -> None:
        for uuid, at_ns, columns in blocks:
            self.energy[uuid].add(at_ns, columns)
            self.usage[uuid].add(at_ns, columns)

    def _begin(self, gpu: SampledGpu, hz: float) -> None:
        evidence = self.request.evidence
        period_s = 1 / hz
        self._begin_energy(gpu, period_s)
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
        self._fold(self.rows.rest())
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
        return tuple(map(self._result, self.gpus.values()))

    def _result(self, gpu: SampledGpu) -> GpuFold:
        evidence, energy = self.request.evidence, self.energy[gpu.uuid].result()
        held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
        account = GpuAccount(
            uuid=gpu.uuid,
            node=evidence.node,
            index=None if gpu.index == _UNKNOWN_INDEX else gpu.index,
            name=gpu.name,
            restart=evidence.restart,
            held_s=held_s,
            energy=energy.energy,
            waste=Share(unknown_gpu_s=held_s),
            counter_j=energy.counter_j,
            integral_j=energy.integral_j,
            power_limit_w=gpu.power_limit_w,
            mem_bytes=gpu.memory_bytes,
            refused=gpu.refused,
        )
        usage = self.usage.get(gpu.uuid)
        if usage is None:
            return GpuFold(gpu=gpu, energy=energy, account=account)
        account = usage.result(account)
        return GpuFold(gpu=gpu, energy=energy, account=account, useful_fracs=usage.useful_fracs)


def _is_split(lives: Sequence[RankLedger], uuid: str) -> bool:
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
        missing.append("no samples, only the start and end records of its ranks")
    left_out = folds.onward.left_out
    if left_out:
        missing.append(
            f"{left_out:,} samples out of order and left out: repeats of others, or written late"
        )
    gpus = folds.results()
    unknown = Energy.unknown_of_node(EnergyReason(kind=EnergyLack.SAMPLES))
    account = NodeAccount(
        node=evidence.node,
        restart=evidence.restart,
        started_s=evidence.started_s,
        ended_s=evidence.ended_s,
        gpu_energy=unknown,
        energy=unknown,
        samples=folds.samples,
        missing=tuple(missing),
    )
    return NodeFold(
        evidence=evidence,
        account=account if folds.host is None else folds.host.result(account),
        gpus=gpus,
        claims=claims,
        attribution=attribute({one.gpu.uuid: one.energy for one in gpus}, claims, window_ns),
        meta=evidence.spans[0].meta if evidence.spans else None,
        missing=tuple(missing),
    )


def _fold_file(folds: _Folds, span: SampleSpan) -> Iterator[str]:
    evidence = folds.request.evidence
    condition = FileCondition()
    lost: dict[str, None] = {}
    try:
        for chunk in folds.request.store.samples(span.path, condition):
            folds.take(chunk, shift_ns(chunk, evidence))
            lost |= dict.fromkeys(_lost_gpus(chunk))
    except (StorageFailed, ParseError) as error:
        line = error.message.split("\n", 1)[0]
        yield f"{span.path.name} is only partly readable: {line}"
    yield from first_of([*lost], _MOST_TOLD, "more GPUs were lost")
    if condition.lost_blocks:
        yield f"lost sample blocks: {condition.lost_blocks}"
    elif condition.lost_bytes and not condition.is_cut_short:
        yield f"{condition.lost_bytes:,} bytes of its samples are damaged"


def _lost_gpus(chunk: SampleChunk) -> Iterator[str]:
    for event in chunk.events:
        if event.get("event") != "gpu-lost":
            continue
        if "gpu" in event:
            yield f"the driver lost GPU {event['gpu']} during the job"
        else:
            which = event.get("index", event.get("uuid"))
            yield f"GPU {which} (driver's name) was not sampled: {event.get('why')}"


def _readings(
    evidence: NodeEvidence,
) -> tuple[dict[str, list[EnergyReading]], dict[str, list[EnergyReading]]]:
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


def gpu_accounts(fold: NodeFold) -> list[GpuAccount]:
    """The GPUs of a node."""
    idle_j = fold.attribution.idle_remainder_j
    return [
        one.account
        if one.account.energy.value_j is None
        else replace(one.account, idle_remainder_j=idle_j.get(one.gpu.uuid))
        for one in fold.gpus
    ]


def rank_accounts(fold: NodeFold) -> list[RankAccount]:
    """The ranks of a node; energy of a GPU that several had at once is split equally."""
    of_each = zip(fold.evidence.lives, fold.claims, fold.attribution.ranks, strict=True)
    fracs = {one.gpu.uuid: one.useful_fracs for one in fold.gpus}
    return [
        _rank(fold.evidence, life, claim, energy, _busy_frac(claim, fracs))
        for life, claim, energy in of_each
    ]


def _busy_frac(
    claim: RankClaim, fracs: Mapping[str, Mapping[tuple[int, int], float | None]]
) -> float | None:
    """The useful part of the time in which it had its GPUs, None where nothing is known of it."""
    span = claim.started_ns, claim.ended_ns
    of_gpus = (fracs[uuid].get(span) for uuid in claim.gpus if uuid in fracs)
    known = [frac for frac in of_gpus if frac is not None]
    return statistics.fmean(known) if known else None


def _rank(
    evidence: NodeEvidence,
    life: RankLedger,
    claim: RankClaim,
    energy: Energy,
    busy_frac: float | None,
) -> RankAccount:
    start, end = life.start, life.end or RankEnd(at=life.start.at)
    offset_ns, is_running = evidence.realtime_offset_ns, claim.ended_by == "running"
    return RankAccount(
        rank=start.rank,
        node=evidence.node,
        restart=evidence.restart,
        gpus=claim.gpus,
        claim=start.claim,
        started_s=(claim.started_ns + offset_ns) / 1e9,
        ended_s=None if is_running else (claim.ended_ns + offset_ns) / 1e9,
        ended_by=claim.ended_by,
        exit_code=end.exit_code,
        energy=energy,
        busy_frac=busy_frac,
        cpu_s=_cpu_s_of(end),
        max_rss_bytes=end.max_rss_bytes,
        read_bytes=end.read_bytes,
        write_bytes=end.write_bytes,
    )


def conservation(folds: Sequence[NodeFold]) -> Conservation:
    """Σ ranks + idle remainder against Σ GPUs, over all nodes."""
    parts = [fold.attribution.conservation for fold in folds]
    return Conservation(
        ranks_j=math.fsum(one.ranks_j for one in parts),
        idle_remainder_j=math.fsum(one.idle_remainder_j for one in parts),
        gpus_j=math.fsum(one.gpus_j for one in parts),
    )


def node_account(fold: NodeFold, gpus: Sequence[GpuAccount], site: EnergySite) -> NodeAccount:
    """The account of a folded node; `gpus` are its own, in this incarnation."""
    gpu = sum_of_boards(one.energy for one in gpus)
    cpu_s = _cpu_s(fold)
    return replace(
        fold.account,
        gpu_energy=gpu,
        energy=_energy(fold, gpu if gpus else None, cpu_s, site),
        cpus=None if fold.meta is None else fold.meta.cpus,
        cpu_s=cpu_s,
    )


def _cpu_s(fold: NodeFold) -> float | None:
    """The job's CPU seconds by its cgroup, else those of its ranks, None where one has no end."""
    if fold.account.cpu_s is not None:
        return fold.account.cpu_s
    lives = fold.evidence.lives
    return whole_sum(_cpu_s_of(life.end) for life in lives) if lives else None


def _cpu_s_of(end: RankEnd | None) -> float | None:
    if end is None or end.cpu_user_s is None:
        return None
    return end.cpu_user_s + (end.cpu_system_s or 0.0)


def _energy(fold: NodeFold, gpu: Energy | None, cpu_s: float | None, site: EnergySite) -> Energy:
    """The node's energy: of a meter, with the GPUs' where it lacks them; else modelled."""
    metered = metered_energy(fold.account.energy, gpu) or fold.account.energy
    if metered.value_j is not None:
        return metered
    reasons = metered.reasons
    absent = tuple(key for key in MODEL_KEYS if getattr(site, key) is None)
    if fold.meta is not None and fold.meta.exclusive is False:
        reasons = (*reasons, EnergyReason(kind=EnergyLack.OWN_SHARE))
    elif absent:
        reasons = (*reasons, EnergyReason(kind=EnergyLack.SITE_KEYS, keys=absent))
    elif gpu is not None and gpu.value_j is None:
        reasons = (EnergyReason(text=f"GPUs unknown: {gpu.because}"),)
    else:
        return _modelled(fold, gpu, cpu_s, site)
    return Energy.unknown_of_node(*reasons)


def metered_energy(meter: Energy, gpu: Energy | None) -> Energy | None:
    """What a meter says of a whole node or all of them, None where there is none.

    A meter of the CPUs lacks the GPUs, whose energy is added; one of the node or of modules has
    them, and a GPU's figure that is its module's has the CPUs: neither is added to the other.
    """
    if meter.value_j is None:
        return None
    if meter.scope in ("node", "module") or gpu is None:
        return replace(meter, scope="node")
    if gpu.value_j is None:
        text = f"its CPUs took {meter.value_j:.0f} J, but its GPUs' energy is unknown"
        return Energy.unknown_of_node(EnergyReason(text=text))
    if gpu.scope == "module":
        words = "the GPUs' modules, CPUs included"
        return replace(gpu, scope="node", because=words)
    words = f"{meter.because} + {_gpus(gpu)}; without NICs, disks, fans and losses"
    return replace(sum_of_boards([meter, gpu], because=words), scope="node")


def _gpus(gpu: Energy | None) -> str:
    return "GPUs" if gpu is None or gpu.scope != SPLIT_GPU else "GPUs (all MIG instances)"


def _modelled(fold: NodeFold, gpu: Energy | None, cpu_s: float | None, site: EnergySite) -> Energy:
    evidence = fold.evidence
    held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
    busy_s = 0.0 if cpu_s is None or (gpu is not None and gpu.scope == "module") else cpu_s
    idle_j = (site.node_idle_w or 0.0) * held_s
    words = f"node_idle_w × time + cpu_core_w × CPU seconds + {_gpus(gpu)}"
    return Energy(
        value_j=(0.0 if gpu is None else gpu.value_j or 0.0)
        + idle_j
        + (site.cpu_core_w or 0.0) * busy_s,
        source=EnergySource.MODELLED,
        coverage_frac=1.0 if gpu is None else gpu.coverage_frac,
        scope="node",
        because=words if cpu_s is not None else f"{words}; CPU seconds unknown",
    )


def node_energy(nodes: Sequence[NodeAccount]) -> Energy:
    """The energy of all nodes, for as long as they were held; not known where one's is not."""
    for one in nodes:
        if one.energy.value_j is None:
            return one.energy
    parts = [Part(one.energy, one.node, (one.span_s or 0.0) + one.unseen_s) for one in nodes]
    return replace(sum_of_parts(parts), scope="node")


def with_slurms(
    energy: Energy, gpu: Energy | None, told: SlurmEnergy, metas: Iterable[SampleMeta | None]
) -> Energy:
    """The nodes' energy where nothing of hpckit's told it: Slurm's, where that is the job's."""
    if told.value_j is None or told.plugin is None:
        return Energy.unknown_of_node(*reasons_of(energy), *told.reasons)
    alone = {None if meta is None else meta.exclusive for meta in metas}
    is_exclusive = False if False in alone else None if None in alone else True
    found = from_slurm(told.value_j, told.plugin, is_exclusive=is_exclusive)
    return metered_energy(found, gpu) or found


def twice_named(gpus: Sequence[GpuAccount]) -> list[str]:
    """A sentence for the GPUs that count on the same nodes of one incarnation, of many the first.

    A node under two names has all of its GPUs twice: that is one thing to say, not eight.
    """
    nodes: dict[tuple[int, str], dict[str, None]] = {}
    for gpu in gpus:
        nodes.setdefault((gpu.restart, gpu.uuid), {})[gpu.node] = None
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for (restart, uuid), names in nodes.items():
        if len(names) > 1:
            alike.setdefault((restart, tuple(names)), []).append(uuid)
    told = [*alike.items()]
    sentences = [_claim_sentence(uuids, *where) for where, uuids in told[:_MOST_NAMED]]
    rest = sum(len(uuids) for _, uuids in told[_MOST_NAMED:])
    return [*sentences, f"and {rest} more GPUs likewise"] if rest else sentences


def _claim_sentence(uuids: Sequence[str], restart: int, names: Sequence[str]) -> str:
    where = f"reported by {len(names)} nodes ({', '.join(names[:_MOST_NAMED])})"
    where += f" in restart {restart}" if restart else ""
    own = "one GPU seen twice, or a UUID that is not unique"
    if len(uuids) == 1:
        return f"GPU {uuids[0]} is {where} and counted on each: {own}"
    return f"{len(uuids)} GPUs ({uuids[0]}, …) are {where} and counted on each: {own}"


def gpus_refused(folds: Sequence[NodeFold], asked: int | None) -> dict[str, str]:
    """The reason by node, of nodes on which no GPU was seen; none for a job that asked for none."""
    if asked == 0:
        return {}
    found = {fold.evidence.node: reason for fold in folds if (reason := _refusal(fold))}
    seen = {fold.evidence.node for fold in folds if fold.gpus}
    return {node: reason for node, reason in found.items() if node not in seen}


def refusal_words(refused: dict[str, str]) -> str:
    """`NVML DriverNotLoaded on n1, n2`; the reason of the most nodes where they differ."""
    if not refused:
        return ""
    reasons = list(refused.values())
    reason = max(dict.fromkeys(reasons), key=reasons.count)
    return f"{reason} on {named_nodes([node for node in refused if refused[node] == reason])}"


def named_nodes(nodes: Sequence[str]) -> str:
    """`n1, n2, n3, n4 and 2 more nodes`."""
    more = f" and {len(nodes) - _MOST_NAMED} more nodes" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(nodes[:_MOST_NAMED]) + more


def _refusal(fold: NodeFold) -> str | None:
    """NVML's error by its name, or a sentence of the sampler's."""
    told = None if fold.meta is None else fold.meta.host_refused.get("nvidia")
    ranks = (life.start.nvml_refused for life in fold.evidence.lives)
    reason = told or next(filter(None, ranks), None)
    if reason is None or fold.gpus:
        return None
    return reason if " " in reason else f"NVML {reason}"
