"""GPUs that were held and never had a process: fewer of them, where the launch does not change.

Fewer GPUs are advised only where the number of ranks stays, and with it the mesh: then nothing
but the unused GPUs goes. All else is words (`advice_words`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from hpckit.account.advice.outcome import MeasuredRun, is_worth_it, most_memory_bytes
from hpckit.account.values import Advice, GpuAccount
from hpckit.core.units import (
    format_duration,
    format_slurm_mem,
    format_time_limit,
    parse_slurm_mem_bytes,
)
from hpckit.spec.job import PLAIN, ResourceRequest


def _change(run: MeasuredRun, key: str, proposed: object, because: str, **saving: float) -> Advice:
    """Another value of a key of `[resources]`."""
    now = getattr(run.spec.resources, key)
    return Advice(
        key=f"resources.{key}",
        now=None if now is None else str(now),
        proposed=str(proposed),
        because=because,
        saving=saving,
    )


# Fewer are never advised from a mean over the run: what keeps all of them busy for a twentieth of
# it would take many times as long.

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
    throttled = max((node.cpu_throttled_frac or 0.0 for node in run.nodes), default=0.0)
    if throttled >= THROTTLED_FRAC:
        return (_more_cpus(run, held, throttled),)
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
        f"with {used:.1f} of its {held} CPUs a rank would have been at most 1 % slower (means of "
        f"5 s); {CPU_MARGIN:g}× that leaves room for shorter bursts"
    )
    return (_change(run, "cpus_per_task", proposed, because, cpu_s=saved),)


def _more_cpus(run: MeasuredRun, held: int, throttled_frac: float) -> Advice:
    because = (
        f"the CPU quota throttled the job for {throttled_frac:.0%} of its CPU time: it would have "
        f"used more than {held} CPUs per rank"
    )
    proposed = max(held + 1, ceil(held * AFTER_THROTTLING))
    return _change(run, "cpus_per_task", proposed, because)


def _held(run: MeasuredRun) -> int | None:
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


# Less is advised from the kernel's own peak of the job's control group alone. It counts the page
# cache, which is no need: it is an upper bound, from which never follows that the job is short of
# memory. The working set, which is sampled, is a lower one: a peak between two samples is not in
# it.

MEM_MARGIN = 1.25
"""Peaks differ by run: sizes of batches, of caches, of what libraries keep."""
AFTER_OOM = 1.5
"""How much was lacking is not known."""
_MIB = 1024**2
_GIB = 1024**3
LEAST_SAVING_BYTES = _GIB
"""On a node; less than a GiB does not let another job in."""
_FINE_BYTES = 256 * _MIB
_FINE_UP_TO_BYTES = 4 * _GIB


def memory_advice(run: MeasuredRun) -> tuple[Advice, ...]:
    """Another memory request, under the key that the job has."""
    killed = sum(node.oom_kills or 0 for node in run.report.nodes)
    if killed or run.report.job.state == "OUT_OF_MEMORY":
        return _more_memory(run, killed)
    key, parts = _request(run.spec.resources, run.spec.ntasks_per_node)
    said = None if key is None else getattr(run.spec.resources, key)
    peaks = [most_memory_bytes(node) for node in run.report.nodes]
    if key is None or not said or not run.may_shrink or run.has_whole_nodes:
        return ()
    known = [peak for peak in peaks if peak is not None]
    now_bytes = parse_slurm_mem_bytes(said) * parts
    if (
        not now_bytes
        or not run.has_all_nodes
        or len(known) < len(peaks)
        # One process had more than these peaks: then they are not of all of the job.
        or max((rank.max_rss_bytes or 0 for rank in run.report.ranks), default=0)
        > max(known, default=0)
    ):
        return ()
    each = _rounded(max(known) * MEM_MARGIN / parts)
    saved = now_bytes - each * parts
    if not is_worth_it(now_bytes, each * parts) or saved < LEAST_SAVING_BYTES:
        return ()
    because = (
        f"peak use {_gib(max(known))} of {_gib(now_bytes)} on any node (by the kernel, page cache "
        f"included); {MEM_MARGIN:g}× that leaves memory for other jobs"
    )
    mem_bytes = float(saved * run.spec.resources.nodes)
    return (_change(run, key, format_slurm_mem(each), because, mem_bytes=mem_bytes),)


def _more_memory(run: MeasuredRun, killed: int) -> tuple[Advice, ...]:
    """None where it had all of the node: there only words help."""
    key, parts = _request(run.spec.resources, run.spec.ntasks_per_node)
    said = None if key is None else getattr(run.spec.resources, key)
    had = parse_slurm_mem_bytes(said) * parts if said else _limit_bytes(run)
    if run.has_whole_nodes or not had:
        return ()
    each = _rounded(had * AFTER_OOM / parts)
    process = f"{killed} processes" if killed > 1 else "a process"
    kills = f"the kernel OOM-killed {process}"
    because = (
        f"{kills} at {_gib(had)} per node; the real need is unknown, so this is at least "
        f"{AFTER_OOM:g}× that, rounded up"
    )
    return (_change(run, key or "mem", format_slurm_mem(each), because),)


def _request(resources: ResourceRequest, ranks: int) -> tuple[str | None, int]:
    """The key that asks for memory, and how many of its unit a node has; None: none is said.

    A key whose unit is not said counts as none: nobody knows what the job got.
    """
    if resources.mem_per_gpu is not None:
        return ("mem_per_gpu", resources.gpus_per_node) if resources.gpus_per_node else (None, 1)
    if resources.mem_per_cpu is not None:
        cpus = resources.cpus_per_task
        return ("mem_per_cpu", cpus * ranks) if cpus else (None, 1)
    return (None if resources.mem is None else "mem"), 1


def _limit_bytes(run: MeasuredRun) -> int | None:
    """The memory that nodes had by the cluster's default, where the job did not say any."""
    if any(
        (run.spec.resources.mem, run.spec.resources.mem_per_cpu, run.spec.resources.mem_per_gpu)
    ):
        return None
    limits = [node.mem_limit_bytes for node in run.nodes if node.mem_limit_bytes]
    return max(limits, default=None)


