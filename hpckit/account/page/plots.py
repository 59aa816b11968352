"""Curves of the report as panels to be drawn: which quantity, in which unit, up to where."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.page.figures import clean, duration
from hpckit.account.values import Curve, GpuAccount, GpuPlace, JobReport, RankAccount
from hpckit.core.text import figure

Numbers = NDArray[np.float64]

_TITLES: Final = {
    "power": ("Power", "power"),
    "util": ("Utilization", "util"),
    "memory": ("Memory", "memory"),
    "temp": ("Temperature", "throttled"),
    "sm_clock": ("SM clock", "clock"),
    "throttled": ("Slowed by heat or brake", "throttled"),
    "throttled_by_power_cap": ("At the power limit", "power"),
}
"""Of each curve its title, and its colour in the style sheet."""
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
    shades = tuple(
        Shade(
            kind=window.kind,
            first_s=window.started_s - started_s,
            last_s=window.ended_s - started_s,
        )
        for window in gpu.windows
    )
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


def _panel(curve: Curve, *, limit: float | None = None, top: float | None = None) -> Panel:
    title, look = _title(curve.name)
    unit, scale = ("GiB", 1 / 1024**3) if curve.unit == "B" else (clean(curve.unit), 1.0)
    values = numbers(curve.values) * scale
    lows, highs = (
        numbers(side) * scale if len(side) == values.size else values
        for side in (curve.lows, curve.highs)
    )
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


def _title(name: str) -> tuple[str, str]:
    return _TITLES.get(name) or (clean(name), "other")


def _top(unit: str, values: Numbers, highs: Numbers, limit: float | None) -> float:
    if unit == "%":
        return 100.0
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


WIDTH: Final = 560.0
LEFT: Final = 46.0
_RIGHT: Final = 10.0
_CAPTION: Final = 20.0
PANEL: Final = 66.0
_BELOW: Final = 14.0
_AXIS: Final = 44.0
_COLUMNS: Final = 400
_TICKS: Final = 6
_SVG_STEPS: Final = (1, 2, 5, 10, 15, 20, 30, 60, 100, 120, 200, 500, 1000)


def time_unit(duration_s: float) -> tuple[str, float]:
    """The unit in which a stretch of time is drawn, and its seconds."""
    if duration_s < 300:  # noqa: PLR2004  five minutes
        return "seconds", 1.0
    if duration_s < 5 * 3600:
        return "minutes", 60.0
    return "hours", 3600.0


def group_svg(group: PlotGroup) -> str:
    """The panels of a group one below the other, over one axis of time."""
    step = _CAPTION + PANEL + _BELOW
    height = step * len(group.panels) + _AXIS
    label = f"{group.title}: " + ", ".join(panel.caption for panel in group.panels)
    parts = [
        f'<svg class="plot" viewBox="0 0 {_n(WIDTH)} {_n(height)}" role="img" '
        f"aria-label={quoteattr(label)}>"
    ]
    for at, panel in enumerate(group.panels):
        parts += _svg_panel(panel, group, at * step)
    parts += _time_axis(group, step * len(group.panels) - _BELOW)
    return "".join([*parts, "</svg>"])


def _x(at_s: Numbers, group: PlotGroup) -> Numbers:
    room = WIDTH - LEFT - _RIGHT
    found: Numbers = LEFT + (at_s - group.first_s) / (group.last_s - group.first_s) * room
    return found


def _svg_panel(panel: Panel, group: PlotGroup, y: float) -> Iterator[str]:
    top, bottom = y + _CAPTION, y + _CAPTION + PANEL
    right = WIDTH - _RIGHT
    yield f'<text class="cap" x="{_n(LEFT)}" y="{_n(y + 14)}">{escape(panel.caption)}</text>'
    for shade in group.shades:
        yield _svg_shade(shade, group, (top, bottom))
    for part in (0.0, 0.5, 1.0):
        line = bottom - part * PANEL
        yield f'<path class="grid" d="M{_n(LEFT)} {_n(line)}H{_n(right)}"/>'
        tick = figure(panel.top * part, 0 if panel.top >= 4 else 2)  # noqa: PLR2004  0, 2, 4
        yield f'<text class="tick y" x="{_n(LEFT - 5)}" y="{_n(line + 4)}">{tick}</text>'
    thin = thinned(panel)
    x = _x(thin.at_s, group)
    ys: list[Numbers] = [
        bottom - np.clip(values / panel.top, 0, 1) * PANEL
        for values in (thin.values, thin.lows, thin.highs)
    ]
    if not np.array_equal(thin.lows, thin.highs, equal_nan=True):
        yield f'<path class="band {panel.look}" d="{_svg_band(x, ys[1], ys[2])}"/>'
    yield f'<path class="line {panel.look}" d="{_line(x, ys[0])}"/>'
    if panel.limit is not None:
        at = bottom - min(panel.limit / panel.top, 1.0) * PANEL
        yield f'<path class="limit" d="M{_n(LEFT)} {_n(at)}H{_n(right)}"/>'


def _svg_shade(shade: Shade, group: PlotGroup, ends: tuple[float, float]) -> str:
    first, last = _x(np.clip([shade.first_s, shade.last_s], group.first_s, group.last_s), group)
    return (
        f'<rect class="shade {shade.kind}" x="{_n(first)}" y="{_n(ends[0])}" '
        f'width="{_n(max(last - first, 0.5))}" height="{_n(ends[1] - ends[0])}"/>'
    )


def time_ticks(first_s: float, last_s: float, most: int = _TICKS) -> tuple[list[float], str, float]:
    """Where an axis of time is marked, in seconds; the unit of its figures, and its seconds."""
    unit, unit_s = time_unit(last_s - first_s)
    span = (last_s - first_s) / unit_s
    step = next((one for one in _SVG_STEPS if span / one <= most), span / most)
    first = -(-first_s // (step * unit_s))
    count = int((last_s - first * step * unit_s) // (step * unit_s)) + 1
    return [(first + at) * step * unit_s for at in range(max(count, 0))], unit, unit_s


def _time_axis(group: PlotGroup, y: float) -> Iterator[str]:
    ticks, unit, unit_s = time_ticks(group.first_s, group.last_s)
    for tick, x in zip(ticks, _x(np.asarray(ticks), group), strict=True):
        text = figure(tick / unit_s, 2)
        yield f'<path class="grid" d="M{_n(x)} {_n(y)}v5"/>'
        yield f'<text class="tick x" x="{_n(x)}" y="{_n(y + 20)}">{text}</text>'
    middle = LEFT + (WIDTH - LEFT - _RIGHT) / 2
    yield f'<text class="tick x" x="{_n(middle)}" y="{_n(y + 38)}">{unit} since the start</text>'


def thinned(panel: Panel, most: int = _COLUMNS) -> Panel:
    """A panel of at most `most` points: means of means, and the extremes of the extremes."""
    size = panel.values.size
    if size <= most:
        return panel
    starts = np.linspace(0, size, most, endpoint=False).astype(np.int64)
    known = np.isfinite(panel.values)
    counts = np.add.reduceat(known, starts)
    sums = np.add.reduceat(np.where(known, panel.values, 0.0), starts)
    gap = counts == 0
    values = np.where(gap, np.nan, sums / np.maximum(counts, 1))
    lows = np.fmin.reduceat(panel.lows, starts)
    highs = np.fmax.reduceat(panel.highs, starts)
    return replace(panel, at_s=panel.at_s[starts], values=values, lows=lows, highs=highs)


def runs_of(known: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past the last of each stretch without a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _line(x: Numbers, y: Numbers) -> str:
    parts = []
    for first, last in runs_of(np.isfinite(y)):
        if last - first == 1:
            parts.append(f"M{_n(x[first] - 0.5)} {_n(y[first])}h1")
        else:
            parts.append("M" + _points(x[first:last], y[first:last]))
    return "".join(parts)


def _svg_band(x: Numbers, low: Numbers, high: Numbers) -> str:
    parts = []
    for first, last in runs_of(np.isfinite(low) & np.isfinite(high)):
        xs = np.concatenate((x[first:last], x[first:last][::-1]))
        ys = np.concatenate((high[first:last], low[first:last][::-1]))
        parts.append("M" + _points(xs, ys) + "Z")
    return "".join(parts)


def _points(x: Numbers, y: Numbers) -> str:
    pairs: Sequence[tuple[float, float]] = list(zip(x.tolist(), y.tolist(), strict=True))
    return "L".join(f"{_n(a)} {_n(b)}" for a, b in pairs)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# A value v is stored as round((v - low) / (high - low) * 65534), 65535 is a gap. Times are 32-bit
# floats, seconds. Both are little-endian.


def plot_data(groups: Sequence[PlotGroup]) -> str:
    """The JSON document, safe inside a script element."""
    axes: dict[bytes, int] = {}
    found = [_group(group, axes) for group in groups]
    tree = {"axes": [base64.b64encode(axis).decode() for axis in axes], "groups": found}
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _group(group: PlotGroup, axes: dict[bytes, int]) -> dict[str, Any]:
    unit, unit_s = time_unit(group.last_s - group.first_s)
    return {
        "key": group.key,
        "title": group.title,
        "first": group.first_s,
        "last": group.last_s,
        "unit": unit,
        "unit_s": unit_s,
        "shades": [[one.kind, one.first_s, one.last_s] for one in group.shades],
        "panels": [_panel_data(panel, axes) for panel in group.panels],
    }


def _panel_data(panel: Panel, axes: dict[bytes, int]) -> dict[str, Any]:
    at = axes.setdefault(panel.at_s.astype("<f4").tobytes(), len(axes))
    low, high = _ends(panel)
    found: dict[str, Any] = {
        "title": panel.title,
        "caption": panel.caption,
        "unit": panel.unit,
        "look": panel.look,
        "top": panel.top,
        "limit": panel.limit,
        "axis": at,
        "low": low,
        "high": high,
        "values": packed(panel.values, low, high),
    }
    if not np.array_equal(panel.lows, panel.highs, equal_nan=True):
        found["lows"] = packed(panel.lows, low, high)
        found["highs"] = packed(panel.highs, low, high)
    return found


def _ends(panel: Panel) -> tuple[float, float]:
    known = np.concatenate((panel.values, panel.lows, panel.highs))
    known = known[np.isfinite(known)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return low, high if high > low else low + 1.0


def packed(values: Numbers, low: float, high: float) -> str:
    """Values between `low` and `high` in 16 bits each, as base64; not-a-number is a gap."""
    shares = np.where(np.isfinite(values), (values - low) / (high - low), 0.0)
    codes = np.rint(np.clip(shares, 0, 1) * 65534).astype("<u2")
    codes[~np.isfinite(values)] = 65535
    return base64.b64encode(codes.tobytes()).decode()


# A rank of one GPU has that GPU's plot, which names it.

_MOST_RANKS: Final = 8
_SEVERAL: Final = 2


def rank_groups(report: JobReport) -> list[PlotGroup]:
    """The ranks that used several GPUs, at most 8, the farthest behind before the others.

    One that was started anew on its GPUs is drawn once: their curves are of the whole time.
    """
    gpus = {gpu.place: gpu for gpu in report.gpus if gpu.curves}
    found = {
        (one.restart, one.node, one.rank, one.gpus): one
        for one in report.ranks
        if len(_gpus_of(one, gpus)) >= _SEVERAL
    }
    many = list(found.values())
    if len(many) > _MOST_RANKS:
        worst = sorted(many, key=lambda one: -(one.behind_frac or 0.0))[:_MOST_RANKS]
        many = [one for one in many if one in worst]
    return [_rank_group(one, _gpus_of(one, gpus), at) for at, one in enumerate(many)]


def _gpus_of(rank: RankAccount, gpus: Mapping[GpuPlace, GpuAccount]) -> tuple[GpuAccount, ...]:
    keys = ((rank.restart, rank.node, uuid) for uuid in rank.gpus)
    return tuple(gpus[key] for key in keys if key in gpus)


def _rank_group(rank: RankAccount, gpus: Sequence[GpuAccount], at: int) -> PlotGroup:
    panels: dict[str, list[Panel]] = {}
    for gpu in gpus:
        for panel in gpu_panels(gpu):
            panels.setdefault(panel.title, []).append(panel)
    together = tuple(_together(one) for one in panels.values() if len(one) == len(gpus))
    about = f"{len(gpus)} GPUs of {clean(rank.node)}: power and memory in sum, the rest in mean"
    return group_of(f"rank-{at}", (f"rank {rank.rank}", about), together, ())


def _together(panels: Sequence[Panel]) -> Panel:
    first = panels[0]
    is_added = first.title in ("Power", "Memory")
    values, lows, highs = (
        _joined([(one.at_s, side(one)) for one in panels], first.at_s, is_added=is_added)
        for side in map(attrgetter, ("values", "lows", "highs"))
    )
    tops = [one.top for one in panels]
    limits = [one.limit for one in panels if one.limit is not None]
    has_limit = is_added and len(limits) == len(panels)
    return Panel(
        title=first.title,
        unit=first.unit,
        look=first.look,
        at_s=first.at_s,
        values=values,
        lows=lows,
        highs=highs,
        top=rounded_up(sum(tops)) if is_added else max(tops),
        limit=sum(limits) if has_limit else None,
    )


def _joined(curves: Sequence[tuple[Numbers, Numbers]], at_s: Numbers, *, is_added: bool) -> Numbers:
    """The sum or mean at the times of the first; a gap of one is a gap of all."""
    if not at_s.size:
        return at_s
    same = [
        values if np.array_equal(times, at_s) else np.interp(at_s, times, values)
        for times, values in curves
        if times.size
    ]
    total: Numbers = np.sum(same, axis=0)
    return total if is_added else total / len(same)
