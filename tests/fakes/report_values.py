"""Reports of jobs that never ran: every quantity is made up by a seed, and marked synthetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.energy import share_sum
from hpckit.account.finding import ReportFinding, Subject, finding, said, seconds, share
from hpckit.account.values import (
    Advice,
    Conservation,
    Curve,
    Energy,
    GpuAccount,
    JobReport,
    NodeAccount,
    RankAccount,
    Share,
    Throttling,
    Window,
)
from hpckit.core.findings import Severity
from tests.fakes import reports
from tests.fakes.reports import STARTED_S

_POINTS: Final = 2000
_GIB: Final = 1024**3
_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a made-up job is: GPUs on nodes, for how long, in how many points a curve."""

    gpus: int = 8
    nodes: int = 1
    duration_s: float = 3600.0
    points: int = _POINTS


def training_report(shape: Shape | None = None) -> JobReport:
    """A training with an idle GPU, a hot one, gaps in what one said, and an idle last part."""
    shape, base = shape or Shape(), reports.training()
    gpus = tuple(_gpu(shape, number) for number in range(shape.gpus))
    total_j = sum(gpu.energy.value_j or 0.0 for gpu in gpus)
    gpu_energy = replace(base.energy.gpu, value_j=total_j, coverage_frac=0.998)
    return replace(
        base,
        job=replace(
            base.job,
            name="llama-8b",
            folder="/scratch/ana/hpckit/2026-11-21-llama-8b-7f3a",
            nodes=shape.nodes,
            gpus=shape.gpus,
            time_limit_s=2 * shape.duration_s,
        ),
        ended_s=STARTED_S + shape.duration_s,
        energy=replace(
            base.energy,
            gpu=gpu_energy,
            conservation=Conservation(
                ranks_j=total_j * 0.9, idle_remainder_j=total_j * 0.1, gpus_j=total_j
            ),
        ),
        waste=share_sum([gpu.waste for gpu in gpus]),
        gpus=gpus,
        ranks=tuple(_rank(shape, gpu, number) for number, gpu in enumerate(gpus)),
        nodes=tuple(_node(shape, number) for number in range(shape.nodes)),
        findings=_findings(gpus[0].node),
        advice=_advice(),
        missing=(
            "node energy is modelled: no RAPL, hwmon or Cray counter could be read on n001",
            "network: the nodes are shared, so the InfiniBand counters are not the job's alone",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signals:
    at_s: _Array
    power: _Array
    util: _Array
    memory: _Array
    clock: _Array
    throttled: _Array
    temp: _Array


def _signals(shape: Shape, number: int) -> _Signals:
    """Steps of a training: kernels, a dip for communication; what is odd is by the number."""
    rng = np.random.default_rng(number + 1)
    at = np.linspace(0, shape.duration_s, shape.points)
    works = (at > shape.duration_s * 0.04) & (at < shape.duration_s * 0.88)
    checkpoint = (at % (shape.duration_s / 6)) < shape.duration_s / 90
    busy = np.where(works & ~checkpoint, 1.0, 0.0)
    kind = number % 8
    if kind == 5:
        busy *= at > shape.duration_s * 0.35
    if kind == 7:
        busy *= 0.0
    beat = 0.5 + 0.5 * np.sin(at * 2 * np.pi / 97 + number)
    warm = np.clip((at - shape.duration_s * 0.3) / (shape.duration_s * 0.2), 0, 1)
    hot = warm * busy if kind == 3 else np.zeros_like(at)
    power = 92 + busy * (505 + 60 * beat) - hot * 190 + rng.normal(0, 9, at.size)
    clock = np.where(busy > 0, 1905 + 60 * beat, 345 + 0 * at) - hot * 620
    return _Signals(
        at_s=at,
        power=np.clip(power, 60, 700),
        util=np.clip(busy * (91 + 6 * beat) + rng.normal(0, 1.2, at.size) * busy, 0, 100),
        memory=np.where(at > shape.duration_s * 0.03, 61.5 + busy * 2.0, 1.1)
        * (1.0 if kind != 7 else 0.02),
        clock=clock + rng.normal(0, 6, at.size) * busy,
        throttled=np.clip(hot * (0.35 + 0.2 * beat), 0, 1),
        temp=38 + busy * 28 + hot * 22 + rng.normal(0, 0.4, at.size),
    )


def _curve(name: str, unit: str, at: _Array, values: _Array, spread: float) -> Curve:
    half = np.abs(values) * spread
    return Curve(
        name=name,
        unit=unit,
        at_s=tuple(at.tolist()),
        values=tuple(values.tolist()),
        lows=tuple((values - half).tolist()),
        highs=tuple((values + half).tolist()),
    )


def with_gap(curve: Curve, is_gap: Callable[[float], bool]) -> Curve:
    """The curve without what it says where `is_gap` holds of the time."""

    def cut(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
        pairs = zip(curve.at_s, values, strict=True)
        return tuple(None if is_gap(at) else value for at, value in pairs)

    return replace(curve, values=cut(curve.values), lows=cut(curve.lows), highs=cut(curve.highs))


def _gpu(shape: Shape, number: int) -> GpuAccount:
    each = -(-shape.gpus // shape.nodes)
    signals = _signals(shape, number)
    at, kind, duration_s = signals.at_s, number % 8, shape.duration_s
    curves = [
        _curve("power", "W", at, signals.power, 0.06),
        _curve("util", "%", at, np.minimum(signals.util, 97), 0.03),
        _curve("memory", "B", at, signals.memory * _GIB, 0.0),
        _curve("temp", "°C", at, signals.temp, 0.02),
        _curve("sm_clock", "MHz", at, signals.clock, 0.01),
        _curve("throttled", "%", at, signals.throttled * 100, 0.1),
    ]
    if kind == 2:
        gap = (duration_s * 0.5, duration_s * 0.58)
        curves = [with_gap(curve, lambda at_s: gap[0] < at_s < gap[1]) for curve in curves]
    mean_w = float(signals.power.mean())
    value_j = mean_w * duration_s
    useful = float((signals.util > 50).mean())
    idle = 1 - useful
    return replace(
        reports.gpu_account(number),
        uuid=f"GPU-00000000-0000-4000-8000-{number:012d}",
        node=f"n{number // each + 1:03d}",
        index=number % each,
        restart=1,
        held_s=duration_s,
        energy=replace(
            reports.counted(value_j),
            value_j=None if kind == 6 and number > 8 else value_j,
            coverage_frac=0.92 if kind == 2 else 1.0,
        ),
        waste=Share(
            no_process_gpu_s=idle * duration_s if kind == 7 else 0.0,
            idle_gpu_s=0.0 if kind == 7 else idle * duration_s * 0.95,
            spin_gpu_s=useful * duration_s * 0.18,
            useful_gpu_s=useful * duration_s * 0.82,
            unknown_gpu_s=0.0 if kind == 7 else idle * duration_s * 0.05,
        ),
        throttling=Throttling(
            power_cap_s=12.0, thermal_s=float(signals.throttled.mean()) * duration_s
        ),
        util_mean_pct=float(signals.util.mean()),
        power_mean_w=mean_w,
        power_limit_w=700.0,
        temp_max_c=float(signals.temp.max()),
        mem_bytes=80 * _GIB,
        nvlink_tx_bytes=int(9.1e12),
        nvlink_rx_bytes=int(9.1e12),
        windows=_windows(kind, duration_s),
        curves=tuple(curves),
        refused={"pcie_tx_mib": "NVML: Not Supported", "pcie_rx_mib": "NVML: Not Supported"},
    )


def _windows(kind: int, duration_s: float) -> tuple[Window, ...]:
    name = "no-process" if kind == 7 else "idle"
    parts = {5: ((0, 0.35), (0.88, 1)), 7: ((0, 1),)}.get(kind, ((0.88, 1),))
    return tuple(
        Window(
            kind=name,
            started_s=STARTED_S + first * duration_s,
            ended_s=STARTED_S + last * duration_s,
            is_late=name == "idle" and last == 1,
        )
        for first, last in parts
    )


def _rank(shape: Shape, gpu: GpuAccount, number: int) -> RankAccount:
    kind = number % 8
    return replace(
        reports.rank_account(number, behind=0.09 if kind == 3 else 0.002 * kind),
        node=gpu.node,
        restart=1,
        gpus=(gpu.uuid,),
        ended_s=STARTED_S + shape.duration_s - 2,
        ended_by="sample" if kind == 6 else "ledger",
        exit_code=None if kind == 6 else 0,
        busy_frac=None if kind == 7 else 0.74 + 0.01 * kind,
        read_bytes=int(310e9),
        write_bytes=int(16e9) if number == 0 else 0,
    )


def _node(shape: Shape, number: int) -> NodeAccount:
    return replace(
        reports.node_account(number),
        node=f"n{number + 1:03d}",
        restart=1,
        ended_s=STARTED_S + shape.duration_s,
        energy=Energy(value_j=None, because="no RAPL, hwmon or Cray counter could be read"),
        psi_frac={"cpu": 0.011, "memory": 0.0, "io": 0.034},
        network_bytes={"mlx5_0 tx": int(4.2e12), "mlx5_0 rx": int(4.3e12)},
        sampler_cpu_s=shape.duration_s * 0.004,
        missing=("io.stat: the cgroup of the step has no io controller",),
    )


def _findings(node: str) -> tuple[ReportFinding, ...]:
    return (
        finding(
            "gpu-unused",
            Severity.ERROR,
            Subject(what="GPU7", nodes=(node,), restart=1),
            said("no process computed on it in {}", seconds(3600)),
            "ask for 7 GPUs, or start a rank on it",
            wasted_gpu_s=3600.0,
            wasted_j=3.3e5,
        ),
        finding(
            "straggler",
            Severity.WARNING,
            Subject(what="GPU3", nodes=(node,), restart=1, ranks=(3,)),
            said(
                "{} behind its peers: it was slowed by heat {} of the time",
                share(0.09),
                share(0.22),
            ),
            f"tell your operator: {node} GPU3 reached 88 °C",
            wasted_gpu_s=1900.0,
        ),
        finding(
            "late-idle",
            Severity.WARNING,
            Subject(what="all GPUs"),
            said("nothing ran in the last {}", seconds(432)),
            "let the job end with the training",
            wasted_gpu_s=3024.0,
            wasted_j=2.8e5,
        ),
        finding(
            "head-room",
            Severity.NOTE,
            Subject(what="GPU memory"),
            said("63.5 of 80 GiB at most"),
            "micro-batch 3 would fit",
        ),
    )


def _advice() -> tuple[Advice, ...]:
    return (
        Advice(
            key="resources.gpus_per_node",
            now="8",
            proposed="7",
            because="GPU7 had no process",
            saving={"gpu_s": 3600.0, "energy_j": 3.3e5},
        ),
        Advice(
            key="resources.time_limit",
            now="2:00:00",
            proposed="1:15:00",
            because="it ran for 1:00:00; a shorter limit starts sooner",
        ),
    )


HOSTILE: Final = (
    '"><script>window.evil = 1</script>',
    "</script><script>window.evil = 1</script>",
    "<img src=x onerror=window.evil=1>",
    "' onmouseover='window.evil = 1",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style><svg onload=window.evil=1>",
    "<!--\u202e\u0000]]>",
)


def hostile_report(words: tuple[str, ...] = HOSTILE) -> JobReport:
    """A job in which every word that somebody else chose is one of `words`, in turn."""
    turn = cycle(words)
    whole = training_report(Shape(points=50))
    node = next(turn)
    gpus = tuple(
        replace(
            gpu,
            node=node,
            name=next(turn),
            uuid=f"{next(turn)}{at}",
            refused={next(turn): next(turn)},
            energy=replace(gpu.energy, because=next(turn), scope=next(turn)),
            curves=(*gpu.curves, replace(gpu.curves[0], name=next(turn), unit=next(turn))),
        )
        for at, gpu in enumerate(whole.gpus)
    )
    return replace(
        whole,
        job=replace(
            whole.job, name=next(turn), job_id=next(turn), state=next(turn), folder=next(turn)
        ),
        cost=replace(whole.cost, currency=next(turn), because=next(turn)),
        gpus=gpus,
        ranks=tuple(
            replace(rank, node=node, claim=next(turn), gpus=(gpu.uuid,))
            for rank, gpu in zip(whole.ranks, gpus, strict=True)
        ),
        nodes=tuple(
            replace(
                one,
                node=node,
                psi_frac={next(turn): 0.5},
                network_bytes={next(turn): 5},
                missing=(next(turn),),
                energy=Energy(value_j=None, because=next(turn)),
            )
            for one in whole.nodes
        ),
        incarnations=tuple(replace(one, because=next(turn)) for one in whole.incarnations),
        findings=tuple(
            dataclasses.replace(
                one,
                rule=next(turn),
                subject=next(turn),
                because=next(turn),
                remedy=next(turn),
            )
            for one in whole.findings
        ),
        advice=tuple(
            replace(
                one,
                key=next(turn),
                now=next(turn),
                proposed=next(turn),
                because=next(turn),
                saving={next(turn): 1.0, f"{next(turn)}_bytes": 1.0},
            )
            for one in whole.advice
        ),
        missing=words,
    )
