"""A job's report as OpenMetrics 1.0 text, for a push gateway or a file that a collector reads.

https://github.com/prometheus/OpenMetrics, "Text format"; units are those it recommends: joules,
seconds, bytes, ratios.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from hpckit.account.values import (
    REPORT_SCHEMA,
    SPLIT_GPU,
    Energy,
    GpuAccount,
    GpuPlace,
    JobReport,
    NodeAccount,
    RankAccount,
    ranks_by_gpu,
)
from hpckit.core.fields import to_tree
from hpckit.core.text import without_steering

COLUMNS: Final = (
    "job_id",
    "array_task",
    "restart",
    "node",
    "gpu_index",
    "gpu_uuid",
    "gpu_name",
    "ranks",
    "held_s",
    "energy_j",
    "energy_plus_minus_j",
    "energy_source",
    "energy_coverage_frac",
    "energy_scope",
    "idle_remainder_j",
    "no_process_gpu_s",
    "idle_gpu_s",
    "spin_gpu_s",
    "useful_gpu_s",
    "unknown_gpu_s",
    "util_mean_pct",
    "power_mean_w",
    "power_max_w",
    "power_limit_w",
    "temp_max_c",
    "sm_mean_mhz",
    "mem_peak_bytes",
    "mem_bytes",
    "sm_active_frac",
    "tensor_active_frac",
    "dram_active_frac",
    "mfu_proxy_frac",
    "power_cap_s",
    "thermal_s",
    "power_brake_s",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "synthetic",
)
"""The columns, in their order; new ones come at the end."""
_CLASSES: Final = ("no_process_gpu_s", "idle_gpu_s", "spin_gpu_s", "useful_gpu_s")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def report_csv(report: JobReport) -> str:
    """RFC 4180 with a header; an empty field is "not measured", 0 a measured zero."""
    ranks = ranks_by_gpu(report)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for gpu in report.gpus:
        row = _row(report, gpu, ranks.get(gpu.place, ()))
        writer.writerow([_field(row[column]) for column in COLUMNS])
    return file.getvalue()


def _row(report: JobReport, gpu: GpuAccount, ranks: Sequence[int]) -> dict[str, object]:
    job, energy = report.job, gpu.energy
    row: dict[str, object] = {
        column: getattr(part, column)
        for part in (gpu, gpu.waste, gpu.throttling)
        for column in COLUMNS
        if hasattr(part, column)
    }
    return (
        row
        | {
            "job_id": job.job_id,
            "array_task": job.array_task,
            "gpu_index": gpu.index,
            "gpu_uuid": gpu.uuid,
            "gpu_name": gpu.name,
            "ranks": " ".join(map(str, ranks)),
            "energy_j": energy.value_j,
            "energy_plus_minus_j": energy.plus_minus_j,
            "energy_source": energy.source,
            "energy_coverage_frac": energy.coverage_frac,
            "energy_scope": energy.scope,
            "synthetic": job.synthetic,
        }
        | ({} if gpu.waste.is_measured else dict.fromkeys(_CLASSES))
    )


def _field(value: object) -> object:
    """A field that no spreadsheet takes for a formula, and no terminal for an order."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = without_steering(value)
        return f"'{text}" if value.startswith(_FORMULA) else text
    return value


def report_document(report: JobReport, version: str, *, curves: bool = False) -> dict[str, Any]:
    """The document, as docs/reference/report.md describes it; curves only where they are wanted."""
    if not curves:
        gpus = tuple(replace(one, curves=()) for one in report.gpus)
        report = replace(report, gpus=gpus)
    return {"schema": REPORT_SCHEMA, "hpckit": version, **to_tree(report)}


T = TypeVar("T")
Labels = dict[str, str]
Sample = tuple[Mapping[str, str], float | None]
_METRIC_CLASSES: Final = ("no_process", "idle", "spin", "useful", "unknown")


class _Metric(NamedTuple, Generic[T]):
    """A quantity, and what makes one number of those of a rank's lives."""

    name: str
    unit: str
    help: str
    value: Callable[[T], float | None]
    of_lives: Callable[[Sequence[float]], float] = math.fsum


_GPU: Final[tuple[_Metric[GpuAccount], ...]] = (
    _Metric("gpu_energy", "joules", "Energy of the GPU.", lambda g: g.energy.value_j),
    _Metric(
        "gpu_energy_uncertainty", "joules", "Half width of its 95 % interval.",
        lambda g: g.energy.plus_minus_j,
    ),
    _Metric(
        "gpu_energy_coverage", "ratio", "Measured share of the time.",
        lambda g: g.energy.coverage_frac,
    ),
    _Metric("gpu_held", "seconds", "Time for which the job held the GPU.", lambda g: g.held_s),
    _Metric(
        "gpu_utilization", "ratio", "Share of the time in which a kernel ran.",
        lambda g: None if g.util_mean_pct is None else g.util_mean_pct / 100,
    ),
    _Metric("gpu_power_mean", "watts", "Mean power.", lambda g: g.power_mean_w),
    _Metric("gpu_temperature_max", "celsius", "Highest temperature.", lambda g: g.temp_max_c),
    _Metric("gpu_memory_peak", "bytes", "Peak memory in use.", lambda g: g.mem_peak_bytes),
    _Metric(
        "gpu_tensor_active", "ratio", "Share of the time in which the tensor pipes were active.",
        lambda g: g.tensor_active_frac,
    ),
    _Metric(
        "gpu_slowed_by_heat", "seconds", "Time of thermal throttling.",
        lambda g: g.throttling.thermal_s,
    ),
    _Metric(
        "gpu_slowed_by_power_cap", "seconds", "Time at the power limit.",
        lambda g: g.throttling.power_cap_s,
    ),
)  # fmt: skip
_RANK: Final[tuple[_Metric[RankAccount], ...]] = (
    _Metric(
        "rank_energy", "joules", "Energy of the rank's GPUs, over all its starts.",
        lambda r: r.energy.value_j,
    ),
    _Metric("rank_cpu", "seconds", "CPU time of the rank, over all its starts.", lambda r: r.cpu_s),
    _Metric(
        "rank_memory_peak", "bytes", "Largest resident set size of its processes.",
        lambda r: r.max_rss_bytes, max,
    ),
    _Metric(
        "rank_behind", "ratio", "How far it is behind its peers.",
        lambda r: r.behind_frac, max,
    ),
)  # fmt: skip
_NODE: Final[tuple[_Metric[NodeAccount], ...]] = (
    _Metric("node_energy", "joules", "Energy of the node.", lambda n: n.energy.value_j),
    _Metric("node_cpu", "seconds", "CPU time of the job on the node.", lambda n: n.cpu_s),
    _Metric(
        "node_memory_peak", "bytes", "Peak memory of the job there.", lambda n: n.mem_peak_bytes
    ),
)


