"""CPUs of each rank: those that its work needs and a margin, or more where they were held back.

Fewer are never advised from a mean over the run: what keeps all of them busy for a twentieth of it
would take many times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from hpckit.decide.advice_run import MeasuredRun, is_worth_it
from hpckit.model.account import Advice

KEY = "resources.cpus_per_task"
CPU_MARGIN = 1.5
"""The measurement is of means of 5 s; data loaders come in bursts above them."""
EVEN_FRAC = 0.25
"""Ranks are alike whose CPU time is at most so much above that of all of them on the node."""
THROTTLED_FRAC = 0.05
"""Share of its CPUs' time held back from which a quota is in the way, and not a moment of it."""
AFTER_THROTTLING = 1.5


def cpu_advice(run: MeasuredRun) -> tuple[Advice, ...]:
    """Another number of CPUs for each rank."""
    held = _held(run)
    used = _used_of_a_rank(run)
    if held is None:
        return ()
    if throttled := _throttled_frac(run):
        return (_more(run, held, throttled),)
    resources = run.spec.resources
    # With memory by CPU, fewer CPUs are less memory.
    if resources.mem_per_cpu is not None or run.has_whole_nodes or not run.may_shrink:
        return ()
    if used is None or resources.cpus_per_task is None:
        return ()
    proposed = max(1, ceil(used * CPU_MARGIN))
    if not is_worth_it(held, proposed):
        return ()
    saved = (held - proposed) * run.spec.ntasks * run.elapsed_s
    because = (
        f"on {used:.1f} of its {held} CPUs a rank would have taken 1 % longer at most, by means of "
        f"5 s; this is {CPU_MARGIN:g} times that, for shorter bursts"
    )
    return (
        Advice(
            key=KEY,
            now=str(held),
            proposed=str(proposed),
            because=because,
            saving={"cpu_s": saved},
        ),
    )


def _more(run: MeasuredRun, held: int, throttled_frac: float) -> Advice:
    now = run.spec.resources.cpus_per_task
    because = (
        f"the kernel held its processes back for {throttled_frac:.0%} of their CPU time: they "
        f"would have used more than {held} CPUs a rank"
    )
    return Advice(
        key=KEY,
        now=None if now is None else str(now),
        proposed=str(max(held + 1, ceil(held * AFTER_THROTTLING))),
        because=because,
    )


def _held(run: MeasuredRun) -> int | None:
    """CPUs of each rank, as said or as the nodes had them."""
    if run.spec.resources.cpus_per_task is not None:
        return run.spec.resources.cpus_per_task
    cpus = [node.cpus for node in run.nodes if node.cpus]
    return max(1, min(cpus) // run.spec.ntasks_per_node) if cpus else None


def _used_of_a_rank(run: MeasuredRun) -> float | None:
    """CPUs that are enough for the busiest rank; None unless every node tells."""
    shares: list[float] = []
    rates_on = _rates(run)
    for node in run.nodes:
        rates = list(rates_on.get(node.node, {}).values())
        if node.cpus_enough is None:
            return None
        shares += [_share(node.cpus_enough, rates, run.spec.ntasks_per_node), *rates]
    return max(shares) if shares and run.has_all_nodes else None


def _rates(run: MeasuredRun) -> Mapping[str, Mapping[int, float]]:
    """CPUs that ranks kept busy on average, of those that say it, by node and rank."""
    rates: dict[str, dict[int, float]] = {}
    last = run.last_restart
    for rank in run.report.ranks:
        if rank.restart == last and rank.cpu_s is not None and rank.ended_s is not None:
            rate = rank.cpu_s / max(rank.ended_s - rank.started_s, 1.0)
            here = rates.setdefault(rank.node, {})
            here[rank.rank] = max(rate, here.get(rank.rank, 0.0))
    return rates


def _share(enough: float, rates: Sequence[float], ranks: int) -> float:
    """What of a node's CPUs the busiest rank needs: as much as each, where ranks are alike.

    Else all that the others did not use on average: the bursts may have been its alone.
    """
    even = enough / ranks
    if not rates or max(rates) <= (1 + EVEN_FRAC) * sum(rates) / ranks:
        return even
    return max(even, enough - (sum(rates) - max(rates)))


def _throttled_frac(run: MeasuredRun) -> float | None:
    """The largest share of its CPU time for which a node was throttled, None below the limit."""
    worst = max((node.cpu_throttled_frac or 0.0 for node in run.nodes), default=0.0)
    return worst if worst >= THROTTLED_FRAC else None
