"""What a measured job suggests that no key of the job file says, or that a person must decide."""

from __future__ import annotations

from collections.abc import Iterator

from hpckit.core.findings import Severity
from hpckit.decide.advice_run import MeasuredRun
from hpckit.model.account import GpuAccount, JobReport
from hpckit.model.job import JobSpec
from hpckit.model.report_finding import ReportFinding, Subject, finding, said, share

GPU_MEMORY_LOW_FRAC = 0.5
"""Frameworks reserve more than they need, so what is free by the driver is free indeed."""
GPU_MEMORY_FULL_FRAC = 0.9
"""How far a larger batch may fill it: the rest is fragmentation."""
NOT_SATURATED_FRAC = 0.2
"""Share of idle and spinning time from which a larger batch would have something to fill."""


def advice_findings(report: JobReport, spec: JobSpec) -> tuple[ReportFinding, ...]:
    """Advice in words: the evidence, and what a person may do about it.

    What the report finds by itself (GPUs never used, late idling, the power cap) is not said here
    again.
    """
    run = MeasuredRun(report=report, spec=spec)
    return (
        *_batch(run),
        *_own_end(run),
        *_whole_node_memory(run),
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
    words = "at most {} of it was in use, and the GPUs idled or waited for {} of their time"
    yield finding(
        "batch-could-grow",
        Severity.NOTE,
        Subject(what="GPU memory"),
        said(words, share(max(used)), share(lax)),
        f"a micro-batch up to {factor:.1f} times as large may fit: try it in a short run",
    )


def _not_saturated_frac(gpus: tuple[GpuAccount, ...]) -> float:
    lax = sum(gpu.waste.idle_gpu_s + gpu.waste.spin_gpu_s for gpu in gpus)
    busy = sum(gpu.waste.useful_gpu_s for gpu in gpus)
    return lax / (lax + busy) if busy > 0 else 0.0


def _own_end(run: MeasuredRun) -> Iterator[ReportFinding]:
    """A job that ran into its limit although it asks to be told before."""
    signal = run.spec.slurm.signal
    if run.report.job.state == "TIMEOUT" and signal is not None:
        yield finding(
            "limit-after-signal",
            Severity.NOTE,
            Subject(what="time limit"),
            said("it was told with --signal={} and had not ended when the limit came", str(signal)),
            "ask for the signal earlier, or for more time, if the checkpoint was not whole",
        )


def _whole_node_memory(run: MeasuredRun) -> Iterator[ReportFinding]:
    """Out of memory with all of the node's: asking for more of it is no help."""
    killed = run.report.job.state == "OUT_OF_MEMORY" or any(
        node.oom_kills for node in run.report.nodes
    )
    has_all = run.spec.resources.mem == "0" or run.has_whole_nodes
    if killed and has_all:
        yield finding(
            "node-memory-exhausted",
            Severity.ERROR,
            Subject(what="memory"),
            said("the kernel killed a process for want of memory, and the nodes were whole"),
            "more nodes with fewer ranks on each, or nodes with more memory "
            "(slurm.constraint, slurm.partition)",
        )
