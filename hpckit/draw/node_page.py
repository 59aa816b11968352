"""How the NUMA nodes of a node share a page, and where the room for the links between GPUs is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.draw.node_layout import (
    Spot,
    in_height,
    moved,
    place_height,
    place_spots,
    place_width,
    turned,
)
from hpckit.draw.svg import Rect
from hpckit.model.node_places import Place
from hpckit.model.node_words import numbers_shown

MARGIN: Final = 24.0
PADDING: Final = 10.0
_BETWEEN: Final = 16.0
_WIDEST_ROW: Final = 1240.0
_LEAST_PAGE: Final = 640.0
_MANY: Final = 4
_TWO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The boxes, the panels behind them, and the room for links; `bottom` is where all ends.

    `band` lies between the two halves; links of GPUs above it come down to it, the others up.
    `others` says which NUMA nodes are left out, and why.
    """

    spots: tuple[Spot, ...]
    panels: tuple[Rect, ...]
    band: Rect | None
    width: float
    bottom: float
    others: str


def page(places: Sequence[Place], top: float, band_height: float | None) -> Page:
    """The page below `top`; without `band_height` there are no links to make room for."""
    shown, others = _without_empty(places)
    rows = _rows(shown) if band_height is None else _halves(shown)
    widest = max(map(_row_width, rows), default=0.0)
    width = max(_LEAST_PAGE, widest + 2 * MARGIN)
    spots: list[Spot] = []
    panels: list[Rect] = []
    band = None
    y = top
    for at, row in enumerate(rows):
        is_turned = band_height is not None and at == 1
        height = max(map(place_height, row), default=0.0)
        x = (width - (_row_width(row) if band_height is None else widest)) / 2
        _put_row(row, (x, y, height), is_turned=is_turned, spots=spots, panels=panels)
        y += height + 2 * PADDING
        if band_height is not None and at == 0:
            band = Rect(x=MARGIN, y=y, w=width - 2 * MARGIN, h=band_height)
            y += band_height
        elif band_height is None:
            y += _BETWEEN
    return Page(
        spots=tuple(spots), panels=tuple(panels), band=band, width=width, bottom=y, others=others
    )


def _without_empty(places: Sequence[Place]) -> tuple[list[Place], str]:
    """The places to draw, and what is said of the others, where there are too many for all."""
    held = [place for place in places if place.root.devices()]
    shown = list(places) if len(places) <= _MANY else held or list(places[:_MANY])
    if len(shown) == len(places):
        return shown, ""
    others = numbers_shown(f"NUMA {one.numa_index}" for one in places if one not in shown)
    return shown, f"{others}: {'no devices' if held else 'not drawn'}"


def _rows(places: Sequence[Place]) -> list[list[Place]]:
    rows: list[list[Place]] = []
    for place in places:
        if rows and _row_width([*rows[-1], place]) <= _WIDEST_ROW:
            rows[-1].append(place)
        else:
            rows.append([place])
    return rows


def _halves(places: Sequence[Place]) -> list[list[Place]]:
    """Above and below the links: a package each, or as many as make equal widths."""
    packages = list(dict.fromkeys(place.package_index for place in places))
    if len(packages) == _TWO and len(places) >= _TWO:
        return [[one for one in places if one.package_index == package] for package in packages]
    cuts = range(1, len(places) + 1)
    best = min(
        cuts, key=lambda cut: max(_row_width(places[:cut]), _row_width(places[cut:])), default=0
    )
    return [row for row in (list(places[:best]), list(places[best:])) if row]


def _row_width(places: Sequence[Place]) -> float:
    panels = sum(place_width(place) + 2 * PADDING for place in places)
    return panels + _BETWEEN * max(0, len(places) - 1)


def _put_row(
    row: Sequence[Place],
    where: tuple[float, float, float],
    *,
    is_turned: bool,
    spots: list[Spot],
    panels: list[Rect],
) -> None:
    x, y, height = where
    for place in row:
        width = place_width(place)
        panels.append(Rect(x=x, y=y, w=width + 2 * PADDING, h=height + 2 * PADDING))
        found = in_height(place_spots(place), height)
        if is_turned:
            found = turned(found, height)
        spots += [moved(spot, x + PADDING, y + PADDING) for spot in found]
        x += width + 2 * PADDING + _BETWEEN
