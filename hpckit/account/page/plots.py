"""One plot per quantity over time, all GPUs in it: grey, and the unusual ones in colour.

Plots are SVG whose width the page stretches; text is outside of what is stretched. All of a page
share one axis of time, so that a position across is the same moment everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.page.figures import clean
from hpckit.account.rows import median
from hpckit.account.values import Curve, GpuAccount, JobReport
from hpckit.core.text import figure

Numbers = NDArray[np.float64]
Board = tuple[str, str]
"""Node and uuid: a GPU, whatever attempts of the job had it."""

COLUMNS: Final = 400
_STEP: Final = 5
WIDTH: Final = COLUMNS * _STEP
HEIGHT: Final = 1000
"""A plot's own coordinates, before it is stretched; y is down from the top of its axis."""
SHOWN_H: Final = 130
"""How high it is on the page, in pixels."""
FEW: Final = 16
"""So many GPUs have a line each; of more the median and the range are drawn."""
_TITLES: Final = {
    "util": "Utilization",
    "power": "Power",
    "memory": "Memory",
    "temp": "Temperature",
    "sm_clock": "SM clock",
    "throttled": "Throttled by heat or power brake",
    "throttled_by_power_cap": "At the power limit",
}
_STEPS: Final = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
_TICKS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400),
)
_MOST_TICKS: Final = 6
_HOUR_S: Final = 3600
_LEAST_S: Final = 1e-3
"""An axis of one moment is as long."""


class TimeAxis(Struct, frozen=True, kw_only=True):
    """From the report's start to `last_s` seconds after it."""

    last_s: float

    @property
    def unit(self) -> str:
        """How its figures are written."""
        return "h:mm" if self.last_s > _HOUR_S else "m:ss"

    def share(self, at_s: float) -> float:
        """Where a moment is, in percent of the axis."""
        return min(max(at_s / self.last_s, 0.0), 1.0) * 100

    def ticks(self) -> list[tuple[float, str]]:
        """Where it is marked, in percent, and with what."""
        least_s = self.last_s / _MOST_TICKS
        days = math.ceil(least_s / _TICKS_S[-1]) * _TICKS_S[-1]
        step_s = next((one for one in _TICKS_S if one >= least_s), days)
        at_s = [step_s * at for at in range(int(self.last_s / step_s) + 1)]
        return [(self.share(one), self._told(one)) for one in at_s]

    def _told(self, at_s: int) -> str:
        minutes, seconds = divmod(at_s, 60)
        if self.last_s > _HOUR_S:
            return f"{minutes // 60}:{minutes % 60:02d}"
        return f"{minutes}:{seconds:02d}"

    def svg(self) -> str:
        """Its marks, over the whole width of what it is below."""
        marks = "".join(
            f'<line x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="4"/>'
            f'<text x="{x:.2f}%" y="16">{told}</text>'
            for x, told in self.ticks()
        )
        return f'<svg class="xs" aria-hidden="true">{marks}</svg>'

    def means(self, pieces: Sequence[tuple[Numbers, Numbers]]) -> Numbers:
        """A quantity in each column of the axis, by moments and values; a gap is not-a-number."""
        sums, counts = np.zeros(COLUMNS), np.zeros(COLUMNS)
        for at_s, values in pieces:
            known = np.isfinite(values)
            columns = self.columns(at_s[known])
            sums += np.bincount(columns, weights=values[known], minlength=COLUMNS)
            counts += np.bincount(columns, minlength=COLUMNS)
        found = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        for at_s, values in pieces:
            self.hold(found, at_s, values)
        return found

    def hold(self, found: Numbers, at_s: Numbers, values: Numbers) -> None:
        """Put into each column without a point the value that holds there."""
        empty = np.flatnonzero(np.isnan(found))
        moments_s = (empty.astype(np.float64) + 0.5) * (self.last_s / COLUMNS)
        found[empty] = _held(at_s, values, moments_s)

    def columns(self, at_s: Numbers) -> NDArray[np.int64]:
        """The column of each moment."""
        return np.clip((at_s / self.last_s * COLUMNS).astype(np.int64), 0, COLUMNS - 1)


def _held(at_s: Numbers, values: Numbers, moments_s: Numbers) -> Numbers:
    """The value at each moment: a point's holds up to the next point, however uneven they are.

    Before a gap and at the end it holds for as long as points are usually apart.
    """
    known = np.isfinite(values)
    apart_s = np.diff(at_s)[known[1:] & known[:-1]]
    usual_s = median(apart_s) if apart_s.size else _LEAST_S
    ends_s = at_s + usual_s
    ends_s[:-1] = np.where(known[1:], at_s[1:], np.minimum(at_s[1:], ends_s[:-1]))
    last = np.searchsorted(at_s, moments_s, side="right") - 1
    is_held = (last >= 0) & (moments_s < ends_s[last])
    return np.where(is_held, values[last], np.nan)


