"""What a job used and what that was for: `hpckit.report/1` as a value.

Everywhere None is "not measured", with the reason beside it, and 0 is a measured zero. Energies are
joules, times seconds since the epoch, durations seconds, shares 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from hpckit.account.finding import ReportFinding

GPUS_ALONE: Final = "GPUs only"
"""What a cost is of where the nodes' energy is unknown."""


class Cost(Struct, frozen=True, kw_only=True):
    """What the energy cost, with the site's factors; None where the site file has no factor.

    `is_of_gpus` is whether its figures are of the GPUs alone, as the nodes' energy is unknown;
    `absent` are the factors that the site file lacks, by their keys in [energy]. `because` says
    both.
    """

    facility_j: float | None = None
    pue: float | None = None
    price: float | None = None
    currency: str | None = None
    co2_g: float | None = None
    because: str = ""
    is_of_gpus: bool = False
    absent: tuple[str, ...] = ()

    @property
    def lack(self) -> str:
        """Which factors are absent; empty where none is."""
        return f"the site file's [energy] has no {', '.join(self.absent)}" if self.absent else ""


MODEL_KEYS: Final = ("node_idle_w", "cpu_core_w")
"""The keys of the site file's [energy] by which a node without a meter is modelled."""


class EnergyLack(StrEnum):
    """What is lacking; `other` where only a sentence says it.

    Of a node that other jobs may use, `own-meter`: its meters count them too; `own-share`: what
    part of it is the job's is not modelled.
    """

    METER = "meter"
    SAMPLES = "samples"
    OWN_METER = "own-meter"
    OWN_SHARE = "own-share"
    SITE_KEYS = "site-keys"
    SLURM_PLUGIN = "slurm-plugin"
    OTHER = "other"


class EnergyReason(Struct, frozen=True, kw_only=True):
    """One reason: `keys` are those of `site-keys`, and `text` is what `other` says."""

    kind: EnergyLack = EnergyLack.OTHER
    keys: tuple[str, ...] = ()
    text: str = ""

    @property
    def is_all_keys(self) -> bool:
        """Whether the site file has none of what a node is modelled by."""
        return self.kind is EnergyLack.SITE_KEYS and len(self.keys) == len(MODEL_KEYS)

    def __str__(self) -> str:
        """The reason in full."""
        if self.kind is EnergyLack.SITE_KEYS:
            keys = " and ".join(f"energy.{key}" for key in self.keys)
            return f"set {keys} in the site file"
        return _WORDS.get(self.kind, self.text)


_WORDS: Final[Mapping[EnergyLack, str]] = {
    EnergyLack.METER: "no readable meter",
    EnergyLack.SAMPLES: "no samples of the host",
    EnergyLack.OWN_METER: "other jobs may share this node, and its meters include them",
    EnergyLack.OWN_SHARE: "hpckit does not model a share of a node",
    EnergyLack.SLURM_PLUGIN: "Slurm records no energy here",
}


class SlurmEnergy(Struct, frozen=True, kw_only=True):
    """Joules of a job's nodes by Slurm's accounting, and the plugin that counted them.

    `value_j` is None where it has none, and `reasons` say why.
    """

    value_j: float | None = None
    plugin: str | None = None
    reasons: tuple[EnergyReason, ...] = ()


REPORT_SCHEMA: Final = "hpckit.report/1"
ADVICE_SCHEMA: Final = "hpckit.advice/1"
SPLIT_GPU: Final = "split-gpu"

GpuPlace = tuple[int, str, str]
"""Restart, node and uuid: two nodes may name one GPU."""


class EnergySource(StrEnum):
    """Where a number of joules comes from, the best first."""

    COUNTER = "counter"
    INTEGRATED = "integrated"
    MODELLED = "modelled"
    SLURM = "slurm"
    MIXED = "mixed"