def report_openmetrics(report: JobReport) -> str:
    """The text, with `# EOF` at its end; what was not measured has no sample."""
    lines: list[str] = []
    for name, unit, told, samples in _families(report):
        known = {
            _labels(labels): value
            for labels, value in samples
            if value is not None and math.isfinite(value)
        }
        if not known:
            continue
        full = f"hpckit_{name}_{unit}"
        lines += [f"# TYPE {full} gauge", f"# UNIT {full} {unit}", f"# HELP {full} {_text(told)}"]
        lines += [f"{full}{labels} {float(value)!r}" for labels, value in known.items()]
    return "\n".join([*lines, "# EOF", ""])


def _families(report: JobReport) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    job = _job_labels(report)
    ranks = ranks_by_gpu(report)
    duration_s = report.ended_s - report.started_s
    yield "job_duration", "seconds", "From the first start to the last end.", [(job, duration_s)]
    energy = (
        (job | {"scope": "gpu"} | _mig(report.energy.gpu), report.energy.gpu.value_j),
        (job | {"scope": "node"}, report.energy.node.value_j),
        (job | {"scope": "facility"}, report.cost.facility_j),
    )
    yield "job_energy", "joules", "Energy over all restarts, by scope.", energy
    told = _METRIC_CLASSES if report.waste.is_measured else ("unknown",)
    spent = ((job | {"class": word}, getattr(report.waste, f"{word}_gpu_s")) for word in told)
    yield "job_gpu_time", "seconds", "GPU-seconds by what the GPUs did.", spent
    for of_gpu in _GPU:
        samples = [(job | _gpu_labels(gpu, ranks), of_gpu.value(gpu)) for gpu in report.gpus]
        yield of_gpu.name, of_gpu.unit, of_gpu.help, samples
    for of_rank in _RANK:
        yield of_rank.name, of_rank.unit, of_rank.help, _rank_samples(report, of_rank, job)
    for of_node in _NODE:
        samples = [
            (job | {"node": node.node, "restart": str(node.restart)}, of_node.value(node))
            for node in report.nodes
        ]
        yield of_node.name, of_node.unit, of_node.help, samples


def _job_labels(report: JobReport) -> Labels:
    job = report.job
    labels = {"job": job.job_id or "", "name": job.name or ""}
    labels |= {} if job.array_task is None else {"task": str(job.array_task)}
    return labels | ({"synthetic": "true"} if job.synthetic else {})


def _gpu_labels(gpu: GpuAccount, ranks: Mapping[GpuPlace, Sequence[int]]) -> Labels:
    """The label of a GPU with several ranks names them all."""
    its = ranks.get(gpu.place, ())
    return {
        "node": gpu.node,
        "gpu": "" if gpu.index is None else str(gpu.index),
        "uuid": gpu.uuid,
        "restart": str(gpu.restart),
        "rank": ",".join(map(str, its)),
        **_mig(gpu.energy),
    }


def _mig(energy: Energy) -> Labels:
    """What marks the energy of a whole GPU that MIG splits."""
    return {"mig": "true"} if energy.scope == SPLIT_GPU else {}


def _rank_samples(report: JobReport, metric: _Metric[RankAccount], job: Labels) -> Iterator[Sample]:
    """One sample of all lives of a rank in an incarnation; none where one of them is not known."""
    lives: dict[tuple[int, str, int], list[RankAccount]] = {}
    for rank in report.ranks:
        lives.setdefault((rank.restart, rank.node, rank.rank), []).append(rank)
    for (restart, node, number), mine in lives.items():
        values = [metric.value(rank) for rank in mine]
        known = [value for value in values if value is not None]
        labels = {"rank": str(number), "node": node, "restart": str(restart)}
        whole = metric.of_lives(known) if len(known) == len(values) else None
        yield job | labels | _mig(mine[0].energy), whole


def _labels(labels: Mapping[str, str]) -> str:
    told = [f'{name}="{_text(value, quoted=True)}"' for name, value in labels.items() if value]
    return f"{{{','.join(told)}}}" if told else ""


def _text(text: str, *, quoted: bool = False) -> str:
    escaped = without_steering(text).replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quoted else escaped
