"""GPUs that were held and never had a process: fewer of them, where the launch does not change.

Fewer GPUs are advised only where the number of ranks stays, and with it the mesh: then nothing
but the unused GPUs goes. All else is words (`advice_words`).
"""

from __future__ import annotations

from collections.abc import Mapping

from hpckit.decide.advice_memory import MEM_MARGIN
from hpckit.decide.advice_run import MeasuredRun, most_memory_bytes
from hpckit.model.account import Advice, GpuAccount, Share
from hpckit.model.job import PLAIN
from hpckit.units import parse_slurm_mem_bytes

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
    return tuple(gpu for gpu in run.gpus if _is_unused(gpu.waste))


def _is_known(gpu: GpuAccount) -> bool:
    """Whether processes on it were looked for, for all but a moment of the time."""
    total = gpu.waste.total_gpu_s
    looked = "processes" not in gpu.refused
    return looked and total > 0 and gpu.waste.unknown_gpu_s <= (1 - NEVER_FRAC) * total


def _is_unused(waste: Share) -> bool:
    return waste.no_process_gpu_s >= NEVER_FRAC * waste.total_gpu_s


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
    share = dropped / len(unused)
    return Advice(
        key="resources.gpus_per_node",
        now=str(asked),
        proposed=str(needed),
        because=f"{len(unused)} of {len(run.gpus)} GPUs never had a process: {_names(unused)}",
        saving=_saving(unused, share),
    )


def _fewer_nodes(run: MeasuredRun, nodes: tuple[str, ...]) -> Advice:
    idle = [gpu for gpu in run.gpus if gpu.node in nodes]
    return Advice(
        key="resources.nodes",
        now=str(run.spec.resources.nodes),
        proposed=str(run.spec.resources.nodes - len(nodes)),
        because=f"no rank ran and no GPU had a process on {', '.join(nodes)}",
        saving=_saving(idle, 1.0),
    )


def _saving(gpus: tuple[GpuAccount, ...] | list[GpuAccount], share: float) -> dict[str, float]:
    """GPU-seconds and joules of these GPUs; joules only where all were measured."""
    saving = {"gpu_s": sum(gpu.held_s for gpu in gpus) * share}
    energies = [gpu.energy.value_j for gpu in gpus]
    known = [value for value in energies if value is not None]
    if len(known) == len(energies):
        saving["energy_j"] = sum(known) * share
    return saving


def _names(gpus: tuple[GpuAccount, ...]) -> str:
    shown = [f"GPU{'?' if gpu.index is None else gpu.index} on {gpu.node}" for gpu in gpus[:4]]
    more = len(gpus) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