def _rounded(size: float) -> int:
    step = _FINE_BYTES if size <= _FINE_UP_TO_BYTES else _GIB
    return max(1, ceil(size / step)) * step


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


NEVER_FRAC = 0.99
"""Share of the time without a process from which a GPU counts as never used: between the start
of the job and of its sampler somebody may have looked."""


def gpu_advice(run: MeasuredRun) -> tuple[Advice, ...]:
    """Fewer GPUs on each node, or fewer nodes."""
    unused = unused_gpus(run)
    if not unused or not run.may_shrink:
        return ()
    if (nodes := unused_nodes(run)) and may_drop_nodes(run):
        return (_fewer_nodes(run, nodes),)
    needed = gpus_needed(run)
    if needed and may_drop_gpus(run, needed):
        return (_fewer_gpus(run, needed),)
    return ()


def unused_gpus(run: MeasuredRun) -> tuple[GpuAccount, ...]:
    """The GPUs that never had a process; none unless all of the job's GPUs were measured."""
    asked = (run.spec.resources.gpus_per_node or 0) * run.spec.resources.nodes
    if not asked or len(run.gpus) != asked or not all(map(_is_known, run.gpus)):
        return ()
    return tuple(
        gpu for gpu in run.gpus if gpu.waste.no_process_gpu_s >= NEVER_FRAC * gpu.waste.total_gpu_s
    )


def _is_known(gpu: GpuAccount) -> bool:
    """Whether processes on it were looked for, for all but a moment of the time."""
    total = gpu.waste.total_gpu_s
    looked = "processes" not in gpu.refused
    return looked and total > 0 and gpu.waste.unknown_gpu_s <= (1 - NEVER_FRAC) * total


def _used_by_node(run: MeasuredRun) -> Mapping[str, int]:
    unused = {gpu.uuid for gpu in unused_gpus(run)}
    nodes = dict.fromkeys(sorted({gpu.node for gpu in run.gpus}), 0)
    for gpu in run.gpus:
        nodes[gpu.node] += gpu.uuid not in unused
    return nodes


def gpus_needed(run: MeasuredRun) -> int:
    """GPUs that the busiest node used; 0 where no GPU of the job ever had a process."""
    return max(_used_by_node(run).values(), default=0)


def unused_nodes(run: MeasuredRun) -> tuple[str, ...]:
    """The nodes of which no GPU had a process, where others had."""
    used = _used_by_node(run)
    return tuple(node for node, count in used.items() if not count) if any(used.values()) else ()


def may_drop_nodes(run: MeasuredRun) -> bool:
    """Whether the job is the same on fewer nodes.

    With hpckit's own launch every node has ranks, which a mesh or a world size counts on. Only a
    plain launch of one rank a node, without a mesh and with no rank seen there, is free of it.
    """
    idle = set(unused_nodes(run))
    last = run.last_restart
    ranks = [rank for rank in run.report.ranks if rank.restart == last]
    return (
        run.spec.launch.kind == PLAIN
        and run.spec.mesh_ranks is None
        and bool(ranks)
        and not any(rank.node in idle for rank in ranks)
        and run.spec.slurm.nodelist is None
    )


def may_drop_gpus(run: MeasuredRun, needed: int) -> bool:
    """Whether the same ranks run with so many GPUs a node.

    Not where the ranks are as many as the GPUs, for then a rank would have none; whole nodes have
    all of theirs whatever is asked; and memory by GPU must still hold the peak.
    """
    asked = run.spec.resources.gpus_per_node or 0
    return (
        run.spec.ntasks_per_node <= needed < asked
        and not run.has_whole_nodes
        and _memory_holds(run, needed)
    )


