"""The time and the GPUs that a job held and of which nothing was measured: they are counted too.

A node is held for as long as its incarnation: from Slurm's start to Slurm's end where these are of
it (those of the last are known), and from the first to the last evidence of any of its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from hpckit.measure.energy_sum import Part, sum_of_boards, sum_of_parts
from hpckit.model.account import Energy, GpuAccount, Incarnation, NodeAccount, Share
from hpckit.model.energy_reason import EnergyReason
from hpckit.units import format_duration

if TYPE_CHECKING:
    from hpckit.app.accounts import NodeEvidence
    from hpckit.app.node_fold import NodeFold
    from hpckit.app.report import JobFacts

GRACE_S: Final = 5.0
"""At each end of a node's evidence so much is not counted as held: Slurm starts the script, this
the sampler and the ranks; Slurm's times are whole seconds, and its clock is another's."""
RUNNING_GRACE_S: Final = 60.0
"""… at the end of a job that runs: samplers write every few seconds, and a shared file system shows
that later."""


class Holding(Struct, frozen=True, kw_only=True):
    """From when to when an incarnation held its nodes, seconds since the epoch.

    `is_running` is whether there may be more of it.
    """

    started_s: float
    ended_s: float
    is_running: bool = False

    @property
    def held_s(self) -> float:
        """For how long."""
        return self.ended_s - self.started_s

    def unseen_s(self, evidence: NodeEvidence) -> float:
        """For how long a node was held before its first evidence and after its last."""
        before_s = evidence.started_s - self.started_s
        after_s = self.ended_s - evidence.ended_s
        before_s = before_s if before_s > GRACE_S else 0.0
        return before_s + (after_s if after_s > self._end_grace_s else 0.0)

    @property
    def shows_lost(self) -> bool:
        """Whether a node of which there is nothing by now is lost."""
        return not self.is_running or self.held_s > RUNNING_GRACE_S

    @property
    def _end_grace_s(self) -> float:
        return RUNNING_GRACE_S if self.is_running else GRACE_S


def holdings(evidence: Sequence[NodeEvidence], facts: JobFacts) -> dict[int, Holding]:
    """By incarnation. Slurm's times are of the last one, if that left accounts at all."""
    found: dict[int, Holding] = {}
    for one in evidence:
        known = found.get(one.restart, Holding(started_s=one.started_s, ended_s=one.ended_s))
        started_s = min(known.started_s, one.started_s)
        found[one.restart] = Holding(started_s=started_s, ended_s=max(known.ended_s, one.ended_s))
    last = max(found)
    is_over = later_run_s(found, facts) is not None
    found[last] = replace(found[last], is_running=facts.is_running and not is_over)
    if facts.started_s is not None and facts.started_s < found[last].ended_s:
        found[last] = _as_slurm_has_it(found[last], facts.started_s, facts)
    return found


def later_run_s(held: Mapping[int, Holding], facts: JobFacts) -> float | None:
    """How long after all evidence Slurm began a run that left none; None where it did not."""
    if facts.started_s is None:
        return None
    after_s = facts.started_s - max(one.ended_s for one in held.values())
    return after_s if after_s > GRACE_S else None


def _as_slurm_has_it(found: Holding, started_s: float, facts: JobFacts) -> Holding:
    is_over = facts.ended_s is not None and not facts.is_running
    ended_s = facts.ended_s if facts.ended_s is not None and is_over else found.ended_s
    return replace(
        found, started_s=min(found.started_s, started_s), ended_s=max(found.ended_s, ended_s)
    )


# --- time of nodes that are there ----------------------------------------------------------------


def with_unseen_time(
    gpus: Sequence[GpuAccount], node: NodeAccount, fold: NodeFold, holding: Holding
) -> tuple[list[GpuAccount], NodeAccount]:
    """A node and its GPUs, for all of the time that they were held."""
    evidence = fold.evidence
    unseen_s = holding.unseen_s(evidence)
    if not unseen_s:
        return list(gpus), node
    held_s = evidence.ended_s - evidence.started_s + unseen_s
    held = [_gpu_longer(one, unseen_s) for one in gpus]
    return held, replace(
        node,
        gpu_energy=sum_of_boards(one.energy for one in held),
        energy=_covered(node.energy, 1 - unseen_s / held_s),
        unseen_s=unseen_s,
        missing=(*node.missing, _of_time(unseen_s, held_s)),
    )


def _gpu_longer(gpu: GpuAccount, unseen_s: float) -> GpuAccount:
    held_s = gpu.held_s + unseen_s
    unknown_s = gpu.waste.unknown_gpu_s + unseen_s
    return replace(
        gpu,
        held_s=held_s,
        energy=_covered(gpu.energy, gpu.held_s / held_s),
        waste=replace(gpu.waste, unknown_gpu_s=unknown_s),
    )


