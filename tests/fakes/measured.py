"""Made-up accounts of a job that did nothing wrong, to be changed one thing at a time."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from hpckit.account.values import (
    Cost,
    Energy,
    GpuAccount,
    Incarnation,
    JobEnergy,
    JobReport,
    NodeAccount,
    RankAccount,
    ReportedJob,
    Share,
    Throttling,
)

HELD_S: Final = 1000.0
GIB: Final = 1 << 30


def shares(**seconds: float) -> Share:
    """A share of HELD_S by the names of the classes; the rest is useful."""
    rest = HELD_S - sum(seconds.values())
    named = {f"{name}_gpu_s": value for name, value in seconds.items()}
    return Share(**{"useful_gpu_s": rest, **named})


def gpu(index: int, **changes: Any) -> GpuAccount:
    """GPU `index` of node n1, which worked 95 % of the time; it scatters a little."""
    made = GpuAccount(
        uuid=f"GPU-{index}",
        node="n1",
        index=index,
        name="synthetic H100",
        restart=0,
        held_s=HELD_S,
        energy=Energy(value_j=600_000.0, coverage_frac=1.0),
        waste=shares(idle=40 + index, spin=10),
        throttling=Throttling(power_cap_s=300 + 20 * index, thermal_s=0.0, power_brake_s=0.0),
        counter_j=600_000.0,
        integral_j=590_000.0 + 1000 * index,
        util_mean_pct=96.0,
        power_mean_w=600.0,
        power_limit_w=700.0,
        temp_max_c=65.0,
        sm_mean_mhz=1900.0 - 10 * index,
        mem_peak_bytes=60 * GIB,
        mem_bytes=80 * GIB,
        sm_active_frac=0.8 + 0.002 * index,
    )
    return replace(made, **changes)


def gpus(count: int = 4, **last: Any) -> tuple[GpuAccount, ...]:
    """So many GPUs, the last of them changed."""
    return (*(gpu(index) for index in range(count - 1)), gpu(count - 1, **last))


def node(name: str = "n1", **changes: Any) -> NodeAccount:
    """A node whose host kept up."""
    made = NodeAccount(
        node=name,
        restart=0,
        started_s=0.0,
        ended_s=HELD_S,
        gpu_energy=Energy(value_j=2_400_000.0),
        energy=Energy(value_j=None),
        samples=1000,
        cpus=32,
        cpu_s=8000.0,
        cpu_throttled_s=0.0,
        mem_peak_bytes=100 * GIB,
        mem_limit_bytes=200 * GIB,
        oom_kills=0,
        psi_frac={"cpu_some": 0.1, "io_full": 0.01, "memory_full": 0.0},
    )
    return replace(made, **changes)


def rank(number: int, **changes: Any) -> RankAccount:
    """The rank that had GPU `number` of node n1."""
    made = RankAccount(
        rank=number,
        node="n1",
        restart=0,
        gpus=(f"GPU-{number}",),
        claim="visible",
        started_s=0.0,
        ended_s=HELD_S,
        ended_by="ledger",
        exit_code=0,
        energy=Energy(value_j=600_000.0),
    )
    return replace(made, **changes)


def report(**changes: Any) -> JobReport:
    """The report of a job of four GPUs on one node."""
    nothing = Energy(value_j=None)
    made = JobReport(
        job=ReportedJob(job_id="1", synthetic=True),
        started_s=0.0,
        ended_s=HELD_S,
        energy=JobEnergy(gpu=nothing, node=nothing),
        cost=Cost(),
        waste=Share(),
        incarnations=(run(0),),
        gpus=gpus(),
        ranks=tuple(rank(number) for number in range(4)),
        nodes=(node(),),
    )
    return replace(made, **changes)


def run(restart: int, **changes: Any) -> Incarnation:
    """An incarnation that was the last."""
    made = Incarnation(
        restart=restart,
        started_s=0.0,
        ended_s=HELD_S,
        gpu_energy=Energy(value_j=2_400_000.0),
        gpu_s=4 * HELD_S,
        is_lost=False,
    )
    return replace(made, **changes)
