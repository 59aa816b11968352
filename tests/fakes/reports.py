"""Reports of jobs that never ran: the training of 16 GPUs on 2 nodes that docs show."""

from __future__ import annotations

from msgspec.structs import replace

from hpckit.account.energy import share_sum
from hpckit.account.finding import ReportFinding
from hpckit.account.values import (
    Advice,
    Conservation,
    Cost,
    Curve,
    Energy,
    EnergySource,
    GpuAccount,
    Incarnation,
    JobEnergy,
    JobReport,
    NodeAccount,
    RankAccount,
    ReportedJob,
    Share,
    Throttling,
    Window,
)
from hpckit.core.findings import Severity

KWH_J = 3.6e6
STARTED_S = 1_780_000_000.0
HELD_S = 2467.0


def counted(value_j: float, plus_minus_j: float | None = None, scope: str = "gpu") -> Energy:
    """Joules of a counter that was read all the time."""
    return Energy(
        value_j=value_j,
        plus_minus_j=value_j * 0.01 if plus_minus_j is None else plus_minus_j,
        source=EnergySource.COUNTER,
        coverage_frac=1.0,
        scope=scope,
    )


def unknown(because: str, scope: str = "gpu") -> Energy:
    """An energy that nobody measured."""
    return Energy(value_j=None, scope=scope, because=because)


def gpu_account(number: int, *, useful: float = 0.8, heat_s: float = 0.0) -> GpuAccount:
    """GPU `number` of 16."""
    waste = Share(
        useful_gpu_s=HELD_S * useful,
        spin_gpu_s=HELD_S * (1 - useful) * 0.75,
        idle_gpu_s=HELD_S * (1 - useful) * 0.25,
    )
    return GpuAccount(
        uuid=f"GPU-{number:08d}-0000",
        node=f"n{12 + number // 8:03d}",
        index=number % 8,
        name="NVIDIA H100 80GB HBM3",
        restart=0,
        held_s=HELD_S,
        energy=counted(0.57 * KWH_J),
        waste=waste,
        throttling=Throttling(power_cap_s=300.0, thermal_s=heat_s, power_brake_s=0.0),
        idle_remainder_j=0.01 * KWH_J,
        util_mean_pct=91.5,
        power_mean_w=830.0,
        temp_max_c=70.0,
        mem_peak_bytes=61 * 10**9 + number,
        mem_bytes=80 * 10**9,
        windows=(Window(kind="idle", started_s=STARTED_S, ended_s=STARTED_S + 240),),
        curves=(Curve(name="power", unit="W", at_s=(0.0, 1.0), values=(500.0, None)),),
    )


def rank_account(rank: int, *, behind: float = 0.0) -> RankAccount:
    """The rank that had GPU `rank`."""
    return RankAccount(
        rank=rank,
        node=f"n{12 + rank // 8:03d}",
        restart=0,
        gpus=(f"GPU-{rank:08d}-0000",),
        claim="visible",
        started_s=STARTED_S + 2,
        ended_s=STARTED_S + HELD_S,
        ended_by="ledger",
        exit_code=0,
        energy=counted(0.56 * KWH_J),
        behind_frac=behind,
        cpu_s=2400.0,
        max_rss_bytes=12 * 10**9,
    )


def node_account(number: int) -> NodeAccount:
    """One of the two nodes."""
    return NodeAccount(
        node=f"n{12 + number:03d}",
        restart=0,
        started_s=STARTED_S,
        ended_s=STARTED_S + HELD_S,
        gpu_energy=counted(8 * 0.57 * KWH_J),
        energy=Energy(
            value_j=6.5 * KWH_J,
            source=EnergySource.MODELLED,
            coverage_frac=1.0,
            scope="node",
        ),
        samples=19_736,
        cpus=96,
        cpu_s=30_000.0,
        mem_peak_bytes=200 * 10**9,
        mem_limit_bytes=512 * 10**9,
        oom_kills=0,
    )


def training() -> JobReport:
    """A good training with one straggler, requeued once."""
    gpus = tuple(gpu_account(number, heat_s=540.0 if number == 11 else 0.0) for number in range(16))
    return JobReport(
        job=ReportedJob(
            job_id="4242",
            name="train",
            state="COMPLETED",
            exit_code=0,
            nodes=2,
            gpus=16,
            time_limit_s=3600.0,
            synthetic=True,
        ),
        started_s=STARTED_S,
        ended_s=STARTED_S + HELD_S,
        energy=JobEnergy(
            gpu=counted(9.12 * KWH_J, 0.4 * KWH_J),
            node=Energy(
                value_j=13.0 * KWH_J, source=EnergySource.MODELLED, coverage_frac=1.0, scope="node"
            ),
            useful_gpu_j=8.0 * KWH_J,
            lost_gpu_j=1.12 * KWH_J,
            conservation=Conservation(
                ranks_j=8.96 * KWH_J, idle_remainder_j=0.16 * KWH_J, gpus_j=9.12 * KWH_J
            ),
        ),
        cost=Cost(facility_j=15.6 * KWH_J, pue=1.2, price=4.68, currency="EUR", co2_g=4100.0),
        waste=share_sum([one.waste for one in gpus]),
        incarnations=(
            Incarnation(
                restart=0,
                started_s=STARTED_S - 400,
                ended_s=STARTED_S - 28,
                gpu_energy=counted(1.12 * KWH_J),
                gpu_s=16 * 372.0,
                is_lost=True,
            ),
            Incarnation(
                restart=1,
                started_s=STARTED_S,
                ended_s=STARTED_S + HELD_S,
                gpu_energy=counted(8.0 * KWH_J),
                gpu_s=16 * HELD_S,
                is_lost=False,
            ),
        ),
        gpus=gpus,
        ranks=tuple(rank_account(rank, behind=0.09 if rank == 11 else 0.0) for rank in range(16)),
        nodes=(node_account(0), node_account(1)),
        findings=(
            ReportFinding(
                rule="straggler",
                severity=Severity.WARNING,
                subject="rank 11",
                because="it is 9 % behind the others: GPU3 on n013 was slowed by heat 22 % of the "
                "time",
                remedy="tell your operator; exclude n013 until then",
                wasted_gpu_s=3330.0,
            ),
        ),
        advice=(
            Advice(
                key="resources.time_limit",
                now="1:00:00",
                proposed="0:50:00",
                because="it took 41:07; a shorter limit starts sooner",
                saving={"wait_s": 600.0},
            ),
        ),
    )


def clean() -> JobReport:
    """A training of which there is nothing to say."""
    report = training()
    return replace(
        report,
        gpus=tuple(gpu_account(number) for number in range(16)),
        ranks=tuple(rank_account(rank) for rank in range(16)),
        incarnations=report.incarnations[1:],
        findings=(),
        advice=(),
    )
