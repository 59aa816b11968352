"""What a measured job suggests that no key of the job file says, or that a person must decide."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from hpckit.decide.advice_gpus import (
    gpus_needed,
    may_drop_gpus,
    may_drop_nodes,
    unused_gpus,
    unused_nodes,
)
from hpckit.decide.advice_run import MeasuredRun
from hpckit.model.account import GpuAccount, JobReport, ReportFinding
from hpckit.model.job import JobSpec
from hpckit.units import format_duration

GPU_MEMORY_LOW_FRAC = 0.5
"""Frameworks reserve more than they need, so what is free by the driver is free indeed."""
GPU_MEMORY_FULL_FRAC = 0.9
"""How far a larger batch may fill it: the rest is fragmentation."""
NOT_SATURATED_FRAC = 0.2
"""Share of idle and spinning time from which a larger batch would have something to fill."""
LATE_IDLE_FRAC = 0.1
LEAST_LATE_IDLE_S = 300.0
"""An end that idles for less is writing a checkpoint."""
POWER_CAP_ABOVE_FRAC = 0.3
"""Time at the power cap is normal under boost (NVIDIA/DCGM#285); above its peers it is not."""
LEAST_PEERS = 4


def advice_findings(report: JobReport, spec: JobSpec) -> tuple[ReportFinding, ...]:
    """Advice in words: the evidence, and what a person may do about it."""
    run = MeasuredRun(report=report, spec=spec)
    return (
        *_unused(run),
        *_late_idle(run),
        *_batch(run),
        *_power_cap(run),
        *_own_end(run),
        *_whole_node_memory(run),
    )


def _unused(run: MeasuredRun) -> Iterator[ReportFinding]:
    """GPUs that nobody used, where fewer of them would change the launch."""
    unused = unused_gpus(run)
    needed = gpus_needed(run)
    if not unused or may_drop_gpus(run, needed) or (unused_nodes(run) and may_drop_nodes(run)):
        return
    ranks = f"{run.spec.ntasks} ranks on {run.spec.resources.nodes} nodes"
    remedy = f"fewer GPUs would change the launch ({ranks}): look why these ranks use none"
    if not needed:
        remedy = "ask for no GPUs, if the program is not meant to use one"
    elif run.has_whole_nodes:
        remedy = "the nodes are whole (--exclusive): without it, fewer GPUs could be asked for"
    yield ReportFinding(
        rule="gpus-never-used",
        severity="warning",
        subject=f"{len(unused)} of {len(run.gpus)} GPUs",
        because="no process ran on them at any time",
        remedy=remedy,
        wasted_gpu_s=sum(gpu.held_s for gpu in unused),
    )


def _late_idle(run: MeasuredRun) -> Iterator[ReportFinding]:
    """GPUs that were done long before the job was."""
    late = [
        window.ended_s - window.started_s
        for gpu in run.gpus
        for window in gpu.windows
        if window.is_late
    ]
    least_s = max(LEAST_LATE_IDLE_S, LATE_IDLE_FRAC * run.elapsed_s)
    if late and max(late) >= least_s:
        yield ReportFinding(
            rule="end-earlier",
            severity="note",
            subject=f"{len(late)} GPUs" if len(late) > 1 else "1 GPU",
            because=f"idle for the last {format_duration(max(late))} while the job went on",
            remedy="do what comes after the GPUs are done in a stage of its own without GPUs "
            "(docs/howto/arrays-and-chains.md)",
            wasted_gpu_s=sum(late),
        )


def _batch(run: MeasuredRun) -> Iterator[ReportFinding]:
    """Head-room in the GPUs' memory of a job that does not keep them busy."""
    shares = [
        gpu.mem_peak_bytes / gpu.mem_bytes
        for gpu in run.gpus
        if gpu.mem_peak_bytes is not None and gpu.mem_bytes
    ]
    used = [share for share in shares if share > 0]
    if not used or len(shares) < len(run.gpus) or max(used) > GPU_MEMORY_LOW_FRAC:
        return
    if (lax := _not_saturated_frac(run.gpus)) < NOT_SATURATED_FRAC:
        return
    factor = GPU_MEMORY_FULL_FRAC / max(used)
    yield ReportFinding(
        rule="batch-could-grow",
        severity="note",
        subject="GPU memory",
        because=f"at most {max(used):.0%} of it was in use, and the GPUs idled or waited for "
        f"{lax:.0%} of their time",
        remedy=f"a micro-batch up to {factor:.1f} times as large may fit: try it in a short run",
    )


def _not_saturated_frac(gpus: tuple[GpuAccount, ...]) -> float:
    lax = sum(gpu.waste.idle_gpu_s + gpu.waste.spin_gpu_s for gpu in gpus)
    busy = sum(gpu.waste.useful_gpu_s for gpu in gpus)
    return lax / (lax + busy) if busy > 0 else 0.0


def _power_cap(run: MeasuredRun) -> Iterator[ReportFinding]:
    """GPUs that the power cap holds down for much more of the time than the others."""
    shares = {
        gpu.uuid: gpu.throttling.power_cap_s / gpu.held_s
        for gpu in run.gpus
        if gpu.throttling.power_cap_s is not None and gpu.held_s > 0
    }
    usual = median(shares.values()) if len(shares) >= LEAST_PEERS else 1.0
    for gpu in run.gpus:
        share = shares.get(gpu.uuid, 0.0)
        if share - usual > POWER_CAP_ABOVE_FRAC:
            yield ReportFinding(
                rule="power-capped-above-peers",
                severity="note",
                subject=f"GPU{'?' if gpu.index is None else gpu.index} on {gpu.node}",
                because=f"at its power cap for {share:.0%} of the time, its peers for {usual:.0%}",
                remedy="ask your operator whether its power limit or cooling differs "
                "(nvidia-smi -q -d POWER); hpckit never sets one",
            )


def _own_end(run: MeasuredRun) -> Iterator[ReportFinding]:
    """A job that ran into its limit although it asks to be told before."""
    signal = run.spec.slurm.signal
    if run.report.job.state == "TIMEOUT" and signal is not None:
        yield ReportFinding(
            rule="limit-after-signal",
            severity="note",
            subject="time limit",
            because=f"it was told with --signal={signal} and had not ended when the limit came",
            remedy="ask for the signal earlier, or for more time, if the checkpoint was not whole",
        )


def _whole_node_memory(run: MeasuredRun) -> Iterator[ReportFinding]:
    """Out of memory with all of the node's: asking for more of it is no help."""
    killed = run.report.job.state == "OUT_OF_MEMORY" or any(
        node.oom_kills for node in run.report.nodes
    )
    has_all = run.spec.resources.mem == "0" or run.has_whole_nodes
    if killed and has_all:
        yield ReportFinding(
            rule="node-memory-exhausted",
            severity="error",
            subject="memory",
            because="the kernel killed a process for want of memory, and the nodes were whole",
            remedy="more nodes with fewer ranks on each, or nodes with more memory "
            "(slurm.constraint, slurm.partition)",
        )
