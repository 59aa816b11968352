"""Panels as SVG inside a page: colours come from the page's style sheet, by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.model.node_words import figure
from hpckit.report.plot_panels import Numbers, Panel, PlotGroup, Shade

WIDTH: Final = 560.0
LEFT: Final = 46.0
_RIGHT: Final = 10.0
_CAPTION: Final = 20.0
PANEL: Final = 66.0
_BELOW: Final = 14.0
_AXIS: Final = 44.0
_COLUMNS: Final = 400
_TICKS: Final = 6
_STEPS: Final = (1, 2, 5, 10, 15, 20, 30, 60, 100, 120, 200, 500, 1000)


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
        parts += _panel(panel, group, at * step)
    parts += _time_axis(group, step * len(group.panels) - _BELOW)
    return "".join([*parts, "</svg>"])


def _x(at_s: Numbers, group: PlotGroup) -> Numbers:
    room = WIDTH - LEFT - _RIGHT
    found: Numbers = LEFT + (at_s - group.first_s) / (group.last_s - group.first_s) * room
    return found


def _panel(panel: Panel, group: PlotGroup, y: float) -> Iterator[str]:
    top, bottom = y + _CAPTION, y + _CAPTION + PANEL
    right = WIDTH - _RIGHT
    yield f'<text class="cap" x="{_n(LEFT)}" y="{_n(y + 14)}">{escape(panel.caption)}</text>'
    for shade in group.shades:
        yield _shade(shade, group, (top, bottom))
    for part in (0.0, 0.5, 1.0):
        line = bottom - part * PANEL
        yield f'<path class="grid" d="M{_n(LEFT)} {_n(line)}H{_n(right)}"/>'
        tick = figure(panel.top * part, 0 if panel.top >= 4 else 2)  # noqa: PLR2004  0, 2, 4
        yield f'<text class="tick y" x="{_n(LEFT - 5)}" y="{_n(line + 4)}">{tick}</text>'
    thin = thinned(panel)
    x = _x(thin.at_s, group)
    ys = [_y(one, panel.top, bottom) for one in (thin.values, thin.lows, thin.highs)]
    if not np.array_equal(thin.lows, thin.highs, equal_nan=True):
        yield f'<path class="band {panel.look}" d="{_band(x, ys[1], ys[2])}"/>'
    yield f'<path class="line {panel.look}" d="{_line(x, ys[0])}"/>'
    if panel.limit is not None:
        at = bottom - min(panel.limit / panel.top, 1.0) * PANEL
        yield f'<path class="limit" d="M{_n(LEFT)} {_n(at)}H{_n(right)}"/>'


def _y(values: Numbers, top: float, bottom: float) -> Numbers:
    found: Numbers = bottom - np.clip(values / top, 0, 1) * PANEL
    return found


def _shade(shade: Shade, group: PlotGroup, ends: tuple[float, float]) -> str:
    first, last = _x(np.clip([shade.first_s, shade.last_s], group.first_s, group.last_s), group)
    return (
        f'<rect class="shade {shade.kind}" x="{_n(first)}" y="{_n(ends[0])}" '
        f'width="{_n(max(last - first, 0.5))}" height="{_n(ends[1] - ends[0])}"/>'
    )


def time_ticks(first_s: float, last_s: float, most: int = _TICKS) -> tuple[list[float], str, float]:
    """Where an axis of time is marked, in seconds; the unit of its figures, and its seconds."""
    unit, unit_s = time_unit(last_s - first_s)
    span = (last_s - first_s) / unit_s
    step = next((one for one in _STEPS if span / one <= most), span / most)
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


def _band(x: Numbers, low: Numbers, high: Numbers) -> str:
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
