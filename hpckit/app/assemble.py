"""What was folded of each node, put together as the accounts of GPUs, ranks, nodes and runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hpckit.app.accounts import NodeEvidence
from hpckit.app.node_fold import GpuFold, NodeFold
from hpckit.measure.attribution import RankClaim
from hpckit.measure.energy_sum import sum_of_gpus
from hpckit.measure.usage import GpuUsage
from hpckit.model.account import (
    Conservation,
    Energy,
    GpuAccount,
    Incarnation,
    RankAccount,
    Share,
    Throttling,
)
from hpckit.model.ledger import RankEnd, RankLedger

_USAGE = frozenset(GpuUsage.__struct_fields__)
_TAKEN = tuple(
    name
    for name in GpuAccount.__struct_fields__
    if name in _USAGE and name not in ("held_s", "waste", "throttling", "refused")
)


def gpu_accounts(fold: NodeFold) -> list[GpuAccount]:
    """The GPUs of a node."""
    evidence, idle_j = fold.evidence, fold.attribution.idle_remainder_j
    held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
    return [_gpu(fold, one, held_s, idle_j.get(one.gpu.uuid)) for one in fold.gpus]


def _gpu(fold: NodeFold, one: GpuFold, held_s: float, idle_j: float | None) -> GpuAccount:
    usage, gpu = one.usage, one.gpu
    taken: dict[str, Any] = {} if usage is None else {name: getattr(usage, name) for name in _TAKEN}
    refused = dict(gpu.refused) | ({} if usage is None else dict(usage.refused))
    energy = one.energy.energy
    return GpuAccount(
        uuid=gpu.uuid,
        node=fold.evidence.node,
        index=one.index,
        name=gpu.name,
        restart=fold.evidence.restart,
        held_s=held_s,
        energy=energy,
        waste=Share(unknown_gpu_s=held_s) if usage is None else usage.waste,
        throttling=Throttling() if usage is None else usage.throttling,
        idle_remainder_j=None if energy.value_j is None else idle_j,
        counter_j=one.energy.counter_j,
        integral_j=one.energy.integral_j,
        power_limit_w=gpu.power_limit_w,
        mem_bytes=gpu.memory_bytes,
        refused=refused,
        **taken,
    )


def rank_accounts(fold: NodeFold) -> list[RankAccount]:
    """The ranks of a node; energy of a GPU that several had at once is split equally."""
    of_each = zip(fold.evidence.lives, fold.claims, fold.attribution.ranks, strict=True)
    usages = {one.gpu.uuid: one.usage for one in fold.gpus if one.usage is not None}
    return [
        _rank(fold.evidence, life, claim, energy, _busy_frac(claim, usages))
        for life, claim, energy in of_each
    ]


def _busy_frac(claim: RankClaim, usages: Mapping[str, GpuUsage]) -> float | None:
    """The useful part of the time in which it had its GPUs, None where nothing is known of it."""
    span = claim.started_ns, claim.ended_ns
    fracs = [usages[uuid].useful_fracs.get(span) for uuid in claim.gpus if uuid in usages]
    known = [frac for frac in fracs if frac is not None]
    return statistics.fmean(known) if known else None


def _rank(
    evidence: NodeEvidence,
    life: RankLedger,
    claim: RankClaim,
    energy: Energy,
    busy_frac: float | None,
) -> RankAccount:
    start, end = life.start, life.end or RankEnd(at=life.start.at)
    cpu_s = None if end.cpu_user_s is None else end.cpu_user_s + (end.cpu_system_s or 0.0)
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
        cpu_s=cpu_s,
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


def incarnations(folds: Sequence[NodeFold], gpus: Sequence[GpuAccount]) -> list[Incarnation]:
    """The runs of the job, in order; all but the last began again."""
    restarts = sorted({fold.evidence.restart for fold in folds})
    return [_incarnation(restart, restarts[-1], folds, gpus) for restart in restarts]


def _incarnation(
    restart: int, last: int, folds: Sequence[NodeFold], gpus: Sequence[GpuAccount]
) -> Incarnation:
    nodes = [fold.evidence for fold in folds if fold.evidence.restart == restart]
    held = [one for one in gpus if one.restart == restart]
    is_lost = restart != last
    return Incarnation(
        restart=restart,
        started_s=min(one.started_s for one in nodes),
        ended_s=max(one.ended_s for one in nodes),
        gpu_energy=sum_of_gpus(held),
        gpu_s=math.fsum(one.held_s for one in held),
        is_lost=is_lost,
        because="the job was requeued; what a checkpoint kept of it is not known"
        if is_lost
        else "",
    )
