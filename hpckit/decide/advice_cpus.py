"""CPUs of each rank: those that were busy and a margin, or more where they were held back."""

from __future__ import annotations

from math import ceil

from hpckit.decide.advice_run import MeasuredRun, is_worth_it
from hpckit.model.account import Advice

KEY = "resources.cpus_per_task"
CPU_MARGIN = 1.5
"""The measurement is a mean over the run; data loaders come in bursts above it."""
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
        f"a rank kept at most {used:.1f} of its {held} CPUs busy on average; this is "
        f"{CPU_MARGIN:g} times that, for bursts"
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
    """CPUs that were busy for the busiest rank, on average; None unless every node tells.

    The busiest node's share, and of ranks that say it their own: the larger.
    """
    shares: list[float] = []
    for node in run.nodes:
        if node.cpu_s is None or node.span_s is None:
            return None
        shares.append(node.cpu_s / node.span_s / run.spec.ntasks_per_node)
    for rank in run.report.ranks:
        if rank.restart == run.last_restart and rank.cpu_s is not None and rank.ended_s is not None:
            shares.append(rank.cpu_s / max(rank.ended_s - rank.started_s, 1.0))
    return max(shares) if shares and run.has_all_nodes else None


def _throttled_frac(run: MeasuredRun) -> float | None:
    """The largest share of its CPU time for which a node was throttled, None below the limit."""
    worst = max((node.cpu_throttled_frac or 0.0 for node in run.nodes), default=0.0)
    return worst if worst >= THROTTLED_FRAC else None
