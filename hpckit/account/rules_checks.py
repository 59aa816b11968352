"""What is worth knowing of how a job used its GPUs.

Low utilization alone is no finding, nor is memory that is full beside it: a model may need the
memory of many GPUs and the arithmetic of few (job_defense_shield#2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct

from hpckit.account.finding import Clause, Figure, Subject, Unit, count, said, seconds, share
from hpckit.account.stragglers import Straggler, above, of_gpu, of_gpus
from hpckit.account.usage import JUDGED_S, is_judged, known_s
from hpckit.account.values import GpuAccount, GpuPlace, JobReport, NodeAccount, Window, ranks_by_gpu
from hpckit.core.findings import Rule
from hpckit.core.quantities import whole_sum
from hpckit.core.values import dataclass

NEVER_FRAC: Final = 0.01
"""What a GPU that "never" did something may have done: a start-up check runs a kernel or two."""
LATE_S: Final = 60.0
LATE_FRAC: Final = 0.05
LATE_SHORT_FRAC: Final = 0.2
LATE_SHORT_S: Final = 10.0
LATE_LONG_S: Final = 900.0
"""At the end: a minute that is 5 % of the job, or a fifth of a short job and 10 s, or a quarter of
an hour of any; writing the last checkpoint takes less, and so does a program that ends."""
STRETCH_FRAC: Final = 0.2
STRETCH_S: Final = 60.0
"""Before: loading data and compiling take some percent of a job, rarely a fifth."""
OFTEN_FRAC: Final = 0.25
"""In pauses too short to be a stretch; loaders and checkpoints take less."""
NEEDED_MEMORY_FRAC: Final = 0.9
"""A GPU with so full a memory is needed for it, however often it rests (job_defense_shield#2)."""
SPIN_FRAC: Final = 0.3
"""Communication of large trainings takes up to a fifth to a quarter of a step."""
HEAT_FRAC: Final = 0.05
"""GPUs touch their temperature limit for moments; 5 % of the time is worth an admin's look."""
BRAKE_FRAC: Final = 0.01
"""The power brake is asserted by the node's power supply when something is wrong with it."""
CAP_ABOVE_FRAC: Final = 0.2
"""The power limit holds the clocks of every GPU that computes much (DCGM#285): normal, unless one
GPU is held far longer than its peers."""
MEMORY_FRAC: Final = 0.95
"""An allocation of a few percent more would have failed."""
MEMORY_ABOVE_FRAC: Final = 0.2
"""Of the GPU's memory; stages of a pipeline differ by some percent."""
DISAGREE_FRAC: Final = 0.15
DISAGREE_S: Final = 60.0
"""The power sensor's own gain is off by up to 5 %, its sampling adds some (arXiv 2312.02741)."""
UNKNOWN_FRAC: Final = 0.1
UNKNOWN_S: Final = 10.0
"""A sampler starts and ends within some seconds of its job."""
FIX: Final = (
    "fix the cause (CPUs: in the job file; else tell your admins); meanwhile --exclude the node"
)
"""What to do about one that something explains."""
NOTHING_RAN: Final = "ignore if nothing should run there; else find out why it did not start"
"""What to do about a GPU without a process on a machine that was sampled by hand."""
BETWEEN: Final = "look at the data loader, checkpoints and evaluation of its ranks"
"""What to do about GPUs that idle between their work."""
BALANCE: Final = "balance the work, if its rank has more to do than its peers"
"""What to do about a straggler that nothing measured explains: no node is to blame then."""


class Evidence(NamedTuple):
    """What a rule is about, such as `GPU3 on n013`, what was seen there, and what it cost.

    `remedy` stands for the rule's where what was seen calls for another.
    """

    about: Subject
    evidence: tuple[Clause, ...]
    wasted_gpu_s: float | None = None
    wasted_j: float | None = None
    remedy: str | None = None


class MeasuredJob(Struct, frozen=True, kw_only=True, dict=True):
    """A report without findings, and its stragglers."""

    report: JobReport
    stragglers: tuple[Straggler, ...] = ()

    @cached_property
    def judged(self) -> tuple[GpuAccount, ...]:
        """The GPUs of which enough is known to say something about how they were used."""
        return tuple(gpu for gpu in self.report.gpus if is_judged(gpu))

    @cached_property
    def judged_on(self) -> Mapping[tuple[int, str], Sequence[GpuAccount]]:
        """The same by incarnation and node: checks ask for each node."""
        return {(gpus[0].restart, gpus[0].node): gpus for gpus in by_node(self.judged)}

    @property
    def long_held(self) -> tuple[GpuAccount, ...]:
        """The GPUs whose counters, which need no samples between, say something."""
        return tuple(gpu for gpu in self.report.gpus if gpu.held_s >= JUDGED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRule(Rule[Callable[[MeasuredJob], Iterable[Evidence]]]):
    """A rule about a finished job; `threshold` says from when on it finds something, and why."""

    threshold: str


def by_node(gpus: Iterable[GpuAccount]) -> list[list[GpuAccount]]:
    """Return the GPUs of each incarnation and node together."""
    groups: dict[tuple[int, str], list[GpuAccount]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.restart, gpu.node), []).append(gpu)
    return list(groups.values())


def gpu_never_used(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `gpu-never-used`."""
    for gpus in by_node(gpu for gpu in job.judged if is_never_used(gpu)):
        words, held = "no process used {} during the {} {}", seconds(_longest_held(gpus))
        yield Evidence(
            of_gpus(gpus),
            said(words, _it(gpus), held, _had(job, gpus)),
            math.fsum(gpu.held_s for gpu in gpus),
            whole_sum(gpu.energy.value_j for gpu in gpus),
            remedy=None if _is_job(job) else NOTHING_RAN,
        )


def gpu_idle(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `gpu-idle`."""
    for gpus in by_node(gpu for gpu in job.judged if is_idle(gpu)):
        is_hidden = any("processes" in gpu.refused for gpu in gpus)
        who = "" if is_hidden else ", although processes had it open"
        words, held = (
            "no kernel ran on {} during the {} {}{}",
            seconds(_longest_held(gpus)),
        )
        wasted = math.fsum(gpu.waste.idle_gpu_s + gpu.waste.no_process_gpu_s for gpu in gpus)
        yield Evidence(of_gpus(gpus), said(words, _it(gpus), held, _had(job, gpus), who), wasted)


def late_idle(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `late-idle`."""
    for gpus in by_node(gpu for gpu in job.judged if _late_s(gpu) and not is_unused(gpu)):
        late = [_late_s(gpu) for gpu in gpus]
        least, most, held = seconds(min(late)), seconds(max(late)), seconds(_longest_held(gpus))
        words = said("idle for the last {} to {} of {}", least, most, held)
        if str(least) == str(most):
            words = said("idle for the last {} of {}", most, held)
        yield Evidence(of_gpus(gpus), words, math.fsum(late))


def idle_stretch(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `idle-stretch`."""
    for gpus in by_node(gpu for gpu in job.judged if _has_stretch(gpu) and not is_unused(gpu)):
        early_s = [length_s for gpu in gpus for length_s in _early_s(gpu)]
        wasted = math.fsum(early_s)
        frac = share(wasted / math.fsum(gpu.held_s for gpu in gpus))
        before = math.fsum(_before_s(job, gpu) for gpu in gpus) >= wasted / 2
        where = "before it worked" if before else "between its work"
        words = said(f"idle {{}} of the time {where}, in stretches of up to {{}}", frac,
                     seconds(max(early_s)))  # fmt: skip
        yield Evidence(of_gpus(gpus), words, wasted, remedy=None if before else BETWEEN)


def idle_often(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `idle-often`."""
    for gpus in by_node(gpu for gpu in job.judged if _rests_often(gpu)):
        mean = statistics.fmean(_pauses_s(gpu) / known_s(gpu) for gpu in gpus)
        words = "idle {} of the time, in short pauses throughout the job"
        wasted = math.fsum(map(_pauses_s, gpus))
        yield Evidence(of_gpus(gpus), said(words, share(mean)), wasted)


def spin(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `spin`."""
    for gpus in by_node(gpu for gpu in job.judged if _spin_frac(gpu) >= SPIN_FRAC):
        told = share(statistics.fmean(map(_spin_frac, gpus)))
        words = "kernels ran but did almost nothing {} of the time: they waited for peers or"
        wasted = math.fsum(gpu.waste.spin_gpu_s for gpu in gpus)
        yield Evidence(of_gpus(gpus), said(f"{words} moved data", told), wasted)


def straggler(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `straggler`."""
    ranks = ranks_by_gpu(job.report)
    for one in job.stragglers:
        its = tuple(ranks.get((one.restart, one.node, one.uuid), ()))
        about = Subject(what=one.name, nodes=(one.node,), restart=one.restart, ranks=its)
        why = one.causes or said("no measurement explains it")
        remedy = FIX if one.causes else BALANCE
        yield Evidence(about, (one.because, *why), one.wasted_gpu_s, remedy=remedy)


def thermal_throttling(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `thermal-throttling`."""
    for gpu in job.long_held:
        frac = _frac(gpu.throttling.thermal_s, gpu)
        if frac >= HEAT_FRAC:
            words, figures = "thermal throttling {} of the time", [share(frac)]
            if gpu.temp_max_c is not None:
                words += ", up to {}"
                figures.append(Figure(gpu.temp_max_c, Unit.CELSIUS))
            yield Evidence(of_gpu(gpu), said(words, *figures))


def power_brake(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `power-brake`."""
    for gpu in job.long_held:
        frac = _frac(gpu.throttling.power_brake_s, gpu)
        if frac >= BRAKE_FRAC:
            words = "power brake active {} of the time"
            yield Evidence(of_gpu(gpu), said(words, share(frac)))


def power_cap_uneven(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `power-cap-uneven`."""
    for gpus in _alike(job.judged):
        capped = {
            gpu.place: _frac(gpu.throttling.power_cap_s, gpu)
            for gpu in gpus
            if gpu.throttling.power_cap_s is not None
        }
        words = "at its power limit {} of the time, peers {}"
        yield from _uneven(gpus, capped, CAP_ABOVE_FRAC, words)


def _uneven(
    gpus: Iterable[GpuAccount], shares: Mapping[GpuPlace, float], floor: float, words: str
) -> Iterator[Evidence]:
    odd = above(shares, floor)
    for gpu in gpus:
        key = gpu.place
        if key in odd:
            own, others = share(shares[key]), share(shares[key] - odd[key])
            yield Evidence(of_gpu(gpu), said(words, own, others))


def gpu_memory_high(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `gpu-memory-high`."""
    for gpus in by_node(gpu for gpu in job.report.gpus if _memory_frac(gpu) >= MEMORY_FRAC):
        most = max(_memory_frac(gpu) for gpu in gpus)
        yield Evidence(of_gpus(gpus), said("peak memory use {}", share(most)))


def gpu_memory_uneven(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `gpu-memory-uneven`."""
    for gpus in _alike(gpu for gpu in job.judged if not is_unused(gpu)):
        shares = {gpu.place: _memory_frac(gpu) for gpu in gpus if _memory_frac(gpu)}
        words = "peak memory use {}, peers {}"
        yield from _uneven(gpus, shares, MEMORY_ABOVE_FRAC, words)


def counter_disagrees(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `counter-disagrees`."""
    for gpu in job.report.gpus:
        counter_j, integral_j = gpu.counter_j, gpu.integral_j
        if not counter_j or integral_j is None or known_s(gpu) < DISAGREE_S:
            continue
        apart = (integral_j - counter_j) / counter_j
        if abs(apart) > DISAGREE_FRAC and known_s(gpu) >= (1 - UNKNOWN_FRAC) * gpu.held_s:
            side = "higher" if apart > 0 else "lower"
            words = "its integrated power is {} {} than its energy counter"
            yield Evidence(of_gpu(gpu), said(words, share(abs(apart)), side))


def coverage_low(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `coverage-low`; nodes without any sample are those of `samples-missing`."""
    sampled = (gpu for gpu in job.report.gpus if known_s(gpu) > 0 or "spin" in gpu.refused)
    for gpus in by_node(sampled):
        unknown = [
            gpu
            for gpu in gpus
            if gpu.waste.unknown_gpu_s > max(UNKNOWN_S, UNKNOWN_FRAC * gpu.held_s)
        ]
        if unknown:
            frac = statistics.fmean(gpu.waste.unknown_gpu_s / gpu.held_s for gpu in unknown)
            why = next((f": {gpu.refused['spin']}" for gpu in unknown if "spin" in gpu.refused), "")
            words = "activity unknown for {} of the time{}"
            yield Evidence(of_gpus(unknown), said(words, share(frac), why))
    for node in job.report.nodes:
        if node.unseen_gpus and node.samples:
            many = "GPU" if node.unseen_gpus == 1 else "GPUs"
            words = "no data on {} requested {}"
            where = Subject(nodes=(node.node,), restart=node.restart)
            yield Evidence(where, said(words, count(node.unseen_gpus), many))


def is_never_used(gpu: GpuAccount) -> bool:
    """Whether no process ever computed on it."""
    return gpu.waste.no_process_gpu_s >= (1 - NEVER_FRAC) * known_s(gpu)


def is_idle(gpu: GpuAccount) -> bool:
    """Whether processes had it and no kernel ever ran."""
    ran = gpu.waste.useful_gpu_s + gpu.waste.spin_gpu_s
    return ran <= NEVER_FRAC * known_s(gpu) and not is_never_used(gpu)


def is_unused(gpu: GpuAccount) -> bool:
    """Whether it did nothing all the time, for one reason or the other."""
    return is_never_used(gpu) or is_idle(gpu)


def _late_s(gpu: GpuAccount) -> float:
    """How long it did nothing at the end, 0 where that is not worth a word."""
    late_s = math.fsum(_length_s(window) for window in gpu.windows if window.is_late)
    frac = late_s / gpu.held_s if gpu.held_s > 0 else 0.0
    kinds = ((LATE_S, LATE_FRAC), (LATE_SHORT_S, LATE_SHORT_FRAC), (LATE_LONG_S, 0.0))
    return late_s if any(late_s >= long and frac >= part for long, part in kinds) else 0.0


def _early_s(gpu: GpuAccount) -> list[float]:
    return [_length_s(window) for window in gpu.windows if not window.is_late]


def _before_s(job: MeasuredJob, gpu: GpuAccount) -> float:
    """How long it did nothing before its first work; what runs for seconds before is none."""
    begun = (one.started_s for one in job.report.nodes
             if (one.restart, one.node) == (gpu.restart, gpu.node))  # fmt: skip
    begun_s = next(begun, None) or job.report.started_s
    first = min(gpu.windows, key=lambda window: window.started_s)
    is_before = not first.is_late and first.started_s - begun_s < STRETCH_S
    return _length_s(first) if is_before else 0.0


def _has_stretch(gpu: GpuAccount) -> bool:
    return math.fsum(_early_s(gpu)) >= max(STRETCH_S, STRETCH_FRAC * gpu.held_s)


def _pauses_s(gpu: GpuAccount) -> float:
    """How long it rested while a process had it, outside of windows."""
    idle = math.fsum(_length_s(window) for window in gpu.windows if window.kind == "idle")
    return max(0.0, gpu.waste.idle_gpu_s - idle)


def _rests_often(gpu: GpuAccount) -> bool:
    is_needed = _memory_frac(gpu) >= NEEDED_MEMORY_FRAC
    return not is_needed and not is_unused(gpu) and _pauses_s(gpu) >= OFTEN_FRAC * known_s(gpu)


def _length_s(window: Window) -> float:
    return window.ended_s - window.started_s


def _spin_frac(gpu: GpuAccount) -> float:
    known = known_s(gpu)
    return gpu.waste.spin_gpu_s / known if known > 0 else 0.0


def _memory_frac(gpu: GpuAccount) -> float:
    if gpu.mem_peak_bytes is None or not gpu.mem_bytes:
        return 0.0
    return gpu.mem_peak_bytes / gpu.mem_bytes


def _frac(seconds: float | None, gpu: GpuAccount) -> float:
    return min(1.0, (seconds or 0.0) / gpu.held_s) if gpu.held_s > 0 else 0.0


def _alike(gpus: Iterable[GpuAccount]) -> list[list[GpuAccount]]:
    groups: dict[tuple[int, str | None], list[GpuAccount]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.restart, gpu.name), []).append(gpu)
    return list(groups.values())


def _is_job(job: MeasuredJob) -> bool:
    return job.report.job.job_id is not None


def _had(job: MeasuredJob, gpus: list[GpuAccount]) -> str:
    return f"the job held {_it(gpus)}" if _is_job(job) else "that was sampled"


def _it(gpus: list[GpuAccount]) -> str:
    return "it" if len(gpus) == 1 else f"these {len(gpus)}"


def _longest_held(gpus: list[GpuAccount]) -> float:
    return max(gpu.held_s for gpu in gpus)


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
HOST_MEMORY_FRAC: Final = 0.95
"""Of the job's limit, without page cache: beyond lies the OOM killer."""


def oom_kill(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `oom-kill`."""
    for node in job.report.nodes:
        if node.oom_kills:
            times = "once" if node.oom_kills == 1 else "{} times"
            kills = [count(node.oom_kills)] if node.oom_kills > 1 else []
            killed = said(f"the kernel OOM-killed a process of the job {times}", *kills)
            frac = _host_memory_frac(node)
            used = said("peak memory use {}", share(frac)) if frac else ()
            yield Evidence(_of(node), (*killed, *used))


def host_memory_high(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `host-memory-high`."""
    for node in job.report.nodes:
        if _host_memory_frac(node) >= HOST_MEMORY_FRAC and not node.oom_kills:
            words = "peak use {} of the job's memory, without page cache"
            yield Evidence(_of(node), said(words, share(_host_memory_frac(node))))


def cpu_starved(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `cpu-starved`."""
    for node in job.report.nodes:
        waited, throttled = _gpus_waited_frac(job, node), node.cpu_throttled_frac or 0.0
        pressed = node.psi_frac.get("cpu_some", 0.0)
        if throttled >= THROTTLED_FRAC:
            words = "the CPU quota throttled the job for {} of its CPU time"
            yield Evidence(_of(node), said(words, share(throttled)))
        elif pressed >= CPU_PRESSURE_FRAC and waited >= GPUS_WAITED_FRAC:
            words = "threads waited for a CPU {} of the time, GPUs idled {}"
            cpus = said("the job has {} CPUs there", count(node.cpus)) if node.cpus else ()
            yield Evidence(_of(node), (*said(words, share(pressed), share(waited)), *cpus))


def io_wait(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `io-wait`."""
    for node in job.report.nodes:
        stalled, waited = node.psi_frac.get("io_full", 0.0), _gpus_waited_frac(job, node)
        if stalled >= IO_PRESSURE_FRAC and waited >= GPUS_WAITED_FRAC:
            words = "all tasks waited for I/O {} of the time, GPUs idled {}"
            yield Evidence(_of(node), said(words, share(stalled), share(waited)))


def memory_pressure(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `memory-pressure`."""
    for node in job.report.nodes:
        stalled = node.psi_frac.get("memory_full", 0.0)
        if stalled >= MEMORY_PRESSURE_FRAC:
            words = "all tasks waited for memory to be reclaimed {} of the time"
            yield Evidence(_of(node), said(words, share(stalled)))


def restarts_lost(job: MeasuredJob) -> Iterator[Evidence]:
    """Rule `restarts-lost`: what was wasted is not known, only that it is no more than all."""
    for run in job.report.incarnations:
        if run.is_lost:
            why = f": {run.because}" if run.because else ""
            lost = said("at most {} lost{}", seconds(run.ended_s - run.started_s), why)
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
        yield Evidence(where, said("no samples, although other nodes have some{}", why))


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


def _host_memory_frac(node: NodeAccount) -> float:
    if node.mem_peak_bytes is None or not node.mem_limit_bytes:
        return 0.0
    return node.mem_peak_bytes / node.mem_limit_bytes
