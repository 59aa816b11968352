"""Quantities of a report for people: joules as kWh, bytes as GiB, shares as percent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hpckit.core.late import regex
from hpckit.core.units import format_duration

J_PER_KWH: Final = 3.6e6
_WH_J: Final = 3.6e3
_ENERGY_UNITS: Final = (
    (3.6e9, "MWh"),
    (J_PER_KWH, "kWh"),
    (_WH_J, "Wh"),
)
_DIGITS: Final = 3
_MOST_DECIMALS: Final = 6
_WHOLE: Final = 0.9995
_GIB: Final = 1024.0**3
_MANY: Final = 10 * _GIB
_MIB: Final = 1024.0**2
_MOST_MS: Final = 0.1
_LEAST_HOUR_S: Final = 360.0  # a tenth of an hour
_SLURM_TIME: Final = regex(r"(?<![\d:-])0(\d:[0-5]\d:[0-5]\d)(?![\d:])")
_G_PER_KG: Final = 1000
_NEARLY_ALL: Final = 0.99
_LITTLE: Final = 0.01


def whole_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None where a part is not known."""
    parts = list(values)
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None


def energy_scale(value_j: float) -> tuple[float, str]:
    """The joules of the unit in which an energy is said, and the unit's name: as on the page."""
    size_j = abs(value_j)
    return next((one for one in _ENERGY_UNITS if size_j >= one[0]), (1.0, "J"))


def energy(value_j: float, plus_minus_j: float | None = None, *, like_j: float = 0.0) -> str:
    """An energy with as many digits as are known: `9.1 ± 0.4 kWh`; three where nobody knows.

    It is in a unit of hours, as `like_j` is, where that is: what is compared has one kind of unit.
    """
    scale_j, unit = energy_scale(value_j)
    if unit == "J" and value_j and abs(like_j) >= _WH_J:
        scale_j, unit = _WH_J, "Wh"
    value = value_j / scale_j
    if not value_j or plus_minus_j is None or not math.isfinite(plus_minus_j):
        return f"{number(value)} {unit}"
    spread = plus_minus_j / scale_j
    decimals = _decimals(value, spread)
    if round(spread, decimals) == 0:
        return f"{value:.{decimals}f} {unit}"
    return f"{value:.{decimals}f} ± {spread:.{decimals}f} {unit}"


def _decimals(value: float, spread: float) -> int:
    """So many that the last digit is that of the spread's first, and at most four count."""
    most = max(0, _DIGITS - _magnitude(value))
    if spread <= 0:
        return most
    return min(max(0, -_magnitude(spread)), most)


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else 0


def number(value: float) -> str:
    """A number of three digits, never in powers of ten."""
    if not value:
        return "0"
    decimals = min(max(0, _DIGITS - 1 - _magnitude(value)), _MOST_DECIMALS)
    return f"{value:.{decimals}f}"


def percent(share: float) -> str:
    """A share as percent: `18 %`, with a digit more near either end, `100 %` for all alone."""
    if _WHOLE <= share < 1:
        return "99.9 %"
    if 0 < share < _LITTLE or _NEARLY_ALL < share < 1:
        return f"{share * 100:.1f} %"
    return f"{share * 100:.0f} %"


def memory(size_bytes: float) -> str:
    """Bytes in GiB, less than one in MiB."""
    if 0 < size_bytes < _GIB:
        return f"{number(size_bytes / _MIB)} MiB"
    return (
        f"{number(size_bytes / _GIB)} GiB" if size_bytes < _MANY else f"{size_bytes / _GIB:.0f} GiB"
    )


def mass(mass_g: float, figure: Callable[[float], str] = number) -> str:
    """A mass in g, from 1 kg on in kg; `figure` writes the number."""
    if mass_g >= _G_PER_KG:
        return f"{figure(mass_g / _G_PER_KG)} kg"
    return f"{figure(mass_g)} g"


def duration(seconds: float) -> str:
    """A duration, in milliseconds where it is short."""
    return f"{number(seconds * 1e3)} ms" if 0 < seconds < _MOST_MS else format_duration(seconds)


def clocks(text: str) -> str:
    """Time limits of a text in one spelling: `0:10:00` for Slurm's and users' `00:10:00`."""
    return _SLURM_TIME.sub(r"\1", text)


def energy_sum(parts_j: Sequence[float], total_j: float, plus_minus_j: float | None) -> list[str]:
    """Parts of a sum in the unit of its total, with a decimal more than it is said with."""
    scale_j, unit = energy_scale(total_j)
    total = total_j / scale_j
    is_known = plus_minus_j is not None and math.isfinite(plus_minus_j)
    decimals = _decimals(total, plus_minus_j / scale_j if plus_minus_j and is_known else 0.0)
    decimals = min(decimals + 1, _DIGITS)
    return [f"{round(part_j / scale_j, decimals) + 0.0:.{decimals}f} {unit}" for part_j in parts_j]


def gpu_time(gpu_s: float, *, like_s: float = 0.0) -> str:
    """GPU-seconds in hours, or as they are where there are few, in the unit of `like_s`."""
    return (
        f"{number(gpu_s / 3600)} GPU-hours"
        if max(gpu_s, like_s) >= _LEAST_HOUR_S
        else f"{number(gpu_s)} GPU-seconds"
    )


def plural(count: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def quantity(name: str, value: float) -> str:
    """A quantity by its name, whose end is its unit: `gpu_s`, `energy_j`, `mem_peak_bytes`."""
    if name == "gpu_s":
        return gpu_time(value)
    if name.endswith("_bytes"):
        return memory(value)
    if name.endswith("_j"):
        return energy(value)
    return format_duration(value) if name.endswith("_s") else number(value)