class Energy(Struct, frozen=True, kw_only=True):
    """An energy with its provenance.

    `plus_minus_j` is the half width of the 95 % interval, and `unseen_j` the part of it for what a
    power sensor does not see: boards in step hide the same, so that it adds up over them, and the
    rest as squares. `coverage_frac` is the share of the time for which something was measured;
    `scope` is `gpu`, `split-gpu` (the whole of a GPU that MIG splits: what the slices of other jobs
    took is in it, without ±), `module` (CPU and memory with it), `cpu`, `node`. Without a
    value `because` says why there is none, of nodes also by kind in `reasons`, else what it was
    made of.
    """

    value_j: float | None
    plus_minus_j: float | None = None
    unseen_j: float = 0.0
    source: EnergySource | None = None
    coverage_frac: float = 0.0
    scope: str = "gpu"
    because: str = ""
    reasons: tuple[EnergyReason, ...] = ()

    @classmethod
    def unknown_of_node(cls, *reasons: EnergyReason) -> Energy:
        """That of a node, or of nodes, which nothing tells."""
        because = "; ".join(map(str, reasons))
        return cls(value_j=None, scope="node", because=because, reasons=reasons)


class Share(Struct, frozen=True, kw_only=True):
    """How GPU-seconds were spent, in GPU-seconds; `unknown` is time without a measurement.

    `no_process`: held, and nothing computed on it; `idle`: a process, and no kernel ran; `spin`:
    kernels ran and did little (communication, waiting); `useful`: the rest. Where all of it is
    `unknown` the others are 0 and not measured.
    """

    no_process_gpu_s: float = 0.0
    idle_gpu_s: float = 0.0
    spin_gpu_s: float = 0.0
    useful_gpu_s: float = 0.0
    unknown_gpu_s: float = 0.0

    @property
    def total_gpu_s(self) -> float:
        """All of it."""
        wasted = self.no_process_gpu_s + self.idle_gpu_s + self.spin_gpu_s
        return wasted + self.useful_gpu_s + self.unknown_gpu_s

    @property
    def is_measured(self) -> bool:
        """Whether any of it was measured."""
        return self.total_gpu_s > self.unknown_gpu_s


class Throttling(Struct, frozen=True, kw_only=True):
    """Seconds for which the clocks were held down, None where the driver does not say."""

    power_cap_s: float | None = None
    thermal_s: float | None = None
    power_brake_s: float | None = None


class Window(Struct, frozen=True, kw_only=True):
    """A stretch of time in which a GPU was held and did nothing; `kind` no-process or idle.

    `started_s` and `ended_s` are seconds since the epoch, as the report's own are. `is_late` where
    it reaches to the end of the time that the GPU was held.
    """

    kind: str
    started_s: float
    ended_s: float
    is_late: bool = False


class Curve(Struct, frozen=True, kw_only=True):
    """A quantity over time, thinned for drawing: `at_s` seconds after the report's `started_s`.

    `values` are means, `lows` and `highs` the extremes of what each point stands for; None is a
    gap.
    """

    name: str
    unit: str
    at_s: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()
    lows: tuple[float | None, ...] = ()
    highs: tuple[float | None, ...] = ()


