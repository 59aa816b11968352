"""The rules about finished jobs: what they mean, from when on they hold, and what to do."""

from __future__ import annotations

from typing import Final

from hpckit.measure import finding_checks_gpu as gpu
from hpckit.measure import finding_checks_node as node
from hpckit.measure import stragglers
from hpckit.measure.finding_rule import Rule
from hpckit.model.node_finding import Severity
from hpckit.model.report_finding import share

_PSI: Final = "Linux Documentation/accounting/psi.rst"
_FIELDS: Final = "nvml.h, NVML_FI_DEV_CLOCKS_EVENT_REASON_*"

RULES: Final = (
    Rule(
        name="oom-kill",
        severity=Severity.ERROR,
        what="A process of the job used more memory than the job has on a node, and was killed.",
        threshold="once",
        remedy="ask for more memory: --mem SIZE, or --set resources.mem_per_cpu=SIZE",
        source="Linux Documentation/admin-guide/cgroup-v2.rst, memory.events: oom_kill",
        check=node.oom_kill,
    ),
    Rule(
        name="gpu-never-used",
        severity=Severity.WARNING,
        what="A GPU was held, and no process ever computed on it.",
        threshold=f"{share(1 - gpu.NEVER_FRAC)} of the known time",
        remedy="ask for fewer GPUs, or see why ranks did not start on it: hpckit logs",
        source="slurm-job-exporter#65; nvml.h, nvmlDeviceGetComputeRunningProcesses",
        check=gpu.gpu_never_used,
    ),
    Rule(
        name="gpu-idle",
        severity=Severity.WARNING,
        what="Processes had a GPU, and no kernel ever ran on it.",
        threshold=f"kernels in at most {share(gpu.NEVER_FRAC)} of the known time",
        remedy="see whether the program was told to use it (CUDA_VISIBLE_DEVICES, world size)",
        source="nvml.h, nvmlUtilization_t",
        check=gpu.gpu_idle,
    ),
    Rule(
        name="late-idle",
        severity=Severity.WARNING,
        what="GPUs worked, then did nothing to the end: a rank hung, or the rest needs no GPU.",
        threshold=(
            f"{gpu.LATE_S:.0f} s that are {share(gpu.LATE_FRAC)} of the job,"
            f" {gpu.LATE_SHORT_S:.0f} s that are {share(gpu.LATE_SHORT_FRAC)} of a short one,"
            f" or {gpu.LATE_LONG_S / 60:.0f} min"
        ),
        remedy="look at the end of the logs (hpckit logs); end the job when its GPUs are done",
        source="jobstats#28",
        check=gpu.late_idle,
    ),
    Rule(
        name="straggler",
        severity=Severity.WARNING,
        what="The others of the job waited for one GPU.",
        threshold=(
            f"{share(stragglers.BEHIND_FRAC)} more useful time,"
            f" {share(stragglers.ACTIVITY_BEHIND_FRAC)} busier SMs or a clock that is"
            f" {share(stragglers.CLOCK_BEHIND_FRAC)} lower than the others', and beyond 5 robust"
            " standard deviations; without long stretches in which nothing ran, among GPUs that"
            f" were in use for as long as most ± {share(stragglers.PEER_FRAC)}"
        ),
        remedy=f"{gpu.MEND}; without a cause {gpu.BALANCE}",
        source="median absolute deviation; Sinha et al., arXiv 2208.11035",
        check=gpu.straggler,
    ),
    Rule(
        name="spin",
        severity=Severity.WARNING,
        what="Kernels ran, and did next to nothing: they waited in communication or moved data.",
        threshold=f"{share(gpu.SPIN_FRAC)} of the known time",
        remedy="larger batches per GPU, fewer nodes, or communication that overlaps with work",
        source="accounting by GPM or power: hpckit/measure/states.py",
        check=gpu.spin,
    ),
    Rule(
        name="idle-stretch",
        severity=Severity.WARNING,
        what="GPUs were held and did nothing for long before they worked, or in between.",
        threshold=f"{share(gpu.STRETCH_FRAC)} of the job and {gpu.STRETCH_S:.0f} s",
        remedy="prepare data and download models in a job without GPUs before this one",
        source="slurm-job-exporter#65, jobstats#28",
        check=gpu.idle_stretch,
    ),
    Rule(
        name="thermal-throttling",
        severity=Severity.WARNING,
        what="Heat held a GPU's clocks down.",
        threshold=f"{share(gpu.HEAT_FRAC)} of the time",
        remedy="tell your operator: cooling, dust, a fan; --exclude the node until then",
        source=_FIELDS,
        check=gpu.thermal_throttling,
    ),
    Rule(
        name="power-brake",
        severity=Severity.WARNING,
        what="The node's power supply held a GPU's clocks down.",
        threshold=f"{share(gpu.BRAKE_FRAC)} of the time",
        remedy="tell your operator: a power supply may have failed",
        source=_FIELDS,
        check=gpu.power_brake,
    ),
    Rule(
        name="cpu-starved",
        severity=Severity.WARNING,
        what="The job had too few CPUs on a node.",
        threshold=(
            f"quota in {share(node.THROTTLED_FRAC)} of its CPUs' time, or threads waiting in"
            f" {share(node.CPU_PRESSURE_FRAC)} beside idle GPUs"
        ),
        remedy="more CPUs a task (--cpus-per-task), or fewer loader threads",
        source=_PSI,
        check=node.cpu_starved,
    ),
    Rule(
        name="io-wait",
        severity=Severity.WARNING,
        what="The job waited for files while its GPUs were idle.",
        threshold=f"{share(node.IO_PRESSURE_FRAC)} of the time",
        remedy="fewer and larger files, node-local copies, more loader workers",
        source=_PSI,
        check=node.io_wait,
    ),
    Rule(
        name="memory-pressure",
        severity=Severity.WARNING,
        what="The job waited for its own memory to be freed.",
        threshold=f"{share(node.MEMORY_PRESSURE_FRAC)} of the time",
        remedy="ask for more memory: --mem SIZE",
        source=_PSI,
        check=node.memory_pressure,
    ),
    Rule(
        name="restarts-lost",
        severity=Severity.NOTE,
        what="The job was requeued: what no checkpoint kept was lost.",
        threshold="each requeue",
        remedy="checkpoints bound what a requeue costs",
        source="sacct(1): Restarts",
        check=node.restarts_lost,
    ),
    Rule(
        name="idle-often",
        severity=Severity.NOTE,
        what="GPUs rested in many short pauses: for input, for the CPU, or for another rank.",
        threshold=(
            f"{share(gpu.OFTEN_FRAC)} of the known time, unless"
            f" {share(gpu.NEEDED_MEMORY_FRAC)} of the memory is in use"
        ),
        remedy="more loader workers, or larger batches; see cpu-starved, io-wait and straggler",
        source="nvml.h, nvmlUtilization_t; job_defense_shield#2",
        check=gpu.idle_often,
    ),
    Rule(
        name="power-cap-uneven",
        severity=Severity.NOTE,
        what="The power limit held one GPU's clocks down far longer than those of its peers.",
        threshold=f"{share(gpu.CAP_ABOVE_FRAC)} of the time more; by itself it is normal",
        remedy="tell your operator: nvidia-smi -q -d POWER shows each GPU's limit",
        source=f"DCGM#285; {_FIELDS}",
        check=gpu.power_cap_uneven,
    ),
    Rule(
        name="gpu-memory-high",
        severity=Severity.NOTE,
        what="A GPU's memory was nearly full; frameworks may reserve more than they need.",
        threshold=str(share(gpu.MEMORY_FRAC)),
        remedy="nothing to do if it ran; a longer sequence or larger batch may not fit",
        source="nvml.h, nvmlMemory_v2_t",
        check=gpu.gpu_memory_high,
    ),
    Rule(
        name="gpu-memory-uneven",
        severity=Severity.NOTE,
        what="One GPU needed far more memory than its peers, and sets what fits.",
        threshold=f"{share(gpu.MEMORY_ABOVE_FRAC)} of the memory more than the others",
        remedy="balance stages or shards; let one rank not hold what all need",
        source="median absolute deviation",
        check=gpu.gpu_memory_uneven,
    ),
    Rule(
        name="host-memory-high",
        severity=Severity.NOTE,
        what="The job's memory on a node was nearly full.",
        threshold=str(share(node.MEMORY_FRAC)),
        remedy="ask for some more: --mem SIZE",
        source="Linux Documentation/admin-guide/cgroup-v2.rst, memory.stat",
        check=node.host_memory_high,
    ),
    Rule(
        name="counter-disagrees",
        severity=Severity.NOTE,
        what="A GPU's energy counter and its power over time do not agree: one of them is wrong.",
        threshold=f"{share(gpu.DISAGREE_FRAC)} over {gpu.DISAGREE_S:.0f} s or more",
        remedy="nothing in the job; take this GPU's energy with care",
        source="zeus#181; arXiv 2312.02741",
        check=gpu.counter_disagrees,
    ),
    Rule(
        name="samples-missing",
        severity=Severity.NOTE,
        what="Of a node there are no samples though of others there are: nothing is said of it.",
        threshold="no sample",
        remedy="nothing in the job; was the node lost, or could the sampler not start there",
        source="docs/reference/account-files.md",
        check=node.samples_missing,
    ),
    Rule(
        name="coverage-low",
        severity=Severity.NOTE,
        what="Samples cover part of the time only; what is said is of that part.",
        threshold=f"{share(gpu.UNKNOWN_FRAC)} of the time and {gpu.UNKNOWN_S:.0f} s unknown;"
        " a GPU that was asked for and that no account names",
        remedy="nothing in the job; a full file system, a node that was lost, or much that the"
        " script does before the sampler starts may be the reason",
        source="docs/reference/account-files.md",
        check=gpu.coverage_low,
    ),
)