def _covered(energy: Energy, seen_frac: float) -> Energy:
    """An energy of which this part of the time alone was seen."""
    if energy.value_j is None:
        return energy
    seen = f"{100 * seen_frac:.0f} % of the time that it was held lies between the first and the"
    words = [part for part in (energy.because, f"{seen} last evidence") if part]
    covered = energy.coverage_frac * seen_frac
    return replace(energy, coverage_frac=covered, because="; ".join(words))


# --- GPUs and nodes that are not there -----------------------------------------------------------


def with_unseen_gpus(
    nodes: Sequence[NodeAccount], folds: Sequence[NodeFold], facts: JobFacts, holding: Holding
) -> tuple[NodeAccount, ...]:
    """The nodes with how many of their GPUs no account names, and those that left no account.

    `holding` is that of the last incarnation, whose nodes Slurm names.
    """
    told = [_with_unseen(*both, facts) for both in zip(nodes, folds, strict=True)]
    return (*told, *_absent(told, facts, holding))


def _with_unseen(node: NodeAccount, fold: NodeFold, facts: JobFacts) -> NodeAccount:
    """As the job asked for GPUs by the node: MIG devices of one GPU are asked for one by one."""
    asked, seen = facts.gpus_per_node, len(fold.gpus)
    is_known = asked is not None and facts.nodes and not facts.is_running and not _is_split(fold)
    if asked is None or not is_known or asked <= seen:
        return node
    unseen = asked - seen
    return replace(
        node, unseen_gpus=unseen, missing=(*node.missing, _of_gpus(unseen, facts.gpus_per_node))
    )


def _is_split(fold: NodeFold) -> bool:
    shown = [life.start.visible or "" for life in fold.evidence.lives]
    return any(one.gpu.mig for one in fold.gpus) or any("MIG" in one for one in shown)


def _absent(
    nodes: Sequence[NodeAccount], facts: JobFacts, holding: Holding
) -> Iterator[NodeAccount]:
    last = max(node.restart for node in nodes)
    here = {node.node for node in nodes if node.restart == last}
    absent = [name for name in facts.nodes if name not in here]
    # Where nodes call themselves otherwise than Slurm does, only their number tells.
    absent = absent[: max(0, len(facts.nodes) - len(here))] if holding.shows_lost else []
    because = "neither ranks nor a sampler wrote there"
    for name in absent:
        yield NodeAccount(
            node=name,
            restart=last,
            started_s=None,
            ended_s=None,
            gpu_energy=Energy(value_j=None, because=because),
            energy=Energy.unknown_of_node(EnergyReason(text=f"that of {name}: {because}")),
            unseen_gpus=facts.gpus_per_node or 0,
            missing=(because,),
        )


def unseen_words(nodes: Sequence[NodeAccount], facts: JobFacts) -> Iterator[tuple[str, str]]:
    """Nodes that left accounts, and of how much time and how many GPUs nothing is known."""
    for node in nodes:
        if node.unseen_s:
            yield node.node, _of_time(node.unseen_s, (node.span_s or 0.0) + node.unseen_s)
        if node.unseen_gpus and node.started_s is not None:
            yield node.node, _of_gpus(node.unseen_gpus, facts.gpus_per_node)


def _of_time(unseen_s: float, held_s: float) -> str:
    times = f"{format_duration(unseen_s)} of the {format_duration(held_s)} that it was held"
    return f"nothing is known of {times}"


def _of_gpus(unseen: int, asked: int | None) -> str:
    return f"nothing is known of {unseen} of the {asked} GPUs that the job asked for there"


# --- sums ----------------------------------------------------------------------------------------


def unseen_share(nodes: Sequence[NodeAccount], held: Mapping[int, Holding]) -> Share:
    """The GPU-seconds of the GPUs that no account names."""
    seconds = (node.unseen_gpus * held[node.restart].held_s for node in nodes)
    return Share(unknown_gpu_s=math.fsum(seconds))


def energy_of(
    gpus: Sequence[GpuAccount], nodes: Sequence[NodeAccount], held: Mapping[int, Holding]
) -> Energy:
    """The energy of GPUs, and of those that no account names: they count as not measured."""
    parts = [Part(one.energy, one.uuid, one.held_s) for one in gpus]
    none = Energy(value_j=None, because="no rank and no sampler names it")
    unseen = (
        Part(none, f"{node.node} {place}", held[node.restart].held_s)
        for node in nodes
        for place in range(node.unseen_gpus)
    )
    return sum_of_parts([*parts, *unseen])


def held_run(
    run: Incarnation,
    gpus: Sequence[GpuAccount],
    nodes: Sequence[NodeAccount],
    held: Mapping[int, Holding],
) -> Incarnation:
    """An incarnation with all of its time and its GPUs."""
    mine = [node for node in nodes if node.restart == run.restart]
    unseen_s = unseen_share(mine, held).total_gpu_s
    return replace(
        run,
        started_s=held[run.restart].started_s,
        ended_s=held[run.restart].ended_s,
        gpu_energy=energy_of([one for one in gpus if one.restart == run.restart], mine, held),
        gpu_s=run.gpu_s + unseen_s,
    )
