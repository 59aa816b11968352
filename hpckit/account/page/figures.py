"""Quantities of the report's page in words; what was not measured is said, never shown as 0."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from hpckit.account.values import SPLIT_GPU, Energy, GpuAccount, JobReport
from hpckit.core.quantities import energy_scale
from hpckit.core.text import figure, visible
from hpckit.core.units import format_duration

NO_JOB: Final = "samples"
"""What stands for a job's name where `hpckit sample` measured without one, as on the screen."""
NOT_MEASURED: Final = "not measured"
NOT_COMPARED: Final = "–"
_BYTE_UNITS: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_GIB: Final = 1024**3
_MOST_MS: Final = 0.1
_SMALL: Final = 10
_ADDEND_DIGITS: Final = 4
_RESOURCES: Final = {"cpu": "CPU", "io": "IO"}
_STALLED: Final = {"some": "some tasks", "full": "all tasks"}


def clean(text: object) -> str:
    """A text of the job in which nothing hides; it is escaped where it is put into the page."""
    return visible(str(text), 2000)


def significant(value: float, digits: int = 2) -> str:
    """A number with at least so many digits that tell: `1240`, `12`, `1.2`, `0.12`."""
    size = abs(value)
    after = 0
    while 0 < size < 10 ** (digits - 1) and after < digits + 2:
        size *= 10
        after += 1
    text = figure(value, after)
    return "0" if text == "-0" else text


def gpu_hours(gpu_s: float) -> str:
    """`8 GPU-hours`; one of them is `1 GPU-hour`."""
    text = significant(gpu_s / 3600)
    return f"{text} GPU-hour" if text == "1" else f"{text} GPU-hours"


def energy_words(energy: Energy) -> str:
    """`9.1 ± 0.4 kWh`; without a value `not measured`."""
    if energy.value_j is None:
        return NOT_MEASURED
    return joules(energy.value_j, energy.plus_minus_j)


def joules(value_j: float, plus_minus_j: float | None = None) -> str:
    """An energy in Wh, kWh or MWh, below 1 Wh in J, with the half width of its interval."""
    scale_j, unit = energy_scale(value_j)
    if plus_minus_j is None:
        return f"{significant(value_j / scale_j, 3)} {unit}"
    half = significant(plus_minus_j / scale_j, 1)
    digits = max(len(half.partition(".")[2]), 1 if abs(value_j / scale_j) < _SMALL else 0)
    return f"{value_j / scale_j:.{digits}f} ± {half} {unit}"


def addends(*values_j: float) -> tuple[str, ...]:
    """Energies that a reader can add up: all in the unit of the largest, with as many digits."""
    largest_j = max(map(abs, values_j))
    scale_j, unit = energy_scale(largest_j)
    exponent = int(f"{largest_j / scale_j:.{_ADDEND_DIGITS - 1}e}".partition("e")[2])
    digits = max(0, _ADDEND_DIGITS - 1 - exponent) if largest_j else 0
    rounded = (round(value_j / scale_j, digits) + 0.0 for value_j in values_j)  # no "-0"
    return tuple(f"{value:.{digits}f} {unit}" for value in rounded)


def source_words(energy: Energy) -> str:
    """`counter, 100 % covered`, or why there is no value."""
    if energy.value_j is None:
        return clean(energy.because) or "reason unknown"
    source = "source unknown" if energy.source is None else energy.source.value
    scope = f", scope {clean(energy.scope)}" if energy.scope == "module" else ""
    scope = ", whole GPU (all MIG instances)" if energy.scope == SPLIT_GPU else scope
    return f"{source}, {percent(energy.coverage_frac)} covered{scope}"


def percent(frac: float | None) -> str:
    """A share of 0 to 1 as `71 %`; a small one keeps a digit."""
    if frac is None:
        return NOT_MEASURED
    value = frac * 100
    digits = 1 if 0 < value < 1 or 99 < value < 100 else 0  # noqa: PLR2004  nearly none or all
    return f"{figure(value, digits)} %"


def behind_words(frac: float | None) -> str:
    """By how much a rank is behind its peers; one that was not compared has no number."""
    return NOT_COMPARED if frac is None else percent(frac)


def amount(value: float | None, unit: str, digits: int = 0) -> str:
    """A number with its unit; None is `not measured`."""
    return NOT_MEASURED if value is None else f"{figure(value, digits)} {unit}"


def duration(seconds: float | None) -> str:
    """`41:07`, or `1.2 ms`; None is `not measured`."""
    if seconds is not None and 0 < seconds < _MOST_MS:
        return f"{significant(seconds * 1e3)} ms"
    return NOT_MEASURED if seconds is None else format_duration(seconds)


def gib(size_bytes: float | None) -> str:
    """An amount of memory in GiB, with one digit after the point below 100; below one in MiB."""
    if size_bytes is None:
        return NOT_MEASURED
    if 0 < size_bytes < _GIB:
        return f"{significant(size_bytes / 1024**2)} MiB"
    value = size_bytes / _GIB
    return f"{figure(value, 1 if value < 100 else 0)} GiB"  # noqa: PLR2004  three digits tell


def transferred(size_bytes: float | None) -> str:
    """An amount of data that went somewhere: `4.2 TB`."""
    if size_bytes is None:
        return NOT_MEASURED
    scale, unit = next((one for one in _BYTE_UNITS if size_bytes >= one[0]), (1.0, "B"))
    return f"{significant(size_bytes / scale)} {unit}"


def clock_time(epoch_s: float | None) -> str:
    """A moment in UTC: `2026-11-21 14:32:05 UTC`."""
    if epoch_s is None:
        return NOT_MEASURED
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(epoch_s))
    except (OverflowError, ValueError, OSError):
        return f"{epoch_s} s since 1970"


def gpu_words(gpu: GpuAccount) -> str:
    """`GPU3 on n013`; without an index the UUID."""
    return f"{clean(gpu.label)} on {clean(gpu.node)}"


def saving_words(saving: Mapping[str, float]) -> str:
    """`1.0 GPU-hours, 92 Wh`: what a change is predicted to save."""
    return ", ".join(_saving(name, value) for name, value in saving.items())


def _saving(name: str, value: float) -> str:
    if name == "gpu_s":
        return gpu_hours(value)
    if name == "limit_s":
        return f"{duration(value)} of the time limit"
    if name == "cpu_s":
        return f"{significant(value / 3600)} CPU-hours"
    if name.endswith("_j"):
        return joules(value)
    if name.endswith("_bytes"):
        return f"{gib(value)} {clean(name.removesuffix('_bytes'))}"
    return f"{significant(value)} {clean(name)}"


def pressure_words(name: str, frac: float) -> str:
    """What of `NodeAccount.psi_frac` says: `cpu_some`, `io_full`, `node_` before the whole node's.

    Source: Documentation/accounting/psi.rst of Linux.
    """
    own = name.removeprefix("node_")
    resource, _, kind = own.rpartition("_")
    who = _STALLED.get(kind, clean(kind))
    where = "" if own == name else " on the whole node"
    return f"{who} waited for {_RESOURCES.get(resource, clean(resource))}{where} {percent(frac)}"


def job_title(report: JobReport) -> str:
    """`llama-8b 4242_7`: what the job is called; `samples` of no job."""
    job = report.job
    number = clean(job.job_id) if job.job_id else ""
    if number and job.array_task is not None:
        number = f"{number}_{job.array_task}"
    parts = [clean(job.name) if job.name else "", number]
    return " ".join(part for part in parts if part) or NO_JOB
