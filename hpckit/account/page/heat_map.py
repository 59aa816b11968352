"""All GPUs over time as one picture: a row a GPU, a column a stretch of time, colour the value.

The colours are cividis (Nuñez, Anderton, Renslow 2018, doi:10.1371/journal.pone.0199239), even in
lightness and the same to people who confuse red and green. PNG: W3C, third edition.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.page.figures import clean
from hpckit.account.page.plots import COLUMNS, Numbers, TimeAxis, marks, numbers_of, rounded_up
from hpckit.account.values import GpuAccount
from hpckit.core.hostlist import natural_order
from hpckit.core.quantities import plural
from hpckit.core.text import figure

_MOST_ROWS: Final = 4096
_ANCHORS: Final = (
    (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
    (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
)  # fmt: skip
_COLOURS: Final = 255
_LEAST_H: Final = 60.0
_MOST_H: Final = 520.0
_ROW_H: Final = 18.0
_LABEL_H: Final = 15.0
_LONGEST: Final = 14


class HeatMap(Struct, frozen=True, kw_only=True):
    """A picture as wide as the page; `scale` is that of its colours, up to `top`.

    `note` says what of it is not drawn.
    """

    title: str
    about: str
    rows: str
    image: str
    height: float
    scale: str
    top: str
    note: str


def heat_map(gpus: Sequence[GpuAccount], axis: TimeAxis) -> HeatMap | None:
    """Utilization of all GPUs over time, else power; None where none has either."""
    for name, title in (("util", "Utilization"), ("power", "Power")):
        rows = _rows(gpus, name)
        if rows:
            return _drawn(rows, title, axis)
    return None


class _Row(Struct, frozen=True, kw_only=True):
    node: str
    name: str
    unit: str
    most: float
    pieces: tuple[tuple[Numbers, Numbers], ...]


def _rows(gpus: Sequence[GpuAccount], wanted: str) -> list[_Row]:
    rows: dict[tuple[str, str], _Row] = {}
    order = sorted(gpus, key=lambda one: (natural_order(one.node), one.index or 0, one.restart))
    for gpu in order:
        for curve in gpu.curves:
            if curve.name != wanted:
                continue
            at_s, values = numbers_of(curve)
            if not np.isfinite(values).any():
                continue
            old = rows.get((gpu.node, gpu.uuid))
            most = max(float(np.nanmax(values)), gpu.power_limit_w or 0.0)
            rows[gpu.node, gpu.uuid] = _Row(
                node=gpu.node,
                name="" if gpu.index is None else f"GPU{gpu.index}",
                unit=clean(curve.unit),
                most=max(most, old.most if old else 0.0),
                pieces=(*(old.pieces if old else ()), (at_s, values)),
            )
    return list(rows.values())


def _drawn(rows: list[_Row], title: str, axis: TimeAxis) -> HeatMap:
    shown = rows[:_MOST_ROWS]
    unit = shown[0].unit
    top = 100.0 if unit == "%" else rounded_up(max(row.most for row in shown))
    cells = np.full((len(shown), COLUMNS), 255, dtype=np.uint8)
    for at, row in enumerate(shown):
        means = axis.means(row.pieces)
        known = np.isfinite(means)
        cells[at, known] = np.clip(means[known] / top, 0, 1) * (_COLOURS - 1)
    height = min(max(len(shown) * _ROW_H, _LEAST_H), _MOST_H)
    left_out = f"{len(rows) - len(shown)} more GPUs not shown" if len(rows) > len(shown) else ""
    return HeatMap(
        title=f"{title} of all GPUs",
        about=f"{title} of {plural(len(shown), 'GPU')} over time, one row per GPU",
        rows=marks(list(_row_labels(shown, height)), height),
        image=_uri(cells),
        height=height,
        scale=_uri(np.arange(_COLOURS, dtype=np.uint8).reshape(1, -1)),
        top=f"{figure(top)} {unit}",
        note=left_out,
    )


def _uri(cells: NDArray[np.uint8]) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(cells)).decode()}"


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
        (b"IDAT", zlib.compress(rows.tobytes())),
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


def _row_labels(rows: list[_Row], height: float) -> Iterator[tuple[str, str]]:
    """Where a row's name is, in percent from the top, for as many as there is room for."""
    each = height / len(rows)
    many = len({row.node for row in rows}) > 1
    last_y = -_LABEL_H
    for at, row in enumerate(rows):
        y = (at + 0.5) * each
        begins = at == 0 or rows[at - 1].node != row.node
        if y - last_y < _LABEL_H or (each < _LABEL_H and not begins and many):
            continue
        node = clean(row.node)[:_LONGEST]
        name = f"{node} {row.name}" if many and each >= _LABEL_H else node if many else row.name
        last_y = y
        yield f"{y / height * 100:.2f}%", name
