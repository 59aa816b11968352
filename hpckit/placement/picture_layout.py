"""Where leaves and nodes stand in the picture of a placement: rows of boxes, grids in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import Final

from hpckit.core.hostlist import natural_order
from hpckit.core.svg import Rect, text_width
from hpckit.core.values import dataclass
from hpckit.fabric.domain_names import domain_kind, domain_name
from hpckit.fabric.locality import ROOT, Locality

_DEEPEST: Final = 3
UNKNOWN: Final = "not in the fabric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The nodes whose lowest domain is the same; or one node that nobody knows.

    A group that is in two domains is split. `domain` is None for a node that stands alone.
    """

    index: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    domain: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A domain with those of the job below it."""

    name: str
    kind: str
    parts: tuple[Part, ...]


Part = Unit | Frame


def units_of(locality: Locality, nodes: Sequence[str]) -> tuple[Unit, ...]:
    """The units of these nodes, each node in one, as the objective of split groups counts them."""
    members: defaultdict[int, list[str]] = defaultdict(list)
    alone = []
    for node in nodes:
        if node in locality.domain_of:
            members[locality.domain_of[node]].append(node)
        else:
            alone.append(node)
    domains = locality.domains
    ordered = sorted(members, key=lambda at: (natural_order(domains[at].name), at))
    rows: list[tuple[str, str, Sequence[str], int | None]]
    rows = [(domains[at].name, domain_kind(domains[at]), members[at], at) for at in ordered]
    rows += [(node, "node", [node], None) for node in sorted(alone, key=natural_order)]
    return tuple(
        Unit(index=index, name=name, kind=kind, nodes=tuple(its), domain=domain)
        for index, (name, kind, its, domain) in enumerate(rows)
    )


def parts_of(locality: Locality, units: Sequence[Unit]) -> tuple[Part, ...]:
    """The units in frames of the domains above them, those left out that part nothing.

    Nodes beside the domains that are below their own are a box in it.
    """
    known = [unit for unit in units if unit.domain is not None]
    over = {at for unit in known for at in locality.path(unit.nodes[0])[1:]}
    inside: defaultdict[int, list[Unit]] = defaultdict(list)
    lost = []
    for unit in units:
        if unit.domain is None:
            lost.append(unit)
        elif unit.domain in over:
            inside[unit.domain].append(unit)
        else:
            inside[locality.domains[unit.domain].parent].append(unit)
    parts = _Framing(locality, inside).within(ROOT, 0)
    if lost and parts:
        parts = (*parts, Frame(name=UNKNOWN, kind="", parts=tuple(lost)))
    return parts or tuple(lost)


class _Framing:
    def __init__(self, locality: Locality, inside: Mapping[int, Sequence[Unit]]) -> None:
        self._locality = locality
        self._inside = inside
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        seen = {ROOT}
        for start in inside:
            at = start
            while at not in seen:
                seen.add(at)
                self._below[locality.domains[at].parent].append(at)
                at = locality.domains[at].parent

    def within(self, domain: int, depth: int) -> tuple[Part, ...]:
        while not self._inside.get(domain) and len(self._below[domain]) == 1:
            domain = self._below[domain][0]
        if depth >= _DEEPEST:
            domains = [domain]
            for at in domains:  # grows while it is walked
                domains += self._below[at]
            units = [unit for at in domains for unit in self._inside.get(at, ())]
            return tuple(sorted(units, key=lambda unit: unit.index))
        found: list[Part] = []
        names = self._locality.domains
        for one in sorted(self._below[domain], key=lambda at: (natural_order(names[at].name), at)):
            parts = self.within(one, depth + 1)
            if len(parts) == 1:
                found += parts
            else:
                its = names[one]
                found.append(Frame(name=its.name, kind=domain_kind(its), parts=parts))
        return (*found, *self._inside.get(domain, ()))


CELL_TEXT: Final = 11.0
BOX_TEXT: Final = 12.0
_HIGHEST: Final = 700.0
_MOST_TRIED: Final = 200
_MOST_NAMED: Final = 96
_MOST_NUMBERED: Final = 2048
_LINE: Final = 16.0
_NUMBERED: Final = ((34.0, 24.0), (26.0, 19.0), (20.0, 15.0), (16.0, 14.0))
_PLAIN: Final = (13.0, 11.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0)
_SMALLEST: Final = 3.0
_WIDE_FROM: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How a node is drawn: `lines` of text in it, 2 for its name and its group, 1 for this alone.

    Names of leaves and of frames are at most so many characters, None where they have no room.
    """

    w: float
    h: float
    lines: int
    unit_chars: int | None = None
    frame_chars: int | None = None

    def chars(self, part: Part) -> int | None:
        """How long the name over a box is at most."""
        return self.unit_chars if isinstance(part, Unit) else self.frame_chars

    @property
    def pad(self) -> float:
        """Between a box's edge and what is in it."""
        return 4.0 if self.w >= _WIDE_FROM else 2.0

    @property
    def gap(self) -> float:
        """Between boxes."""
        return 6.0 if self.w >= _WIDE_FROM else 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A box and what it stands for; a unit's cells are in rows of `columns` from `first` on."""

    part: Part
    rect: Rect
    columns: int = 0
    first: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All boxes from (0, 0) on, frames before what is in them; `columns` of cells at most."""

    spots: tuple[Spot, ...]
    cell: Cell
    columns: int
    w: float
    h: float


def layout_of(parts: Sequence[Part], numbers: Sequence[str], names: float, width: float) -> Layout:
    """The largest cells with which all has room in a width and a height; below that it grows.

    `numbers` are the texts of groups, `names` the pixels that the widest node's name takes.
    """
    nodes = sum(len(unit.nodes) for unit in _units(parts))
    widest = max((text_width(text, CELL_TEXT) for text in numbers), default=0.0) + 4
    found = _placed(parts, Cell(w=_SMALLEST, h=_SMALLEST, lines=0), width)
    for cell in _cells(nodes, widest, names):
        if nodes * cell.w * cell.h < width * _HIGHEST:
            larger = _placed(parts, cell, width)
            if larger.h <= _HIGHEST:
                found = larger
                break
    for is_unit in (False, True):
        found = _labelled(parts, found, width, is_unit=is_unit)
    return found


def _labelled(parts: Sequence[Part], found: Layout, width: float, *, is_unit: bool) -> Layout:
    """With names over the frames, or the units, in the longest form that has room over each."""
    for most in (48, 32, 24, 18, 12):
        part = "unit_chars" if is_unit else "frame_chars"
        cell = replace(found.cell, **{part: most})
        if _has_room(found, cell, is_unit=is_unit):
            larger = _in_columns(parts, cell, width, found.columns)
            if larger.h <= _HIGHEST * 1.3 or found.h > _HIGHEST:
                return larger
    return found


def _cells(nodes: int, widest: float, names: float) -> Iterator[Cell]:
    """The cells that come into question, the largest first."""
    if nodes <= _MOST_NAMED:
        named = max(56.0, min(132.0, ceil(names) + 8.0))
        yield Cell(w=named, h=36.0, lines=2)
    if nodes <= _MOST_NUMBERED:
        yield from (Cell(w=max(w, ceil(widest)), h=h, lines=1) for w, h in _NUMBERED)
    yield from (Cell(w=size, h=size, lines=0) for size in _PLAIN)


def _units(parts: Sequence[Part]) -> list[Unit]:
    found: list[Unit] = []
    for part in parts:
        found += [part] if isinstance(part, Unit) else _units(part.parts)
    return found


def label(part: Part, most: int) -> str:
    """What stands over a box; nothing over a node that stands alone."""
    if isinstance(part, Unit) and part.domain is None:
        return ""
    return domain_name(part.name, most)


def _has_room(layout: Layout, cell: Cell, *, is_unit: bool) -> bool:
    """Whether every box of a kind has the room for a name over it that no other box has."""
    boxes = [spot for spot in layout.spots if isinstance(spot.part, Unit) == is_unit]
    texts = [label(spot.part, cell.chars(spot.part) or 0) for spot in boxes]
    whole = {label(spot.part, 4000) for spot in boxes}
    return len(set(texts)) == len(whole) > 0 and all(
        text_width(text, BOX_TEXT) + 6 <= spot.rect.w
        for text, spot in zip(texts, boxes, strict=True)
    )


def _placed(parts: Sequence[Part], cell: Cell, width: float) -> Layout:
    """The layout whose number of columns makes it the lowest; of large ones one is tried."""
    sizes = [len(unit.nodes) for unit in _units(parts)]
    tried = _columns(max(sizes, default=1), cell, width)
    tried = tried if len(sizes) <= _MOST_TRIED else tried[:1]
    found = [_in_columns(parts, cell, width, columns) for columns in tried]
    return min(found, key=lambda one: one.h)


def _in_columns(parts: Sequence[Part], cell: Cell, width: float, columns: int) -> Layout:
    spots, w, h = _Flow(cell, columns).lay(parts, width)
    return Layout(spots=tuple(spots), cell=cell, columns=columns, w=w, h=h)


def _columns(nodes: int, cell: Cell, width: float) -> list[int]:
    """So many that boxes are about as high as wide; those first that leave the fewest gaps."""
    most = max(1, int((width - 8 * cell.pad) // cell.w))
    best = sqrt(1.6 * nodes * cell.h / cell.w)
    least, highest = max(1, ceil(best * 0.7)), max(1, ceil(best * 1.4))
    found = range(min(least, most), min(highest, most) + 1)
    return sorted(found, key=lambda one: (ceil(nodes / one) * one - nodes, abs(one - best)))


class _Flow:
    """Puts boxes beside each other, and the next row below where one has no room."""

    def __init__(self, cell: Cell, columns: int) -> None:
        self._cell = cell
        self._columns = columns

    def lay(self, parts: Sequence[Part], width: float) -> tuple[list[Spot], float, float]:
        found: list[Spot] = []
        x = y = row = widest = 0.0
        for part in parts:
            spots = self._box(part, width)
            rect = spots[0].rect
            if x and x + rect.w > width:
                x, y, row = 0.0, y + row + self._cell.gap, 0.0
            found += [moved(spot, x, y) for spot in spots]
            widest, row = max(widest, x + rect.w), max(row, rect.h)
            x += rect.w + self._cell.gap
        return found, widest, y + row

    def _even(self, parts: Sequence[Part], width: float) -> tuple[list[Spot], float, float]:
        """In rows that are about as long as each other."""
        spots, w, h = self.lay(parts, width)
        own = {id(part) for part in parts}
        tops = [spot for spot in spots if id(spot.part) in own]
        rows = len({spot.rect.y for spot in tops})
        if rows > 1:
            widest = max(spot.rect.w for spot in tops) + self._cell.gap
            narrow = ceil(len(tops) / rows) * widest - self._cell.gap
            if narrow < w:
                evened = self.lay(parts, narrow)
                return evened if evened[2] <= h else (spots, w, h)
        return spots, w, h

    def _box(self, part: Part, width: float) -> list[Spot]:
        """The spot of a part, then those of what is in it, from (0, 0) on."""
        cell = self._cell
        pad = cell.pad
        top = pad + (_LINE if cell.chars(part) is not None and part.name else 0.0)
        if isinstance(part, Frame):
            inner, w, h = self._even(part.parts, width - 2 * pad)
            rect = Rect(x=0, y=0, w=w + 2 * pad, h=h + top + pad)
            return [Spot(part=part, rect=rect), *(moved(spot, pad, top) for spot in inner)]
        if part.domain is None:
            pad = top = 0.0
        columns = min(self._columns, len(part.nodes))
        rows = ceil(len(part.nodes) / columns)
        rect = Rect(x=0, y=0, w=columns * cell.w + 2 * pad, h=rows * cell.h + top + pad)
        return [Spot(part=part, rect=rect, columns=columns, first=(pad, top))]


def moved(spot: Spot, x: float, y: float) -> Spot:
    """The same, so many pixels to the right and down."""
    rect = replace(spot.rect, x=spot.rect.x + x, y=spot.rect.y + y)
    return replace(spot, rect=rect, first=(spot.first[0] + x, spot.first[1] + y))
