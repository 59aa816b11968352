"""Curves of the report as panels to be drawn: which quantity, in which unit, up to where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.model.account import Curve, GpuAccount, Window
from hpckit.model.node_words import figure
from hpckit.report.page_words import clean, duration

Numbers = NDArray[np.float64]

_UNITS: Final = {
    "b": ("GiB", 1 / 1024**3),
    "bytes": ("GiB", 1 / 1024**3),
    "mib": ("GiB", 1 / 1024),
    "frac": ("%", 100.0),
    "pct": ("%", 1.0),
    "hz": ("MHz", 1e-6),
    "mw": ("W", 1e-3),
    "w": ("W", 1.0),
    "mhz": ("MHz", 1.0),
    "c": ("°C", 1.0),
}
_TITLES: Final = (
    ("mem_util", "Memory controller busy", "memory"),
    ("power", "Power", "power"),
    ("util", "Utilization", "util"),
    ("mem", "Memory", "memory"),
    ("gpu_mem", "Memory", "memory"),
    ("sm_active", "SMs active", "util"),
    ("tensor", "Tensor cores active", "util"),
    ("sm", "SM clock", "clock"),
    ("clock", "SM clock", "clock"),
    ("throttled_by_power", "At the power limit", "power"),
    ("throttl", "Slowed by heat or brake", "throttled"),
    ("temp", "Temperature", "throttled"),
)
_PERCENT_TOP: Final = 100.0
_STEPS: Final = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)


class Panel(Struct, frozen=True, kw_only=True):
    """One quantity over time in the unit that it is shown in; not-a-number is a gap.

    `look` names its colour in the style sheet; `top` is where its axis ends, from 0; `limit` a
    line across.
    """

    title: str
    unit: str
    look: str
    at_s: Numbers
    values: Numbers
    lows: Numbers
    highs: Numbers
    top: float
    limit: float | None = None

    @property
    def caption(self) -> str:
        """The quantity, its unit, and its mean and highest."""
        with_unit = f"{self.title}, {self.unit}" if self.unit else self.title
        known = self.values[np.isfinite(self.values)]
        if not known.size:
            return f"{with_unit} · not measured"
        highs = self.highs[np.isfinite(self.highs)]
        most = max(float(known.max()), float(highs.max()) if highs.size else 0.0)
        return f"{with_unit} · mean {_short(float(known.mean()))} · max {_short(most)}"


class Shade(Struct, frozen=True, kw_only=True):
    """A stretch of time, seconds after the report's start, in which a GPU did nothing."""

    kind: str
    first_s: float
    last_s: float


class PlotGroup(Struct, frozen=True, kw_only=True):
    """The panels of one GPU or rank, which share their axis of time from `first_s` to `last_s`."""

    key: str
    title: str
    about: str
    panels: tuple[Panel, ...]
    shades: tuple[Shade, ...]
    first_s: float
    last_s: float


def gpu_group(gpu: GpuAccount, key: str, started_s: float, words: tuple[str, str]) -> PlotGroup:
    """The panels of a GPU; `words` are its title and what is said beside it."""
    shades = tuple(_shade(window, started_s) for window in gpu.windows)
    return group_of(key, words, gpu_panels(gpu), shades)


def gpu_panels(gpu: GpuAccount, only: str | None = None) -> tuple[Panel, ...]:
    """The panels of a GPU in the order of its curves, or those of one title only."""
    memory = None if gpu.mem_bytes is None else gpu.mem_bytes / 1024**3
    return tuple(
        _panel(
            curve,
            limit=gpu.power_limit_w if title == "Power" else None,
            top=memory if title == "Memory" else None,
        )
        for curve in gpu.curves
        if (title := _title(curve.name)[0]) == only or only is None
    )


def group_of(
    key: str, words: tuple[str, str], panels: tuple[Panel, ...], shades: tuple[Shade, ...]
) -> PlotGroup:
    """Panels over one axis of time; `words` are the title and what is said beside it."""
    ends = [(float(one.at_s[0]), float(one.at_s[-1])) for one in panels if one.at_s.size]
    first = min((end[0] for end in ends), default=0.0)
    last = max((end[1] for end in ends), default=1.0)
    seen = tuple(one for one in shades if one.last_s > first and one.first_s < last)
    about = " · ".join([words[1], *_nothing_done(seen)])
    return PlotGroup(
        key=key,
        title=words[0],
        about=about,
        panels=panels,
        shades=seen,
        first_s=first,
        last_s=max(last, first + 1e-3),
    )


def _nothing_done(shades: Sequence[Shade]) -> list[str]:
    """How long of what is shaded, so that no colour has to tell it: `idle 7:12`."""
    spent: dict[str, float] = {}
    for shade in shades:
        spent[shade.kind] = spent.get(shade.kind, 0.0) + shade.last_s - shade.first_s
    return [f"{kind.replace('-', ' ')} {duration(seconds)}" for kind, seconds in spent.items()]


def _shade(window: Window, started_s: float) -> Shade:
    kind = "no-process" if window.kind == "no-process" else "idle"
    return Shade(kind=kind, first_s=window.started_s - started_s, last_s=window.ended_s - started_s)


def _panel(curve: Curve, *, limit: float | None = None, top: float | None = None) -> Panel:
    title, look = _title(curve.name)
    unit, scale = _UNITS.get(curve.unit.lower(), (clean(curve.unit), 1.0))
    values = numbers(curve.values) * scale
    lows, highs = (_band(one, values, scale) for one in (curve.lows, curve.highs))
    return Panel(
        title=title,
        unit=unit,
        look=look,
        at_s=np.asarray(curve.at_s, dtype=np.float64),
        values=values,
        lows=lows,
        highs=highs,
        top=top or _top(unit, values, highs, limit),
        limit=limit,
    )


def numbers(values: Sequence[float | None]) -> Numbers:
    """Values as an array in which None, and whatever is not finite, is not-a-number."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _band(side: Sequence[float | None], values: Numbers, scale: float) -> Numbers:
    return numbers(side) * scale if len(side) == values.size else values


def _title(name: str) -> tuple[str, str]:
    lowered = name.lower().removeprefix("gpu_")
    for start, title, look in _TITLES:
        if lowered.startswith(start):
            return title, look
    return clean(name), "other"


def _top(unit: str, values: Numbers, highs: Numbers, limit: float | None) -> float:
    if unit == "%":
        return _PERCENT_TOP
    known = np.concatenate((values, highs))
    known = known[np.isfinite(known)]
    return rounded_up(max(float(known.max(initial=0.0)), limit or 0.0) * 1.02)


def rounded_up(value: float) -> float:
    """The next number of few digits, such as an axis ends at; 1 for 0."""
    if not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def _short(value: float) -> str:
    return figure(value, 0 if abs(value) >= 100 else 1)  # noqa: PLR2004  three digits tell
