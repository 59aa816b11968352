"""What is worth knowing of a job's nodes and of its life: CPU, memory, IO, requeues, samplers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from hpckit.measure.finding_rule import Evidence, MeasuredJob
from hpckit.measure.judged import known_s
from hpckit.model.account import NodeAccount
from hpckit.model.report_finding import Clause, Subject, count, said, seconds, share

THROTTLED_FRAC: Final = 0.05
"""Of the time of the job's CPUs: a quota held it back."""
CPU_PRESSURE_FRAC: Final = 0.25
"""Time in which some thread waited for a CPU (PSI "some"); loaders with more threads than CPUs are
common, so the GPUs must have waited as well."""
IO_PRESSURE_FRAC: Final = 0.1
MEMORY_PRESSURE_FRAC: Final = 0.05
"""Time in which all threads of the job waited at once (PSI "full")."""
GPUS_WAITED_FRAC: Final = 0.05
"""Time in which the node's GPUs were idle, beside processes: below that the host kept up."""
MEMORY_FRAC: Final = 0.95
"""Of the job's limit, without page cache: beyond lies the OOM killer."""


def oom_kill(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `oom-kill`."""
    for node in job.report.nodes:
        if node.oom_kills:
            killed = said("the kernel killed a process of the job once")
            if node.oom_kills > 1:
                words = "the kernel killed a process of the job {} times"
                killed = said(words, count(node.oom_kills))
            yield Evidence(_of(node), (*killed, *_memory_words(node)))


def host_memory_high(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `host-memory-high`."""
    for node in job.report.nodes:
        if _memory_frac(node) >= MEMORY_FRAC and not node.oom_kills:
            words = "up to {} of the job's memory was in use, page cache not counted"
            yield Evidence(_of(node), said(words, share(_memory_frac(node))))


def cpu_starved(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `cpu-starved`."""
    for node in job.report.nodes:
        waited, throttled = _gpus_waited_frac(job, node), node.cpu_throttled_frac or 0.0
        pressed = node.psi_frac.get("cpu_some", 0.0)
        if throttled >= THROTTLED_FRAC:
            words = "its CPU quota held the job back for {} of its CPUs' time"
            yield Evidence(_of(node), said(words, share(throttled)))
        elif pressed >= CPU_PRESSURE_FRAC and waited >= GPUS_WAITED_FRAC:
            words = "threads waited for a CPU {} of the time, and GPUs were idle {}"
            yield Evidence(_of(node), (*said(words, share(pressed), share(waited)), *_cpus(node)))


def io_wait(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `io-wait`."""
    for node in job.report.nodes:
        stalled, waited = node.psi_frac.get("io_full", 0.0), _gpus_waited_frac(job, node)
        if stalled >= IO_PRESSURE_FRAC and waited >= GPUS_WAITED_FRAC:
            words = "all of the job waited for files {} of the time, and GPUs were idle {}"
            yield Evidence(_of(node), said(words, share(stalled), share(waited)))


def memory_pressure(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `memory-pressure`."""
    for node in job.report.nodes:
        stalled = node.psi_frac.get("memory_full", 0.0)
        if stalled >= MEMORY_PRESSURE_FRAC:
            words = "all of the job waited for memory to be freed {} of the time"
            yield Evidence(_of(node), said(words, share(stalled)))


def restarts_lost(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `restarts-lost`: what was wasted is not known, only that it is no more than all."""
    for run in job.report.incarnations:
        if run.is_lost:
            why = f": {run.because}" if run.because else ""
            lost = said("at most {} were lost{}", seconds(run.ended_s - run.started_s), why)
            yield Evidence(Subject(what=f"restart {run.restart}"), lost)


def samples_missing(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `samples-missing`: where no node has samples none were meant to be taken."""
    sampled = {(gpu.restart, gpu.node) for gpu in job.report.gpus if known_s(gpu) > 0}
    sampled |= {(node.restart, node.node) for node in job.report.nodes if node.samples}
    alike: dict[tuple[int, str], list[str]] = {}
    for node in job.report.nodes:
        if sampled and (node.restart, node.node) not in sampled:
            why = f": {node.missing[0]}" if node.missing else ""
            alike.setdefault((node.restart, why), []).append(node.node)
    for (restart, why), nodes in alike.items():
        where = Subject(nodes=tuple(nodes), restart=restart)
        yield Evidence(where, said("no samples are there, of other nodes there are{}", why))


def _of(node: NodeAccount) -> Subject:
    return Subject(nodes=(node.node,), restart=node.restart)


def _gpus_waited_frac(job: MeasuredJob, node: NodeAccount) -> float:
    """The idle part of the time of those of its GPUs that computed at all."""
    here = [
        gpu
        for gpu in job.judged_on.get((node.restart, node.node), ())
        if gpu.waste.useful_gpu_s > 0
    ]
    known = math.fsum(known_s(gpu) for gpu in here)
    return math.fsum(gpu.waste.idle_gpu_s for gpu in here) / known if known else 0.0


def _memory_frac(node: NodeAccount) -> float:
    if node.mem_peak_bytes is None or not node.mem_limit_bytes:
        return 0.0
    return node.mem_peak_bytes / node.mem_limit_bytes


def _memory_words(node: NodeAccount) -> tuple[Clause, ...]:
    frac = _memory_frac(node)
    return said("up to {} of its memory was in use", share(frac)) if frac else ()


def _cpus(node: NodeAccount) -> tuple[Clause, ...]:
    return said("the job has {} CPUs there", count(node.cpus)) if node.cpus else ()