def time_axis(report: JobReport) -> TimeAxis:
    """The axis on which all of the job is."""
    ends_s = [one.at_s[-1] for gpu in report.gpus for one in gpu.curves if one.at_s]
    return TimeAxis(last_s=max(report.ended_s - report.started_s, *ends_s, _LEAST_S))


class Named(Struct, frozen=True, kw_only=True):
    """An unusual GPU: its place in the order of colours, its name, and what is unusual."""

    look: str
    name: str
    because: str


class Plot(Struct, frozen=True, kw_only=True):
    """One quantity; `readings` are what its caption says of each colour, without a cursor."""

    key: str
    title: str
    unit: str
    top: float
    curves: str
    readings: tuple[tuple[str, str, str], ...]

    @property
    def ticks(self) -> tuple[tuple[str, str], ...]:
        """Where its axis is marked, in percent from the top, and with what."""
        digits = 0 if self.top >= 4 else 2  # noqa: PLR2004  0, 2, 4
        return tuple(
            (f"{100 - part * 100:.0f}%", figure(self.top * part, digits)) for part in (0, 0.5, 1)
        )

    @property
    def about(self) -> str:
        """What the picture shows, for those who do not see it."""
        told = ", ".join(f"{name} {value}" for _, name, value in self.readings)
        return f"{self.title} over time, {self.unit or 'no unit'}; mean: {told}"


class _Quantity(Struct, kw_only=True):
    """A quantity of each GPU in the columns of the axis."""

    name: str
    unit: str
    curves: dict[Board, list[Curve]]


def plots(
    report: JobReport, axis: TimeAxis, named: Mapping[Board, Named]
) -> tuple[tuple[Plot, ...], tuple[str, ...]]:
    """A plot for each quantity that was measured; the names of those that were 0 throughout.

    Those are left out only where a 0 is no news, as with throttling.
    """
    found, zeros = [], []
    for quantity in _quantities(report.gpus):
        means = {
            board: axis.means([numbers_of(one) for one in its])
            for board, its in quantity.curves.items()
        }
        means = {board: its for board, its in means.items() if np.isfinite(its).any()}
        title = _TITLES.get(quantity.name, clean(quantity.name))
        if not means:
            continue
        if quantity.name.startswith("throttled") and _most(means.values()) <= 0:
            zeros.append(title)
            continue
        found.append(_plot(quantity, means, (report.gpus, axis, named), title))
    return tuple(found), tuple(zeros)


def _quantities(gpus: Sequence[GpuAccount]) -> list[_Quantity]:
    found: dict[str, _Quantity] = {}
    for gpu in gpus:
        for curve in gpu.curves:
            name = curve.name
            unit = "GiB" if curve.unit == "B" else clean(curve.unit)
            into = found.setdefault(name, _Quantity(name=name, unit=unit, curves={}))
            if curve.at_s:
                into.curves.setdefault((gpu.node, gpu.uuid), []).append(curve)
    order = {name: at for at, name in enumerate(_TITLES)}
    return sorted(found.values(), key=lambda one: order.get(one.name, len(order)))


def numbers_of(
    curve: Curve, values: Sequence[float | None] | None = None
) -> tuple[Numbers, Numbers]:
    """Moments, and values in the unit that is shown, the curve's means if no others are given.

    A gap is not-a-number.
    """
    found = np.asarray(values or curve.values, dtype=np.float64)
    found = np.where(np.isfinite(found), found, np.nan)
    found *= 1 / 1024**3 if curve.unit == "B" else 1.0
    return np.asarray(curve.at_s, dtype=np.float64), found


def _plot(
    quantity: _Quantity,
    means: Mapping[Board, Numbers],
    page: tuple[Sequence[GpuAccount], TimeAxis, Mapping[Board, Named]],
    title: str,
) -> Plot:
    gpus, axis, named = page
    shown = [board for board in named if board in means]
    ranges = {board: _range(quantity.curves[board], axis) for board in shown}
    limits = {one.power_limit_w for one in gpus} if quantity.name == "power" else {None}
    limit = limits.pop() if len(limits) == 1 else None
    sizes = [one.mem_bytes or 0 for one in gpus] if quantity.name == "memory" else [0]
    most = max(_most(means.values()), _most(high for _, high in ranges.values()), limit or 0.0)
    top = 100.0 if quantity.unit == "%" else max(sizes) / 1024**3 or rounded_up(most * 1.02)
    others = [values for board, values in means.items() if board not in named]
    parts = [*_quiet(others, top)]
    values = []
    if others:
        middle = median(np.asarray([np.nanmean(one) for one in others]))
        name = "median" if len(others) > 1 else "other" if shown else "GPU"
        values.append(("quiet", name, _told(middle, top)))
    for board in shown:
        look = named[board].look
        parts.append(_band(look, *ranges[board], top))
        parts.append(f'<path class="line {look}" d="{line(means[board], top)}"/>')
        values.append((look, named[board].name, _told(float(np.nanmean(means[board])), top)))
    if limit is not None:
        y = _y(np.asarray([limit]), top)[0]
        parts.append(f'<path class="limit" d="M0 {y}h{WIDTH}"/>')
        values.append(("limit", "limit", _told(limit, top)))
    return Plot(
        key=quantity.name,
        title=title,
        unit=quantity.unit,
        top=top,
        curves="".join(parts),
        readings=tuple(values),
    )


