"""Memory: the peak and a margin, or more after the kernel killed for want of it.

Less is advised from the kernel's own peak of the job's control group alone. It counts the page
cache, which is no need: it is an upper bound, from which never follows that the job is short of
memory. The working set, which is sampled, is a lower one: a peak between two samples is not in it.
"""

from __future__ import annotations

from math import ceil

from hpckit.decide.advice_run import MeasuredRun, is_worth_it, most_memory_bytes
from hpckit.model.account import Advice
from hpckit.model.job import ResourceRequest
from hpckit.units import format_slurm_mem, parse_slurm_mem_bytes

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
        return _more(run, killed)
    key, parts = _request(run.spec.resources, run.spec.ntasks_per_node)
    said = None if key is None else getattr(run.spec.resources, key)
    peaks = [most_memory_bytes(node) for node in run.report.nodes]
    if key is None or not said or not run.may_shrink or run.has_whole_nodes:
        return ()
    known = [peak for peak in peaks if peak is not None]
    now_bytes = parse_slurm_mem_bytes(said) * parts
    if not now_bytes or not run.has_all_nodes or len(known) < len(peaks):
        return ()
    each = _rounded(max(known) * MEM_MARGIN / parts)
    saved = now_bytes - each * parts
    if not is_worth_it(now_bytes, each * parts) or saved < LEAST_SAVING_BYTES:
        return ()
    because = (
        f"by the kernel's peak at most {_gib(max(known))} of {_gib(now_bytes)} on any node, page "
        f"cache included; with {MEM_MARGIN:g} times that, more may run beside it"
    )
    return (
        Advice(
            key=f"resources.{key}",
            now=said,
            proposed=format_slurm_mem(each),
            because=because,
            saving={"mem_bytes": float(saved * run.spec.resources.nodes)},
        ),
    )


def _more(run: MeasuredRun, killed: int) -> tuple[Advice, ...]:
    """None where it had all of the node: there only words help."""
    key, parts = _request(run.spec.resources, run.spec.ntasks_per_node)
    said = None if key is None else getattr(run.spec.resources, key)
    had = parse_slurm_mem_bytes(said) * parts if said else _limit_bytes(run)
    if run.has_whole_nodes or not had:
        return ()
    each = _rounded(had * AFTER_OOM / parts)
    kills = f"the kernel killed {killed} processes" if killed > 1 else "the kernel killed a process"
    return (
        Advice(
            key=f"resources.{key or 'mem'}",
            now=said,
            proposed=format_slurm_mem(each),
            because=f"{kills} for want of memory at {_gib(had)} a node; what it lacked is not "
            "known, so this is at least half as much again, rounded up",
        ),
    )


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