def _memory_holds(run: MeasuredRun, gpus: int) -> bool:
    by_gpu = run.spec.resources.mem_per_gpu
    if by_gpu is None:
        return True
    peaks = [most_memory_bytes(node) for node in run.report.nodes]
    most = max((peak for peak in peaks if peak is not None), default=0)
    return None not in peaks and 0 < most * MEM_MARGIN <= parse_slurm_mem_bytes(by_gpu) * gpus


def _fewer_gpus(run: MeasuredRun, needed: int) -> Advice:
    asked = run.spec.resources.gpus_per_node or 0
    dropped = (asked - needed) * run.spec.resources.nodes
    unused = unused_gpus(run)
    because = f"{len(unused)} of {len(run.gpus)} GPUs never had a process: {_names(unused)}"
    saving = _saving(unused, dropped / len(unused))
    return _change(run, "gpus_per_node", needed, because, **saving)


def _fewer_nodes(run: MeasuredRun, nodes: tuple[str, ...]) -> Advice:
    idle = [gpu for gpu in run.gpus if gpu.node in nodes]
    because = f"no rank ran and no GPU had a process on {', '.join(nodes)}"
    left = run.spec.resources.nodes - len(nodes)
    return _change(run, "nodes", left, because, **_saving(idle, 1.0))


def _saving(gpus: Sequence[GpuAccount], share: float) -> dict[str, float]:
    saving = {"gpu_s": sum(gpu.held_s for gpu in gpus) * share}
    energies = [gpu.energy.value_j for gpu in gpus]
    known = [value for value in energies if value is not None]
    if len(known) == len(energies):
        saving["energy_j"] = sum(known) * share
    return saving


def _names(gpus: Sequence[GpuAccount]) -> str:
    shown = [f"GPU{'?' if gpu.index is None else gpu.index} on {gpu.node}" for gpu in gpus[:4]]
    more = len(gpus) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


TIME_MARGIN = 1.2
"""Runs of one job differ by node and by what shares the network and file system."""
LEAST_SLACK_S = 300.0
"""What a start may take that the measurement does not see: prolog, image pull, slow file system."""
LEAST_TIME_SAVING_FRAC = 0.15
"""Less than for the other keys: a shorter limit costs nothing, and backfills sooner."""
AFTER_TIMEOUT = 1.5
"""A run that was cut off shows only that it needs more; half as much again is a first try."""
MOST_S = 365 * 86400
_STEPS = ((3600, 300), (6 * 3600, 900), (86400, 1800), (MOST_S, 3600))
"""Up to so long, in steps of so much: 50 minutes, 2:15:00, 7:30:00, 1-03:00:00."""


def time_advice(run: MeasuredRun) -> tuple[Advice, ...]:
    """Another time limit, where the run speaks for one."""
    limit_s = run.limit_s
    if limit_s is None:
        return ()
    if run.report.job.state == "TIMEOUT":
        return _more_time(run, limit_s)
    if not run.may_shrink:
        return ()
    elapsed_s = run.elapsed_s
    proposed_s = sensible_limit_s(max(elapsed_s * TIME_MARGIN, elapsed_s + LEAST_SLACK_S))
    if elapsed_s <= 0 or not is_worth_it(limit_s, proposed_s, LEAST_TIME_SAVING_FRAC):
        return ()
    restarts = len(run.report.incarnations) - 1
    together = f" in {restarts + 1} runs" if restarts > 0 else ""
    because = (
        f"it took {format_duration(elapsed_s)}{together} of {format_time_limit(round(limit_s))}; "
        "with a shorter limit, backfill may start it sooner"
    )
    limit = format_time_limit(proposed_s)
    return (_change(run, "time_limit", limit, because, limit_s=limit_s - proposed_s),)


def _more_time(run: MeasuredRun, limit_s: float) -> tuple[Advice, ...]:
    """None for a job that asks for a signal before its end: running into the limit is its way."""
    if run.spec.slurm.signal is not None:
        return ()
    proposed_s = sensible_limit_s(limit_s * AFTER_TIMEOUT)
    if proposed_s <= limit_s:
        return ()
    because = (
        f"it hit its time limit of {format_time_limit(round(limit_s))}; the real need is unknown, "
        f"so this is at least {AFTER_TIMEOUT:g}× that, rounded up"
    )
    return (_change(run, "time_limit", format_time_limit(proposed_s), because),)


def sensible_limit_s(seconds: float) -> int:
    """A time limit of at least so many seconds, rounded up as a person would write it."""
    step = next((step for up_to, step in _STEPS if seconds <= up_to), 3600)
    return min(ceil(seconds / step) * step, MOST_S)