def _quiet(others: Sequence[Numbers], top: float) -> Iterator[str]:
    """A line each; of many the median, and the range from the lowest to the highest."""
    if len(others) <= FEW:
        for values in others:
            yield f'<path class="line quiet" d="{line(values, top)}"/>'
        return
    table = np.asarray(others)
    known = np.isfinite(table).any(axis=0)
    low, middle, high = (np.full(COLUMNS, np.nan) for _ in range(3))
    low[known] = np.nanmin(table[:, known], axis=0)
    middle[known] = np.nanmedian(table[:, known], axis=0)
    high[known] = np.nanmax(table[:, known], axis=0)
    yield _band("quiet", low, high, top)
    yield f'<path class="line quiet" d="{line(middle, top)}"/>'


def _range(curves: Sequence[Curve], axis: TimeAxis) -> tuple[Numbers, Numbers]:
    """The lowest and the highest in each column."""
    low, high = np.full(COLUMNS, np.nan), np.full(COLUMNS, np.nan)
    for curve in curves:
        for side, values, most in ((low, curve.lows, np.fmin), (high, curve.highs, np.fmax)):
            at_s, ends = numbers_of(curve, values)
            most.at(side, axis.columns(at_s), ends)
            axis.hold(side, at_s, ends)
    return low, high


def _most(values: Any) -> float:
    return max((float(np.nanmax(one, initial=0.0)) for one in values), default=0.0)


def rounded_up(value: float) -> float:
    """The next number of few digits, such as an axis ends at; 1 for 0."""
    if not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def _told(value: float, top: float) -> str:
    return figure(value, 0 if top >= 20 else 2)  # noqa: PLR2004  as templates/report/page.js


def _y(values: Numbers, top: float) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.rint((1 - np.clip(values / top, 0, 1)) * HEIGHT).astype(np.int64)
    return found


def line(values: Numbers, top: float) -> str:
    """A path through a value per column; a gap is a gap, and a value between two gaps a dash."""
    parts = []
    for first, last in _runs(np.isfinite(values)):
        y = _y(values[first:last], top)
        if last - first == 1:
            parts.append(f"M{first * _STEP} {y[0]}h{_STEP}")
            continue
        is_corner = np.ones(y.size, dtype=bool)
        is_corner[1:-1] = (y[1:-1] != y[:-2]) | (y[1:-1] != y[2:])
        x = (np.arange(first, last) * _STEP + 2)[is_corner]
        parts.append(_walk(x, y[is_corner]))
    return "".join(parts)


def _band(look: str, low: Numbers, high: Numbers, top: float) -> str:
    """The area between two values per column; none where they are the same throughout."""
    parts = []
    for first, last in _runs(np.isfinite(low) & np.isfinite(high)):
        x = np.arange(first, last) * _STEP + 2
        upper, lower = _y(high[first:last], top), _y(low[first:last], top)
        if x.size == 1:
            x, upper, lower = x[0] + np.asarray([-2, 3]), upper.repeat(2), lower.repeat(2)
        if (upper < lower).any():
            xs, ys = np.concatenate((x, x[::-1])), np.concatenate((upper, lower[::-1]))
            parts.append(_walk(xs, ys) + "z")
    return f'<path class="band {look}" d="{"".join(parts)}"/>' if parts else ""


def _walk(x: NDArray[np.int64], y: NDArray[np.int64]) -> str:
    """A path in steps from each point to the next, which are shorter to write than points."""
    steps = zip(np.diff(x).tolist(), np.diff(y).tolist(), strict=True)
    told = " ".join(f"{dx} {dy}" for dx, dy in steps).replace(" -", "-")
    return f"M{x[0]} {y[0]}l{told}"


def _runs(known: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past the last of each stretch without a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def marks(ticks: Sequence[tuple[str, str]], height: float) -> str:
    """The marks of an axis from bottom to top: each where it is, in percent, and its text."""
    texts = "".join(f'<text x="100%" y="{y}" dy="4">{escape(told)}</text>' for y, told in ticks)
    return f'<svg class="ys" height="{height:.0f}" aria-hidden="true">{texts}</svg>'
