"""The report of a job: what its ranks and samplers left, folded and put together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from hpckit.account.energy import cost_of, share_sum
from hpckit.account.energy_sums import Part, sum_of_boards, sum_of_parts
from hpckit.account.fold import (
    FoldRequest,
    NodeFold,
    conservation,
    fold_node,
    gpu_accounts,
    gpus_refused,
    named_nodes,
    node_account,
    node_energy,
    rank_accounts,
    refusal_words,
    twice_named,
    with_slurms,
)
from hpckit.account.gather import Gathered, NodeEvidence, SampleStore
from hpckit.account.rows import points_for
from hpckit.account.rules import report_findings
from hpckit.account.stragglers import Straggler, Surroundings, stragglers, with_behind
from hpckit.account.values import (
    Energy,
    EnergyReason,
    GpuAccount,
    Incarnation,
    JobEnergy,
    JobReport,
    NodeAccount,
    ReportedJob,
    Share,
    SlurmEnergy,
)
from hpckit.core.errors import HpckitError
from hpckit.core.quantities import whole_sum
from hpckit.core.units import format_duration, format_indices
from hpckit.spec.energy_site import EnergySite

if TYPE_CHECKING:
    from hpckit.account.store import FoundAccounts


# A node is held for as long as its incarnation: from Slurm's start to Slurm's end where these are
# of it (those of the last are known), and from the first to the last evidence of any of its nodes.

_NOBODY_WROTE: Final = "no rank or sampler wrote"
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
        grace_s = RUNNING_GRACE_S if self.is_running else GRACE_S
        return before_s + (after_s if after_s > grace_s else 0.0)

    @property
    def shows_lost(self) -> bool:
        """Whether a node of which there is nothing by now is lost."""
        return not self.is_running or self.held_s > RUNNING_GRACE_S


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
        ended_s = None if facts.is_running else facts.ended_s
        found[last] = replace(
            found[last],
            started_s=min(found[last].started_s, facts.started_s),
            ended_s=max(found[last].ended_s, ended_s or found[last].ended_s),
        )
    return found


def later_run_s(held: Mapping[int, Holding], facts: JobFacts) -> float | None:
    """How long after all evidence Slurm began a run that left none; None where it did not."""
    if facts.started_s is None:
        return None
    after_s = facts.started_s - max(one.ended_s for one in held.values())
    return after_s if after_s > GRACE_S else None


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
    if energy.value_j is None:
        return energy
    seen = f"records cover {100 * seen_frac:.0f} % of the time it was held"
    words = [part for part in (energy.because, seen) if part]
    covered = energy.coverage_frac * seen_frac
    return replace(energy, coverage_frac=covered, because="; ".join(words))


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
    shown = [life.start.visible or "" for life in fold.evidence.lives]
    is_split = any(one.gpu.mig for one in fold.gpus) or any("MIG" in one for one in shown)
    if asked is None or asked <= seen or not facts.nodes or facts.is_running or is_split:
        return node
    unseen = asked - seen
    return replace(
        node, unseen_gpus=unseen, missing=(*node.missing, _of_gpus(unseen, facts.gpus_per_node))
    )


def _absent(
    nodes: Sequence[NodeAccount], facts: JobFacts, holding: Holding
) -> Iterator[NodeAccount]:
    last = max(node.restart for node in nodes)
    here = {node.node for node in nodes if node.restart == last}
    absent = [name for name in facts.nodes if name not in here]
    # Where nodes call themselves otherwise than Slurm does, only their number tells.
    absent = absent[: max(0, len(facts.nodes) - len(here))] if holding.shows_lost else []
    because = f"{_NOBODY_WROTE} there"
    for name in absent:
        yield NodeAccount(
            node=name,
            restart=last,
            started_s=None,
            ended_s=None,
            gpu_energy=Energy(value_j=None, because=because),
            energy=Energy.unknown_of_node(EnergyReason(text=f"{name}: {because}")),
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
    return f"no data for {format_duration(unseen_s)} of the {format_duration(held_s)} it was held"


def _of_gpus(unseen: int, asked: int | None) -> str:
    return f"no data on {unseen} of the {asked} GPUs requested there"


def unseen_share(nodes: Sequence[NodeAccount], held: Mapping[int, Holding]) -> Share:
    """The GPU-seconds of the GPUs that no account names."""
    seconds = (node.unseen_gpus * held[node.restart].held_s for node in nodes)
    return Share(unknown_gpu_s=math.fsum(seconds))


def energy_of(
    gpus: Sequence[GpuAccount], nodes: Sequence[NodeAccount], held: Mapping[int, Holding]
) -> Energy:
    """The energy of GPUs, and of those that no account names: they count as not measured."""
    parts = [Part(one.energy, one.uuid, one.held_s) for one in gpus]
    none = Energy(value_j=None, because="no rank or sampler reported it")
    unseen = (
        Part(none, f"{node.node} {place}", held[node.restart].held_s)
        for node in nodes
        for place in range(node.unseen_gpus)
    )
    return sum_of_parts([*parts, *unseen])


def incarnations(
    gpus: Sequence[GpuAccount], nodes: Sequence[NodeAccount], held: Mapping[int, Holding]
) -> Iterator[Incarnation]:
    """The runs of the job, in order, each with all of its time; all but the last began again."""
    lost = "the job was requeued; how much a checkpoint saved is unknown"
    for restart, holding in sorted(held.items()):
        its_gpus = [gpu for gpu in gpus if gpu.restart == restart]
        its_nodes = [node for node in nodes if node.restart == restart]
        is_lost = restart != max(held)
        yield Incarnation(
            restart=restart,
            started_s=holding.started_s,
            ended_s=holding.ended_s,
            gpu_energy=energy_of(its_gpus, its_nodes, held),
            gpu_s=math.fsum(gpu.held_s for gpu in its_gpus)
            + unseen_share(its_nodes, held).total_gpu_s,
            is_lost=is_lost,
            because=lost if is_lost else "",
        )


FoldAll = Callable[[Callable[[FoldRequest], NodeFold], Sequence[FoldRequest]], Iterable[NodeFold]]
"""Gives the folds in the order of the requests, computed here or by other processes."""


class JobFacts(Struct, frozen=True, kw_only=True):
    """What is known of a job besides its accounts; all of it may be missing.

    `nodes` are those of the allocation, `gpus_per_node` are the GPUs that the job file asks for on
    each, `is_running` is whether there will be more of it. `missing` has a sentence for each thing
    that is not known of it because a file is damaged.
    """

    job_id: str | None = None
    name: str | None = None
    array_task: int | None = None
    state: str | None = None
    exit_code: int | None = None
    folder: str | None = None
    time_limit_s: float | None = None
    gpus_asked: int | None = None
    started_s: float | None = None
    ended_s: float | None = None
    nodes: tuple[str, ...] = ()
    gpus_per_node: int | None = None
    is_running: bool = False
    placement: str | None = None
    missing: tuple[str, ...] = ()


class ReportTools(Struct, frozen=True, kw_only=True):
    """What a report is made with.

    `progress` hears of each node that is done, and of how many; `slurm_energy` is asked where
    nothing else tells the nodes' energy of an ended job.
    """

    store: SampleStore
    fold_all: FoldAll = map
    progress: Callable[[int, int], None] | None = None
    slurm_energy: Callable[[], SlurmEnergy] | None = None


def report_of(
    gathered: Gathered,
    tools: ReportTools,
    facts: JobFacts,
    site: EnergySite,
    *,
    curves: bool = False,
) -> JobReport:
    """The report. Raises HpckitError where there are no accounts that can be read."""
    evidence = gathered.evidence
    empty = () if facts.is_running else gathered.empty
    missing = (*gathered.unread, *empty, *facts.missing)
    if not evidence:
        raise _nothing_to_report(missing)
    started_s, ended_s = _window(evidence, facts)
    held = holdings(evidence, facts)
    folds = list(_folded(evidence, tools, held, started_s, curves=curves))
    gpus, nodes = _held(folds, facts, site, held)
    found_behind, unseen = _behind(
        gathered.found, tools.store, gpus, _surroundings(evidence, nodes)
    )
    ranks = [one for fold in folds for one in rank_accounts(fold)]
    ranks.sort(key=lambda one: (one.restart, one.rank, one.started_s))
    runs = tuple(incarnations(gpus, nodes, held))
    job = _job(facts, folds, gpus, nodes)
    gpu = energy_of(gpus, nodes, held) if gpus else _no_gpu(job)
    energy = _with_slurms(_energy(folds, gpu, runs, node_energy(nodes)), facts, tools, folds)
    report = JobReport(
        job=job,
        started_s=started_s,
        ended_s=ended_s,
        energy=energy,
        cost=cost_of(energy.node, energy.gpu, site),
        waste=share_sum([*(one.waste for one in gpus), unseen_share(nodes, held)]),
        incarnations=runs,
        gpus=tuple(gpus),
        ranks=with_behind(ranks, gpus, found_behind),
        nodes=nodes,
        missing=(*missing, *unseen, *_missing(facts, held, folds, nodes), *twice_named(gpus)),
    )
    return replace(report, findings=report_findings(report, found_behind))


def _nothing_to_report(missing: Sequence[str]) -> HpckitError:
    return HpckitError(
        "; ".join(missing) or "this job has no accounts",
        hint="account/ of the job folder must hold complete rank ledgers or sample files; "
        "hpckit report --from FOLDER reads a copy of it",
    )


def _window(evidence: Sequence[NodeEvidence], facts: JobFacts) -> tuple[float, float]:
    """From the job's start to its end, as Slurm and the evidence have them.

    Slurm knows the start of the last incarnation alone.
    """
    starts = [one.started_s for one in evidence]
    ends = [one.ended_s for one in evidence]
    starts += [] if facts.started_s is None else [facts.started_s]
    ends += [] if facts.ended_s is None or facts.is_running else [facts.ended_s]
    return min(starts), max(ends)


def _held(
    folds: Sequence[NodeFold], facts: JobFacts, site: EnergySite, held: Mapping[int, Holding]
) -> tuple[list[GpuAccount], tuple[NodeAccount, ...]]:
    gpus: list[GpuAccount] = []
    nodes: list[NodeAccount] = []
    for fold in folds:
        mine = gpu_accounts(fold)
        node = node_account(fold, mine, site)
        longer, node = with_unseen_time(mine, node, fold, held[fold.evidence.restart])
        gpus += longer
        nodes.append(node)
    return gpus, with_unseen_gpus(nodes, folds, facts, held[max(held)])


def _behind(
    found: FoundAccounts,
    store: SampleStore,
    gpus: Sequence[GpuAccount],
    surroundings: Surroundings,
) -> tuple[tuple[Straggler, ...], list[str]]:
    """The stragglers, also by what their nodes look like; a sentence for what cannot be read.

    The topology of a node without one would explain nothing.
    """
    behind = stragglers(gpus, surroundings)
    if not behind:
        return behind, []
    from hpckit.account.gather import node_topologies

    topologies, unread = node_topologies(store, found, {one.node for one in behind})
    return stragglers(gpus, replace(surroundings, topologies=topologies)), unread


def _surroundings(evidence: Sequence[NodeEvidence], nodes: tuple[NodeAccount, ...]) -> Surroundings:
    lives = [(one.node, life.start) for one in evidence for life in one.lives]
    cpus = {
        (node, gpu.uuid): start.cpus
        for node, start in lives
        for gpu in start.gpus
        if start.cpus is not None
    }
    return Surroundings(nodes=nodes, cpus=cpus)


def _folded(
    evidence: Sequence[NodeEvidence],
    tools: ReportTools,
    held: Mapping[int, Holding],
    origin_s: float,
    *,
    curves: bool,
) -> Iterator[NodeFold]:
    gpus = sum(len(one.spans[0].meta.gpus) for one in evidence if one.spans)
    points = points_for(gpus) if curves else 0
    requests = [
        FoldRequest(
            store=tools.store,
            evidence=one,
            origin_s=origin_s,
            points=points,
            is_running=held[one.restart].is_running,
        )
        for one in evidence
    ]
    for done, fold in enumerate(tools.fold_all(fold_node, requests), start=1):
        if tools.progress is not None:
            tools.progress(done, len(requests))
        yield fold


def _no_gpu(job: ReportedJob) -> Energy:
    why = (
        "resources.gpus_per_node requests none"
        if job.gpus_asked == 0
        else "no rank or sampler reported one"
    )
    return Energy(value_j=None, because=job.gpus_because or why)


def _energy(
    folds: Sequence[NodeFold], gpu: Energy, runs: Sequence[Incarnation], node: Energy
) -> JobEnergy:
    return JobEnergy(
        gpu=gpu,
        node=node,
        useful_gpu_j=whole_sum(run.gpu_energy.value_j for run in runs if not run.is_lost),
        lost_gpu_j=whole_sum(run.gpu_energy.value_j for run in runs if run.is_lost),
        conservation=conservation(folds) if gpu.value_j is not None else None,
    )


def _with_slurms(
    energy: JobEnergy, facts: JobFacts, tools: ReportTools, folds: Sequence[NodeFold]
) -> JobEnergy:
    if facts.is_running or energy.node.value_j is not None or tools.slurm_energy is None:
        return energy
    gpu = energy.gpu if any(fold.gpus for fold in folds) else None
    metas = [fold.meta for fold in folds]
    return replace(energy, node=with_slurms(energy.node, gpu, tools.slurm_energy(), metas))


def _job(
    facts: JobFacts,
    folds: Sequence[NodeFold],
    gpus: Sequence[GpuAccount],
    nodes: Sequence[NodeAccount],
) -> ReportedJob:
    metas = [fold.meta for fold in folds if fold.meta is not None]
    ids = [one.job_id for one in metas]
    ids += [life.start.job_id for fold in folds for life in fold.evidence.lives]
    tasks = [facts.array_task, *(meta.array_task for meta in metas)]
    last = max(node.restart for node in nodes)
    seen = {(fold.evidence.restart, fold.evidence.node) for fold in folds}
    unseen = sum(node.unseen_gpus for node in nodes if node.restart == last)
    return ReportedJob(
        job_id=facts.job_id or next(filter(None, ids), None),
        name=facts.name,
        array_task=next((task for task in tasks if task is not None), None),
        state=facts.state,
        exit_code=facts.exit_code,
        folder=facts.folder,
        nodes=max(len(set(facts.nodes)), _most(seen)),
        gpus=_most({(gpu.restart, (gpu.node, gpu.uuid)) for gpu in gpus}) + unseen,
        gpus_asked=facts.gpus_asked,
        gpus_because=refusal_words(gpus_refused(folds, facts.gpus_asked)),
        time_limit_s=facts.time_limit_s,
        placement=facts.placement,
        synthetic=any(one.synthetic for one in metas),
    )


def _most(held: Iterable[tuple[int, Hashable]]) -> int:
    """How many of them the job had at once: the most of an incarnation, by its number."""
    return max(Counter(restart for restart, _ in held).values(), default=0)


def _missing(
    facts: JobFacts,
    held: Mapping[int, Holding],
    folds: Sequence[NodeFold],
    accounts: Sequence[NodeAccount],
) -> Iterator[str]:
    if (after_s := later_run_s(held, facts)) is not None:
        began, yet = format_duration(after_s), " yet" if facts.is_running else ""
        yield f"no data{yet} on the job's run that began {began} after this: {_NOBODY_WROTE}"
    absent = [node.node for node in accounts if node.started_s is None]
    if absent:
        yield f"no data from {named_nodes(absent)}: {_NOBODY_WROTE} there"
    yield from (sentence for fold in folds for sentence in _cut_short(fold))
    if not absent and not facts.is_running:
        yield from _without_ledger(folds)
    said: dict[str, list[str]] = {}
    refused = gpus_refused(folds, facts.gpus_asked)
    of_nodes = (
        *((node, f"no GPU was measured: {reason}") for node, reason in refused.items()),
        *((fold.evidence.node, sentence) for fold in folds for sentence in fold.missing),
        *unseen_words(accounts, facts),
    )
    for node, sentence in of_nodes:
        said.setdefault(sentence, []).append(node)
    for sentence, nodes in said.items():
        yield f"{named_nodes(list(dict.fromkeys(nodes)))}: {sentence}"


def _without_ledger(folds: Sequence[NodeFold]) -> Iterator[str]:
    for restart in sorted({fold.evidence.restart for fold in folds}):
        starts = [
            life.start
            for fold in folds
            if fold.evidence.restart == restart
            for life in fold.evidence.lives
        ]
        size = max((start.world_size or 0 for start in starts), default=0)
        absent = set(range(size)) - {start.rank for start in starts}
        if absent:
            which = f"{_ranks(absent)} of {size}{f' in restart {restart}' if restart else ''}"
            whose = "its" if len(absent) == 1 else "their"
            yield f"{which} left no readable ledger: {whose} usage counts for no rank"


def _cut_short(fold: NodeFold) -> Iterator[str]:
    evidence = fold.evidence
    ended = {one.rank for one in fold.claims if one.ended_by in ("processes", "next-life")}
    if ended:
        what = "exit code, CPU time and memory unknown"
        yield f"{_ranks(ended)} on {evidence.node} recorded no exit (killed): {what}"
    cut = {one.rank for one in fold.claims if one.ended_by == "sample"}
    if not cut:
        return
    which = f"{_ranks(cut)} on {evidence.node}"
    if not evidence.spans:
        yield f"{which} recorded no exit, and no sampler ran there: no data after the start"
        return
    after_s = max(one.last_ns for one in evidence.spans) / 1e9 - evidence.begin_ns / 1e9
    yield (
        f"{which} recorded no exit (killed, or node lost): "
        f"no data after the last sample, {format_duration(after_s)} from the start there"
    )


def _ranks(numbers: Collection[int]) -> str:
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {format_indices(numbers)}"
