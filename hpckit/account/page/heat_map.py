"""All GPUs over time as one picture: a row a GPU, a column a stretch of time, colour the value.

The colours are cividis (Nuñez, Anderton, Renslow 2018, doi:10.1371/journal.pone.0199239), even in
lightness and the same to people who confuse red and green. PNG: W3C, third edition.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.page.figures import clean
from hpckit.account.page.plots import Numbers, gpu_panels, time_ticks
from hpckit.account.values import GpuAccount, JobReport
from hpckit.core.hostlist import natural_order
from hpckit.core.text import figure

_COLUMNS: Final = 360
_MOST_ROWS: Final = 4096
_ANCHORS: Final = (
    (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
    (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
)  # fmt: skip
_COLOURS: Final = 255
_WIDTHS: Final = {"wide": (1160.0, 12), "narrow": (420.0, 5)}
"""How wide the map is on a screen and on a phone, and the most marks of its axis of time."""
_LEFT: Final = 92.0
_RIGHT: Final = 12.0
_LEAST_H: Final = 60.0
_MOST_H: Final = 520.0
_ROW_H: Final = 18.0
_LABEL_H: Final = 15.0
_AXIS: Final = 62.0
_LEAST_S: Final = 1e-3
"""A map of one moment is as long."""


class HeatMap(Struct, frozen=True, kw_only=True):
    """A picture and what it shows; `note` says what of it is not drawn."""

    svg: str
    title: str
    note: str


def heat_map(gpus: Sequence[GpuAccount]) -> HeatMap | None:
    """Utilization of all GPUs over time, else power; None where none has either."""
    for title in ("Utilization", "Power"):
        rows = _rows(gpus, title)
        if rows:
            return _drawn(rows, title)
    return None


class _Row(Struct, frozen=True, kw_only=True):
    node: str
    name: str
    unit: str
    top: float
    pieces: tuple[tuple[Numbers, Numbers], ...]


def _rows(gpus: Sequence[GpuAccount], title: str) -> list[_Row]:
    rows: dict[tuple[str, str], _Row] = {}
    order = sorted(gpus, key=lambda one: (natural_order(one.node), one.index or 0, one.restart))
    for gpu in order:
        for panel in gpu_panels(gpu, title):
            if not np.isfinite(panel.values).any():
                continue
            old = rows.get((gpu.node, gpu.uuid))
            name = "" if gpu.index is None else f"GPU{gpu.index}"
            rows[gpu.node, gpu.uuid] = _Row(
                node=gpu.node,
                name=name,
                unit=panel.unit,
                top=max(panel.top, old.top if old else 0.0),
                pieces=(*(old.pieces if old else ()), (panel.at_s, panel.values)),
            )
    return list(rows.values())


def _drawn(rows: list[_Row], title: str) -> HeatMap:
    shown = rows[:_MOST_ROWS]
    first = min(float(at[0]) for row in shown for at, _ in row.pieces)
    last = max(float(at[-1]) for row in shown for at, _ in row.pieces)
    last = max(last, first + _LEAST_S)
    top = max(row.top for row in shown)
    cells = np.full((len(shown), _COLUMNS), 255, dtype=np.uint8)
    for at, row in enumerate(shown):
        means = _means(row, first, last)
        known = np.isfinite(means)
        cells[at, known] = np.clip(means[known] / top, 0, 1) * (_COLOURS - 1)
    image = base64.b64encode(png(cells)).decode()
    left_out = f"{len(rows) - len(shown)} more GPUs are not drawn" if len(rows) > len(shown) else ""
    svg = "".join(
        part for look in _WIDTHS for part in _svg(shown, image, (first, last, top), title, look)
    )
    return HeatMap(svg=svg, title=f"{title} of all GPUs", note=left_out)


def _means(row: _Row, first_s: float, last_s: float) -> Numbers:
    sums, counts = np.zeros(_COLUMNS), np.zeros(_COLUMNS)
    for at_s, values in row.pieces:
        known = np.isfinite(values)
        place = (at_s[known] - first_s) / (last_s - first_s) * _COLUMNS
        columns = np.clip(place.astype(np.int64), 0, _COLUMNS - 1)
        sums += np.bincount(columns, weights=values[known], minlength=_COLUMNS)
        counts += np.bincount(columns, minlength=_COLUMNS)
    found = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    middles_s = first_s + (np.arange(_COLUMNS) + 0.5) * (last_s - first_s) / _COLUMNS
    for at_s, values in row.pieces:
        found = np.where(np.isnan(found), _held(at_s, values, middles_s), found)
    return found


def _held(at_s: Numbers, values: Numbers, moments_s: Numbers) -> Numbers:
    """The value at each moment: a point's holds up to the next point, however uneven they are.

    Before a gap and at the end it holds for as long as points are usually apart.
    """
    known = np.isfinite(values)
    apart_s = np.diff(at_s)[known[1:] & known[:-1]]
    usual_s = float(np.median(apart_s)) if apart_s.size else _LEAST_S
    ends_s = at_s + usual_s
    ends_s[:-1] = np.where(known[1:], at_s[1:], np.minimum(at_s[1:], ends_s[:-1]))
    last = np.searchsorted(at_s, moments_s, side="right") - 1
    is_held = (last >= 0) & (moments_s < ends_s[last])
    return np.where(is_held, values[last], np.nan)


def png(cells: NDArray[np.uint8]) -> bytes:
    """Cells of 0 to 254 in the colours of the map as a PNG file; 255 is transparent."""
    height, width = cells.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with its filter: none
    rows[:, 1:] = cells
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", _palette()),
        (b"tRNS", b"\xff" * _COLOURS + b"\0"),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )


def _palette() -> bytes:
    places = np.linspace(0, len(_ANCHORS) - 1, _COLOURS)
    anchors = np.asarray(_ANCHORS, dtype=np.float64)
    channels = [np.interp(places, np.arange(len(_ANCHORS)), anchors[:, at]) for at in range(3)]
    colours = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return colours.tobytes() + b"\0\0\0"


def _svg(
    rows: list[_Row], image: str, scale: tuple[float, float, float], title: str, look: str
) -> Iterator[str]:
    first, last, top = scale
    width, most_ticks = _WIDTHS[look]
    height = min(max(len(rows) * _ROW_H, _LEAST_H), _MOST_H)
    room = width - _LEFT - _RIGHT
    label = f"{title} of {len(rows)} GPUs over time, a row a GPU"
    yield (
        f'<svg class="heat {look}" viewBox="0 0 {width:.0f} {height + _AXIS:.0f}" role="img" '
        f"aria-label={quoteattr(label)}>"
        f'<rect class="nothing" x="{_LEFT:.0f}" y="4" width="{room:.0f}" height="{height:.0f}"/>'
        f'<image x="{_LEFT:.0f}" y="4" width="{room:.0f}" height="{height:.0f}" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{image}"/>'
    )
    yield from _row_labels(rows, height)
    ticks, unit, unit_s = time_ticks(first, last, most_ticks)
    for tick in ticks:
        x = _LEFT + (tick - first) / (last - first) * room
        yield f'<path class="grid" d="M{x:.1f} {height + 4:.1f}v5"/>'
        yield (
            f'<text class="tick x" x="{x:.1f}" y="{height + 22:.1f}">'
            f"{figure(tick / unit_s, 2)}</text>"
        )
    yield (
        f'<text class="tick x" x="{_LEFT + room / 2:.1f}" y="{height + 40:.1f}">'
        f"{unit} since the start</text>"
    )
    yield from _key(rows[0].unit, top, (width - _RIGHT, height + 46))
    yield "</svg>"


def _key(unit: str, top: float, corner: tuple[float, float]) -> Iterator[str]:
    """The scale of colours; `corner` is its upper right."""
    bar = base64.b64encode(png(np.arange(_COLOURS, dtype=np.uint8).reshape(1, -1))).decode()
    x, y, width = corner[0] - 260, corner[1], 160
    yield (
        f'<text class="tick y" x="{x - 6:.0f}" y="{y + 11:.0f}">0</text>'
        f'<image x="{x:.0f}" y="{y:.0f}" width="{width}" height="12" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{bar}"/>'
        f'<text class="tick" x="{x + width + 6:.0f}" y="{y + 11:.0f}">'
        f"{figure(top)} {escape(unit)}</text>"
    )


def _row_labels(rows: list[_Row], height: float) -> Iterator[str]:
    each = height / len(rows)
    many = len({row.node for row in rows}) > 1
    last_y = -_LABEL_H
    for at, row in enumerate(rows):
        y = 4 + (at + 0.5) * each + 4
        begins = at == 0 or rows[at - 1].node != row.node
        if y - last_y < _LABEL_H or (each < _LABEL_H and not begins and many):
            continue
        node = clean(row.node)[:14]
        name = f"{node} {row.name[3:]}" if many and each >= _LABEL_H else node if many else row.name
        last_y = y
        yield f'<text class="tick y" x="{_LEFT - 6:.0f}" y="{y:.1f}">{escape(name)}</text>'


FEW: Final = 16
_MOST: Final = 12

_EXTREMES: Final[tuple[tuple[str, Callable[[GpuAccount], float | None], bool], ...]] = (
    ("lowest utilization", lambda one: one.util_mean_pct, False),
    ("slowed by heat the longest", lambda one: one.throttling.thermal_s or None, True),
    ("slowed by its power cap the longest", lambda one: one.throttling.power_cap_s or None, True),
    ("hottest", lambda one: one.temp_max_c, True),
    ("highest power", lambda one: one.power_mean_w, True),
    ("least covered by samples", lambda one: one.energy.coverage_frac, False),
    ("highest utilization", lambda one: one.util_mean_pct, True),
)


def chosen_gpus(report: JobReport) -> tuple[tuple[GpuAccount, str], ...]:
    """The GPUs to plot, in the report's order, with the reason for each where not all are.

    Up to 16 are all drawn; of more at most 12, those of findings first.
    """
    drawn = [gpu for gpu in report.gpus if gpu.curves]
    if len(drawn) <= FEW:
        return tuple((gpu, "") for gpu in drawn)
    reasons: dict[int, str] = {}
    for at, reason in _candidates(report, drawn):
        if len(reasons) == _MOST:
            break
        reasons.setdefault(at, reason)
    return tuple((drawn[at], reasons[at]) for at in sorted(reasons))


def _candidates(report: JobReport, gpus: Sequence[GpuAccount]) -> Iterator[tuple[int, str]]:
    by_name = {(gpu.label, gpu.node, gpu.restart): at for at, gpu in enumerate(gpus)}
    for finding in report.findings:
        about = finding.about
        for node in about.nodes:
            if (at := by_name.get((about.what, node, about.restart))) is not None:
                yield at, f"finding {finding.rule}"
    for reason, value, is_most in _EXTREMES:
        found = [(one, at) for at, gpu in enumerate(gpus) if (one := value(gpu)) is not None]
        if found:
            best = max if is_most else min
            yield best(found)[1], reason
