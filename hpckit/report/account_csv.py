"""A job's report as CSV: a row for each GPU in each incarnation of the job."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Final

from hpckit.model.account import GpuAccount, JobReport
from hpckit.model.gpu_ranks import ranks_by_gpu
from hpckit.report.steering import without_steering

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
        row = _row(report, gpu, ranks.get((gpu.restart, gpu.node, gpu.uuid), ()))
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
