"""The rules about finished jobs: what they mean, from when on they hold, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.account import rules_checks as found
from hpckit.account import stragglers
from hpckit.account.finding import ReportFinding, finding, share
from hpckit.account.rules_checks import MeasuredJob, ReportRule
from hpckit.account.stragglers import Straggler
from hpckit.account.values import JobReport
from hpckit.core.findings import Severity
from hpckit.core.hostlist import natural_order

_PSI: Final = "Linux Documentation/accounting/psi.rst"
_FIELDS: Final = "nvml.h, NVML_FI_DEV_CLOCKS_EVENT_REASON_*"

RULES: Final = (
    ReportRule(
        name="oom-kill", severity=Severity.ERROR, when=found.oom_kill, threshold="once",
        because="A process of the job exceeded the job's memory on a node and was killed.",
        remedy="request more memory: --mem SIZE, or --set resources.mem_per_cpu=SIZE",
        source="Linux Documentation/admin-guide/cgroup-v2.rst, memory.events: oom_kill",
    ),
    ReportRule(
        name="gpu-never-used", severity=Severity.WARNING, when=found.gpu_never_used,
        threshold=f"{share(1 - found.NEVER_FRAC)} of the measured time",
        because="A GPU was allocated, but no process ever used it.",
        remedy="request fewer GPUs, or find out why no rank started there: hpckit logs",
        source="slurm-job-exporter#65; nvml.h, nvmlDeviceGetComputeRunningProcesses",
    ),
    ReportRule(
        name="gpu-idle", severity=Severity.WARNING, when=found.gpu_idle,
        threshold=f"kernels in at most {share(found.NEVER_FRAC)} of the measured time",
        because="Processes had a GPU open, but no kernel ever ran on it.",
        remedy="check that the program uses this GPU (CUDA_VISIBLE_DEVICES, world size)",
        source="nvml.h, nvmlUtilization_t",
    ),
    ReportRule(
        name="late-idle", severity=Severity.WARNING, when=found.late_idle,
        threshold=f"{found.LATE_S:.0f} s and {share(found.LATE_FRAC)} of the job,"
            f" {found.LATE_SHORT_S:.0f} s and {share(found.LATE_SHORT_FRAC)} of a short job,"
            f" or {found.LATE_LONG_S / 60:.0f} min",
        because="GPUs worked, then idled until the end: a rank hung, or the rest needs no GPU.",
        remedy="check the end of the logs (hpckit logs); end the job when its GPUs are done",
        source="jobstats#28",
    ),
    ReportRule(
        name="straggler", severity=Severity.WARNING, when=found.straggler,
        threshold=f"{share(stragglers.BEHIND_FRAC)} more useful time,"
            f" {share(stragglers.ACTIVITY_BEHIND_FRAC)} busier SMs or a"
            f" {share(stragglers.CLOCK_BEHIND_FRAC)} lower clock than the peers, and beyond"
            " 5 robust standard deviations; long idle stretches do not count, and peers are the"
            f" GPUs in use for as long as most ± {share(stragglers.PEER_FRAC)}",
        because="The other GPUs of the job waited for one GPU.",
        remedy=f"{found.FIX}; without a cause {found.BALANCE}",
        source="median absolute deviation; Sinha et al., arXiv 2208.11035",
    ),
    ReportRule(
        name="spin", severity=Severity.WARNING, when=found.spin,
        threshold=f"{share(found.SPIN_FRAC)} of the measured time",
        because="Kernels ran but did almost nothing: they waited in communication or moved data.",
        remedy="use larger batches per GPU or fewer nodes, or overlap communication with compute",
        source="accounting by GPM or power: hpckit/account/activity.py",
    ),
    ReportRule(
        name="idle-stretch", severity=Severity.WARNING, when=found.idle_stretch,
        threshold=f"{share(found.STRETCH_FRAC)} of the job and {found.STRETCH_S:.0f} s",
        because="GPUs idled for a long time before they worked, or in between.",
        remedy="prepare data and download models in an earlier job without GPUs",
        source="slurm-job-exporter#65, jobstats#28",
    ),
    ReportRule(
        name="thermal-throttling", severity=Severity.WARNING, when=found.thermal_throttling,
        threshold=f"{share(found.HEAT_FRAC)} of the time", because="Heat throttled a GPU.",
        remedy="tell your admins: cooling, dust or a fan; meanwhile --exclude the node",
        source=_FIELDS,
    ),
    ReportRule(
        name="power-brake", severity=Severity.WARNING, when=found.power_brake,
        threshold=f"{share(found.BRAKE_FRAC)} of the time",
        because="The node's power brake slowed a GPU.",
        remedy="tell your admins: a power supply may have failed", source=_FIELDS,
    ),
    ReportRule(
        name="cpu-starved", severity=Severity.WARNING, when=found.cpu_starved,
        threshold=f"quota throttles {share(found.THROTTLED_FRAC)} of the CPU time, or threads wait"
            f" {share(found.CPU_PRESSURE_FRAC)} of the time while GPUs idle",
        because="The job had too few CPUs on a node.",
        remedy="request more CPUs per task (--cpus-per-task), or use fewer loader threads",
        source=_PSI,
    ),
    ReportRule(
        name="io-wait", severity=Severity.WARNING, when=found.io_wait,
        threshold=f"{share(found.IO_PRESSURE_FRAC)} of the time",
        because="The job waited for I/O while its GPUs idled.",
        remedy="use fewer, larger files, node-local copies or more loader workers", source=_PSI,
    ),
    ReportRule(
        name="memory-pressure", severity=Severity.WARNING, when=found.memory_pressure,
        threshold=f"{share(found.MEMORY_PRESSURE_FRAC)} of the time",
        because="The job waited for memory to be reclaimed.",
        remedy="request more memory: --mem SIZE", source=_PSI,
    ),
    ReportRule(
        name="restarts-lost", severity=Severity.NOTE, when=found.restarts_lost,
        threshold="each requeue",
        because="The job was requeued: work since its last checkpoint was lost.",
        remedy="checkpoint more often, so that a requeue loses less", source="sacct(1): Restarts",
    ),
    ReportRule(
        name="idle-often", severity=Severity.NOTE, when=found.idle_often,
        threshold=f"{share(found.OFTEN_FRAC)} of the measured time, unless"
            f" {share(found.NEEDED_MEMORY_FRAC)} of the memory is in use",
        because="GPUs idled in many short pauses: they waited for input, the CPU or another rank.",
        remedy="use more loader workers or larger batches; see cpu-starved, io-wait and straggler",
        source="nvml.h, nvmlUtilization_t; job_defense_shield#2",
    ),
    ReportRule(
        name="power-cap-uneven", severity=Severity.NOTE, when=found.power_cap_uneven,
        threshold=f"{share(found.CAP_ABOVE_FRAC)} of the time more than the peers; being at the"
            " limit is normal",
        because="One GPU was at its power limit far longer than its peers.",
        remedy="tell your admins: nvidia-smi -q -d POWER shows each GPU's limit",
        source=f"DCGM#285; {_FIELDS}",
    ),
    ReportRule(
        name="gpu-memory-high", severity=Severity.NOTE, when=found.gpu_memory_high,
        threshold=str(share(found.MEMORY_FRAC)),
        because="A GPU's memory was nearly full; frameworks may reserve more than they need.",
        remedy="nothing to do if the job ran; a longer sequence or larger batch may not fit",
        source="nvml.h, nvmlMemory_v2_t",
    ),
    ReportRule(
        name="gpu-memory-uneven", severity=Severity.NOTE, when=found.gpu_memory_uneven,
        threshold=f"{share(found.MEMORY_ABOVE_FRAC)} of the memory more than the peers",
        because="One GPU needed far more memory than its peers, and limits the batch size.",
        remedy="balance stages or shards; do not keep data for all ranks on one GPU",
        source="median absolute deviation",
    ),
    ReportRule(
        name="host-memory-high", severity=Severity.NOTE, when=found.host_memory_high,
        threshold=str(share(found.HOST_MEMORY_FRAC)),
        because="The job's memory on a node was nearly full.",
        remedy="request a little more: --mem SIZE",
        source="Linux Documentation/admin-guide/cgroup-v2.rst, memory.stat",
    ),
    ReportRule(
        name="counter-disagrees", severity=Severity.NOTE, when=found.counter_disagrees,
        threshold=f"{share(found.DISAGREE_FRAC)} over {found.DISAGREE_S:.0f} s or more",
        because="A GPU's energy counter and its integrated power disagree: one of them is wrong.",
        remedy="nothing to fix in the job; do not trust this GPU's energy",
        source="zeus#181; arXiv 2312.02741",
    ),
    ReportRule(
        name="samples-missing", severity=Severity.NOTE, when=found.samples_missing,
        threshold="no sample",
        because="A node has no samples although others have: the report says nothing about it.",
        remedy="nothing to fix in the job; check whether the node was lost, or the sampler could"
            " not start there",
        source="docs/reference/account-files.md",
    ),
    ReportRule(
        name="coverage-low", severity=Severity.NOTE, when=found.coverage_low,
        threshold=f"{share(found.UNKNOWN_FRAC)} of the time and {found.UNKNOWN_S:.0f} s unknown,"
            " or a requested GPU without any record",
        because="Samples cover only part of the time; the report describes that part.",
        remedy="nothing to fix in the job; possible causes: a full file system, a lost node, or a"
            " script that does much before the sampler starts",
        source="docs/reference/account-files.md",
    ),
)  # fmt: skip


def report_findings(
    report: JobReport, stragglers: Sequence[Straggler] = ()
) -> tuple[ReportFinding, ...]:
    """Return what is worth knowing, the worst first: by severity, then by GPU-seconds lost."""
    job = MeasuredJob(report=report, stragglers=tuple(stragglers))
    told = [
        finding(
            rule.name,
            rule.severity,
            seen.about,
            seen.evidence,
            rule.remedy if seen.remedy is None else seen.remedy,
            wasted_gpu_s=seen.wasted_gpu_s,
            wasted_j=seen.wasted_j,
        )
        for rule in RULES
        for seen in rule.when(job)
    ]
    return tuple(sorted(told, key=_place))


def _place(told: ReportFinding) -> tuple[object, ...]:
    wasted_gpu_s = told.wasted_gpu_s or 0.0
    subject = natural_order(told.subject)
    return -told.severity.rank, -wasted_gpu_s, told.rule, subject, told.because