class GpuAccount(Struct, frozen=True, kw_only=True):
    """One GPU in one incarnation of the job.

    `energy.value_j` is the number to use: the counter's where it counted, the integral of the power
    elsewhere. `counter_j` and `integral_j` check one by the other and are no totals: both are of
    the times alone that counter and power cover. Where there is no such time, or the counter stood
    still in it, `counter_j` is None, and `integral_j` is of all that power covers.
    """

    uuid: str
    node: str
    index: int | None
    name: str | None
    restart: int
    held_s: float
    energy: Energy
    waste: Share
    throttling: Throttling = Throttling()
    idle_remainder_j: float | None = None
    counter_j: float | None = None
    integral_j: float | None = None
    util_mean_pct: float | None = None
    power_mean_w: float | None = None
    power_max_w: float | None = None
    power_limit_w: float | None = None
    temp_max_c: float | None = None
    sm_mean_mhz: float | None = None
    mem_peak_bytes: int | None = None
    mem_bytes: int | None = None
    sm_active_frac: float | None = None
    tensor_active_frac: float | None = None
    dram_active_frac: float | None = None
    mfu_proxy_frac: float | None = None
    nvlink_tx_bytes: int | None = None
    nvlink_rx_bytes: int | None = None
    pcie_tx_bytes: int | None = None
    pcie_rx_bytes: int | None = None
    windows: tuple[Window, ...] = ()
    curves: tuple[Curve, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`GPU3`; a GPU that only a ledger names goes by its uuid."""
        return self.uuid if self.index is None else f"GPU{self.index}"

    @property
    def place(self) -> GpuPlace:
        """What tells a GPU's account from all others of the job."""
        return self.restart, self.node, self.uuid


class RankAccount(Struct, frozen=True, kw_only=True):
    """One rank in one incarnation; `gpus` by uuid, `claim` as in hpckit.account.ledger.RankStart.

    `ended_by` is the evidence of its end: `ledger`, or, of one that was killed, `processes`
    (from then on nothing ran on its GPUs), `next-life` (it was started anew) or `sample` (its
    node's last evidence); `running` has none. `busy_frac` (0 to 1) is the useful part of the time
    that it had GPUs, the mean over these. `behind_frac` is by which part its work takes longer than
    its peers', on the worst of its GPUs: 0.16 is 16 % longer, 0 is no straggler, None is not
    compared.
    """

    rank: int
    node: str
    restart: int
    gpus: tuple[str, ...]
    claim: str
    started_s: float
    ended_s: float | None
    ended_by: str
    exit_code: int | None
    energy: Energy
    busy_frac: float | None = None
    behind_frac: float | None = None
    cpu_s: float | None = None
    max_rss_bytes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


class NodeAccount(Struct, frozen=True, kw_only=True):
    """One node in one incarnation. `missing` says what is not there of it, and why.

    `started_s` and `ended_s` are its first and last evidence, None where it left none; `unseen_s`
    is how much longer it was held, before and after. `unseen_gpus` are those that the job asked for
    there and that no account names.
    `mem_peak_bytes` is the most of the samples, without page cache: what comes and goes between two
    is not in it. `mem_kernel_peak_bytes` is the kernel's own peak, which misses nothing and counts
    page cache: the need lies between the two. `cpus_enough` are the fewest CPUs on which the job's
    work there would have taken 1 % longer at most, by means of 5 s.
    """

    node: str
    restart: int
    started_s: float | None
    ended_s: float | None
    gpu_energy: Energy
    energy: Energy
    samples: int = 0
    cpus: int | None = None
    cpu_s: float | None = None
    cpus_enough: float | None = None
    cpu_throttled_s: float | None = None
    mem_peak_bytes: int | None = None
    mem_kernel_peak_bytes: int | None = None
    mem_limit_bytes: int | None = None
    oom_kills: int | None = None
    psi_frac: Mapping[str, float] = field(default_factory=dict)
    network_bytes: Mapping[str, int] = field(default_factory=dict)
    sampler_cpu_s: float | None = None
    unseen_gpus: int = 0
    unseen_s: float = 0.0
    missing: tuple[str, ...] = ()

    @property
    def span_s(self) -> float | None:
        """The time for which it was measured."""
        if self.started_s is None or self.ended_s is None or self.ended_s <= self.started_s:
            return None
        return self.ended_s - self.started_s

    @property
    def cpu_throttled_frac(self) -> float | None:
        """The share of its CPUs' time for which a quota held the job back, 1 at most.

        The kernel adds up a group's throttled time over CPUs (`throttled_time` of cfs_bandwidth,
        kernel/sched/fair.c), so that it may be many times what passed.
        """
        if self.cpu_throttled_s is None or not self.cpus or self.span_s is None:
            return None
        return min(1.0, self.cpu_throttled_s / (self.cpus * self.span_s))


class Incarnation(Struct, frozen=True, kw_only=True):
    """One run of the job between two requeues.

    `is_lost` where a later one followed: what no checkpoint kept of it was lost, all of it at most.
    """

    restart: int
    started_s: float
    ended_s: float
    gpu_energy: Energy
    gpu_s: float
    is_lost: bool
    because: str = ""


class Conservation(Struct, frozen=True, kw_only=True):
    """Σ ranks + idle remainder = Σ GPUs, checked: `error_j` is what is left over."""

    ranks_j: float
    idle_remainder_j: float
    gpus_j: float

    @property
    def error_j(self) -> float:
        """What is left over; rounding alone where the accounts are right."""
        return self.gpus_j - self.ranks_j - self.idle_remainder_j


class Advice(Struct, frozen=True, kw_only=True):
    """A change to the job file: key (dotted), value now and proposed in the file's spelling.

    `saving` is what it is predicted to save, by quantity (`gpu_s`, `energy_j`, `mem_bytes` …).
    """

    key: str
    now: str | None
    proposed: str
    because: str
    saving: Mapping[str, float] = field(default_factory=dict)


class AdviceOutcome(Struct, frozen=True, kw_only=True):
    """Whether one prediction of the advice that this job was submitted with came true.

    `report` is the job whose report gave the advice; `quantity` is what was predicted, in the unit
    at its end, and `before` what the measured job had of it. `held` is None where this run cannot
    tell, and `because` says why it is as it is.
    """

    report: str
    key: str
    proposed: str
    quantity: str
    predicted: float | None
    measured: float | None
    held: bool | None
    because: str
    before: float | None = None


class ReportedJob(Struct, frozen=True, kw_only=True):
    """The job that the report is about.

    `state` is Slurm's word, None where nobody told; `synthetic` marks measurements that a fake
    driver made up. `nodes` and `gpus` are what the job had at once: the most of any incarnation,
    with the GPUs that no account names. `gpus_asked` were asked for (None: unknown), and
    `gpus_because` says why on some nodes none was seen, empty where none was wanted. `placement` is
    what the ranks of its latest start proved about their places.
    """

    job_id: str | None = None
    name: str | None = None
    array_task: int | None = None
    state: str | None = None
    exit_code: int | None = None
    folder: str | None = None
    nodes: int = 0
    gpus: int = 0
    gpus_asked: int | None = None
    gpus_because: str = ""
    time_limit_s: float | None = None
    placement: str | None = None
    synthetic: bool = False


class JobEnergy(Struct, frozen=True, kw_only=True):
    """The energies of the whole job: all incarnations.

    `lost_gpu_j` is that of incarnations before a requeue, the most that can have been lost.
    """

    gpu: Energy
    node: Energy
    useful_gpu_j: float | None = None
    lost_gpu_j: float | None = None
    conservation: Conservation | None = None


class JobReport(Struct, frozen=True, kw_only=True):
    """The whole report. `missing` says what is not in it, a sentence each.

    `advice_patch` is the advice as a unified diff of the job file, None where there is no file or
    it takes a person; `advice_options` the same for `hpckit submit`.
    """

    job: ReportedJob
    started_s: float
    ended_s: float
    energy: JobEnergy
    cost: Cost
    waste: Share
    incarnations: tuple[Incarnation, ...] = ()
    gpus: tuple[GpuAccount, ...] = ()
    ranks: tuple[RankAccount, ...] = ()
    nodes: tuple[NodeAccount, ...] = ()
    findings: tuple[ReportFinding, ...] = ()
    advice: tuple[Advice, ...] = ()
    advice_patch: str | None = None
    advice_options: str = ""
    outcomes: tuple[AdviceOutcome, ...] = ()
    missing: tuple[str, ...] = ()


def ranks_by_gpu(report: JobReport) -> Mapping[GpuPlace, tuple[int, ...]]:
    """The ranks that had each GPU, each once, in their order; none of a GPU that no rank had."""
    ranks: dict[GpuPlace, set[int]] = {}
    for rank in report.ranks:
        for uuid in rank.gpus:
            ranks.setdefault((rank.restart, rank.node, uuid), set()).add(rank.rank)
    return {place: tuple(sorted(its)) for place, its in ranks.items()}
