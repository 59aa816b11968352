"""Reports of measured jobs, made by hand, for what is decided from one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from hpckit.account.energy import share_sum
from hpckit.account.values import (
    Cost,
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
)
from hpckit.spec.job import JOB_SCHEMA, JobSpec, LaunchRequest, ResourceRequest
from tests.fakes import measured

GIB = 1024**3
STARTED_S = 1_760_000_000.0


def job(kind: str = "plain", more: Any = None, **resources: Any) -> JobSpec:
    """A job that asks for these resources; `more` are fields of the job itself."""
    return JobSpec(
        schema=JOB_SCHEMA,
        name="train",
        command=("true",),
        resources=ResourceRequest(**resources),
        launch=LaunchRequest(kind=kind),
        **(more or {}),
    )


def energy(value_j: float | None = 1000.0) -> Energy:
    """An energy of a counter, known to 1 %."""
    if value_j is None:
        return Energy(value_j=None, because="no counter")
    return Energy(
        value_j=value_j,
        plus_minus_j=value_j / 100,
        source=EnergySource.COUNTER,
        coverage_frac=1.0,
    )


def gpu(node: str = "n1", index: int = 0, held_s: float = 3600.0, **fields: Any) -> GpuAccount:
    """A GPU that computed all the time, except for what `fields` say."""
    made = measured.gpu(
        index,
        uuid=f"GPU-{node}-{index}",
        node=node,
        held_s=held_s,
        energy=energy(),
        waste=Share(useful_gpu_s=held_s),
    )
    return replace(made, **fields)


def unused(node: str = "n1", index: int = 0, held_s: float = 3600.0, **fields: Any) -> GpuAccount:
    """A GPU on which there never was a process."""
    return gpu(node, index, held_s, waste=Share(no_process_gpu_s=held_s), **fields)


def node(name: str = "n1", elapsed_s: float = 3600.0, **fields: Any) -> NodeAccount:
    """A node's account from beginning to end."""
    given: dict[str, Any] = {
        "gpu_energy": energy(),
        "energy": energy(None),
        "restart": 0,
        "started_s": STARTED_S,
        "ended_s": STARTED_S + elapsed_s,
        **fields,
    }
    return NodeAccount(node=name, **given)


def rank(
    number: int = 0, node: str = "n1", elapsed_s: float = 3600.0, **fields: Any
) -> RankAccount:
    """A rank that ran from beginning to end."""
    times = {"started_s": STARTED_S, "ended_s": STARTED_S + elapsed_s}
    made = measured.rank(number, node=node, gpus=(), claim="none", energy=energy(), **times)
    return replace(made, **fields)


def incarnation(restart: int, elapsed_s: float, *, is_lost: bool = False) -> Incarnation:
    """One run between two requeues."""
    times = {"started_s": STARTED_S, "ended_s": STARTED_S + elapsed_s}
    return measured.run(restart, **times, gpu_energy=energy(), gpu_s=elapsed_s, is_lost=is_lost)


def report(
    state: str | None = "COMPLETED",
    elapsed_s: float = 3600.0,
    gpus: Sequence[GpuAccount] = (),
    **fields: Any,
) -> JobReport:
    """A report of a job that took so long and held these GPUs."""
    joules = sum(one.energy.value_j or 0.0 for one in gpus)
    made = JobReport(
        job=ReportedJob(job_id="4242", state=state),
        started_s=STARTED_S,
        ended_s=STARTED_S + elapsed_s,
        energy=JobEnergy(gpu=energy(joules), node=energy(None)),
        cost=Cost(),
        waste=share_sum([one.waste for one in gpus]),
        gpus=tuple(gpus),
    )
    return replace(made, **fields)
