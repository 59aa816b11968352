"""What was folded of each node, put together as the accounts of GPUs, ranks, nodes and runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpckit.app.node_fold import GpuFold, NodeFold, rank_window
from hpckit.measure.gpu_energy import GpuEnergy
from hpckit.measure.sums import energy_sum
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
from hpckit.model.ledger import RankLedger

_USAGE = frozenset(one.name for one in dataclasses.fields(GpuUsage))
_TAKEN = tuple(
    one.name
    for one in dataclasses.fields(GpuAccount)
    if one.name in _USAGE and one.name not in ("held_s", "waste", "throttling", "refused")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """A GPU's energy dealt out: to lives (by their place in the evidence), and to nobody."""

    lives_j: dict[int, float]
    nobody_j: float


def gpu_accounts(fold: NodeFold) -> list[GpuAccount]:
    """The GPUs of a node."""
    evidence = fold.evidence
    held_s = (evidence.end_ns - evidence.begin_ns) / 1e9
    return [_gpu(fold, one, held_s) for one in fold.gpus]


def _gpu(fold: NodeFold, one: GpuFold, held_s: float) -> GpuAccount:
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
        energy=_labelled(energy, mig=gpu.mig),
        waste=Share(unknown_gpu_s=held_s) if usage is None else usage.waste,
        throttling=Throttling() if usage is None else usage.throttling,
        idle_remainder_j=None if energy.value_j is None else _split(fold, one).nobody_j,
        counter_j=one.energy.counter_j,
        integral_j=one.energy.integral_j,
        power_limit_w=gpu.power_limit_w,
        mem_bytes=gpu.memory_bytes,
        refused=refused,
        **taken,
    )


def _labelled(energy: Energy, *, mig: bool) -> Energy:
    """A MIG slice has no counter of its own."""
    if not mig or energy.value_j is None:
        return energy
    words = [part for part in (energy.because, "of the whole GPU, which is split by MIG") if part]
    return dataclasses.replace(energy, because="; ".join(words))


def _split(fold: NodeFold, one: GpuFold) -> _Split:
    """Deal a GPU's energy out: at each moment equally to the ranks that had it."""
    evidence, energy = fold.evidence, one.energy
    windows = [
        (place, rank_window(evidence, life))
        for place, life in enumerate(evidence.lives)
        if any(reading.uuid == one.gpu.uuid for reading in life.start.gpus)
    ]
    lives_j, nobody_j = dict.fromkeys((place for place, _ in windows), 0.0), 0.0
    marks, joules = energy.marks_ns.tolist(), energy.joules.tolist()
    for begin, end, before_j, after_j in zip(marks, marks[1:], joules, joules[1:], strict=False):
        owners = [place for place, (from_ns, to_ns) in windows if from_ns <= begin and end <= to_ns]
        for place in owners:
            lives_j[place] += (after_j - before_j) / len(owners)
        nobody_j += 0.0 if owners else after_j - before_j
    return _Split(lives_j=lives_j, nobody_j=nobody_j)


def rank_accounts(fold: NodeFold, *, is_running: bool) -> list[RankAccount]:
    """The ranks of a node; energy of a GPU that several had at once is split equally."""
    splits = {one.gpu.uuid: (one.energy, _split(fold, one)) for one in fold.gpus}
    return [
        _rank(fold, place, life, splits, is_running=is_running)
        for place, life in enumerate(fold.evidence.lives)
    ]


def _rank(
    fold: NodeFold,
    place: int,
    life: RankLedger,
    splits: dict[str, tuple[GpuEnergy, _Split]],
    *,
    is_running: bool,
) -> RankAccount:
    evidence, start, end = fold.evidence, life.start, life.end
    begin_ns, end_ns = rank_window(evidence, life)
    uuids = tuple(dict.fromkeys(one.uuid for one in start.gpus))
    parts = [_part(splits[one], place, begin_ns, end_ns) for one in uuids if one in splits]
    ended_by = "ledger" if end is not None else "running" if is_running else "sample"
    cpu = (
        None if end is None or end.cpu_user_s is None else end.cpu_user_s + (end.cpu_system_s or 0)
    )
    return RankAccount(
        rank=start.rank,
        node=evidence.node,
        restart=evidence.restart,
        gpus=uuids,
        claim=start.claim,
        started_s=(begin_ns + evidence.realtime_offset_ns) / 1e9,
        ended_s=None if ended_by == "running" else (end_ns + evidence.realtime_offset_ns) / 1e9,
        ended_by=ended_by,
        exit_code=None if end is None else end.exit_code,
        energy=_rank_energy(parts, start.claim),
        cpu_s=cpu,
        max_rss_bytes=None if end is None else end.max_rss_bytes,
        read_bytes=None if end is None else end.read_bytes,
        write_bytes=None if end is None else end.write_bytes,
    )


def _rank_energy(parts: Sequence[Energy], claim: str) -> Energy:
    if not parts:
        why = "it has no GPU" if claim == "none" else "nothing is known of its GPUs"
        return Energy(value_j=None, because=why)
    return energy_sum(parts, [1.0] * len(parts))


def _part(of: tuple[GpuEnergy, _Split], place: int, begin_ns: int, end_ns: int) -> Energy:
    """What a rank has of one GPU, its ± in proportion."""
    energy, split = of
    whole = energy.energy_between(begin_ns, end_ns)
    part_j = split.lives_j.get(place, 0.0)
    if not whole.value_j:
        return whole
    share = min(1.0, part_j / whole.value_j)
    half_j = None if whole.plus_minus_j is None else whole.plus_minus_j * share
    return dataclasses.replace(whole, value_j=max(0.0, part_j), plus_minus_j=half_j)


def conservation(gpus: Sequence[GpuAccount], ranks: Sequence[RankAccount]) -> Conservation:
    """Σ ranks + idle remainder against Σ GPUs."""
    return Conservation(
        ranks_j=math.fsum(one.energy.value_j or 0.0 for one in ranks),
        idle_remainder_j=math.fsum(one.idle_remainder_j or 0.0 for one in gpus),
        gpus_j=math.fsum(one.energy.value_j or 0.0 for one in gpus),
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
        gpu_energy=energy_sum([one.energy for one in held], [one.held_s for one in held]),
        gpu_s=math.fsum(one.held_s for one in held),
        is_lost=is_lost,
        because="the job was requeued and began again; what a checkpoint kept is not known"
        if is_lost
        else "",
    )
