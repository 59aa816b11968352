"""The nodes of one order in the boxes of their leaves, in the colours of their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from hpckit.core.svg import (
    NO_GROUP,
    PALETTE,
    Drawing,
    Layer,
    Look,
    Rect,
    Stroke,
    Word,
    broken,
    fitted,
    group_colours,
    ink_on,
    path,
    rectangle,
    text_width,
)
from hpckit.core.text import visible
from hpckit.core.units import format_indices, short_time
from hpckit.fabric.domain_names import short_names
from hpckit.fabric.locality import Locality
from hpckit.placement.picture_layout import (
    Cell,
    Frame,
    Layout,
    Spot,
    Unit,
    label,
    layout_of,
    moved,
    parts_of,
    units_of,
)

POD: Final = Look(fill="#f6f8fa", stroke="#afb8c1", width=1, radius=6)
LEAF: Final = Look(fill="#ffffff", stroke="#57606a", width=1, radius=3)
GREY: Final = "#57606a"
_MOST_PARTS: Final = 4
_GRID_FROM: Final = 4.0
_CELL_TEXT: Final = 10.0
_LONG: Final = 160
_Groups = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coloured:
    """One order with its groups: `place` is each node's position, `groups` those of a position."""

    place: Mapping[str, int]
    groups: Sequence[_Groups]
    colours: Sequence[str]
    ranks_per_node: int

    def of(self, node: str) -> _Groups:
        """The groups in which a node has ranks, none where no group leaves its node."""
        return self.groups[self.place[node]]

    def fill(self, groups: _Groups) -> str:
        """The colour of the first of a node's groups, or of none."""
        return self.colours[groups[0]] if groups else NO_GROUP

    def about(self, nodes: Sequence[str], unit: Unit) -> str:
        """Nodes of the same groups in words: who they are, where, with which ranks."""
        per = self.ranks_per_node
        places = sorted(self.place[node] for node in nodes)
        ranks = format_indices(place * per + i for place in places for i in range(per))
        name = visible(nodes[0]) if len(nodes) == 1 else short_names(nodes, 80)
        where = "" if unit.domain is None else f" · {_called(unit, 60)}"
        groups = self.of(nodes[0])
        told = f"group {number_text(groups, '+')}" if groups else "in no group"
        return f"{name}{where} · {told} · ranks {visible(ranks, _LONG)}"


def number_text(groups: _Groups, between: str = "|") -> str:
    """The numbers of the groups of a node, none where it is in none."""
    shown = between.join(map(str, groups[:_MOST_PARTS]))
    return shown + (between + "…" if len(groups) > _MOST_PARTS else "")


def draw_order(
    drawing: Drawing, layout: Layout, order: Coloured, where: tuple[float, float]
) -> None:
    """Draw the boxes and nodes of one order from a point on."""
    spots = [moved(spot, *where) for spot in layout.spots]
    for spot in spots:
        _box(drawing, spot, order, layout.cell)
    pens = [
        _Pen(drawing, layout.cell, order, spot, spot.part)
        for spot in spots
        if isinstance(spot.part, Unit)
    ]
    for pen in pens:
        pen.draw()
    for pen in pens:
        pen.draw_grid()


def _called(part: Unit | Frame, most: int) -> str:
    """What a box stands for and its name, `leaf a1`, but not `leaf leaf1`."""
    name = short_names([part.name], most)
    is_told = not part.kind or name.lower().startswith(part.kind.lower())
    return name if is_told else f"{part.kind} {name}"


def _unit_words(unit: Unit, order: Coloured) -> str:
    found = Counter(group for node in unit.nodes for group in order.of(node))
    count = f"{len(unit.nodes)} nodes of the job" if len(unit.nodes) > 1 else "one node of the job"
    name = f"{_called(unit, _LONG)}: {count}"
    return f"{name}, of {len(found)} groups" if len(found) != 1 else f"{name}, of one group"


def _box(drawing: Drawing, spot: Spot, order: Coloured, cell: Cell) -> None:
    if isinstance(spot.part, Frame):
        drawing.box("pod", spot.rect, POD, (), about=_called(spot.part, _LONG))
    elif spot.part.domain is not None:
        drawing.box("leaf", spot.rect, LEAF, (), about=_unit_words(spot.part, order))
    most = cell.chars(spot.part)
    text = "" if most is None else fitted(label(spot.part, most), _CELL_TEXT, spot.rect.w - 4)
    if text:
        word = Word(text=text, size=_CELL_TEXT, colour=GREY)
        drawing.label(spot.rect.x + 4, spot.rect.y + cell.pad + 8, word)


class _Pen:
    def __init__(
        self, drawing: Drawing, cell: Cell, order: Coloured, spot: Spot, unit: Unit
    ) -> None:
        self._drawing = drawing
        self._cell = cell
        self._order = order
        self._columns = spot.columns
        self._x, self._y = spot.first
        self._unit = unit

    def draw(self) -> None:
        """Draw the nodes, those of one group beside each other; each by itself if it has a text."""
        order, at = self._order, 0
        nodes = sorted(self._unit.nodes, key=lambda node: (order.of(node), order.place[node]))
        for groups, alike in groupby(nodes, key=order.of):
            run = tuple(alike)
            for part in [(node,) for node in run] if self._cell.lines else [run]:
                self._draw_run(range(at, at + len(part)), part, groups)
                at += len(part)

    def _rect(self, at: int, part: int = 0, parts: int = 1) -> Rect:
        row, column = divmod(at, self._columns)
        w = self._cell.w / parts
        return Rect(
            x=self._x + column * self._cell.w + part * w,
            y=self._y + row * self._cell.h,
            w=w,
            h=self._cell.h,
        )

    def _draw_run(self, cells: range, nodes: Sequence[str], groups: _Groups) -> None:
        fill, about = self._order.fill(groups), self._order.about(nodes, self._unit)
        kind, words = "run", list[tuple[float, float, Word]]()
        if self._cell.lines:
            kind = "cell"
            words += self._words(nodes[0], groups, self._rect(cells.start), ink_on(fill))
        shown = groups[:_MOST_PARTS]
        inside = words if len(shown) <= 1 else ()
        self._drawing.area(kind, "".join(self._outline(cells)), fill, inside, about=about)
        if len(shown) <= 1:
            return
        # The right parts of nodes that have ranks in several groups, and the text over them.
        for part, group in enumerate(shown[1:], 1):
            d = "".join(rectangle(self._rect(at, part, len(shown))) for at in cells)
            self._drawing.area("share", d, self._order.colours[group], (), about="")
        for x, y, word in words:
            self._drawing.label(x, y, Word(text=word.text, size=word.size, anchor="middle"))

    def _words(
        self, node: str, groups: _Groups, rect: Rect, ink: str
    ) -> Iterator[tuple[float, float, Word]]:
        text, size = number_text(groups) or "–", _CELL_TEXT
        y = rect.y + rect.h / 2 + size * 0.36
        if self._cell.lines > 1:
            name = fitted(node, size, rect.w - 6)
            bold = Word(text=name, size=size, is_bold=True, colour=ink, anchor="middle")
            yield rect.middle, rect.y + 14, bold
            text = f"group {text}" if groups else "no group"
            text, y = fitted(text, size, rect.w - 6), rect.y + 27
        if text_width(text, size) <= rect.w:
            yield rect.middle, y, Word(text=text, size=size, colour=ink, anchor="middle")

    def _outline(self, cells: range) -> Iterator[str]:
        """Rectangles that cover cells that follow each other: a row's end, rows, a row's start."""
        at = cells.start
        while at < cells.stop:
            row_end = at - at % self._columns + self._columns
            rect = self._rect(at)
            if at % self._columns == 0 and cells.stop >= row_end:
                rows = (cells.stop - at) // self._columns
                yield rectangle(Rect(x=rect.x, y=rect.y, w=self._columns * rect.w, h=rows * rect.h))
                at += rows * self._columns
            else:
                end = min(row_end, cells.stop)
                yield rectangle(Rect(x=rect.x, y=rect.y, w=(end - at) * rect.w, h=rect.h))
                at = end

    def draw_grid(self) -> None:
        """White lines between cells; also between groups whose colour is the same."""
        count = len(self._unit.nodes)
        if self._cell.w < _GRID_FROM or count == 1:
            return
        x, y, cell = self._x, self._y, self._cell
        columns, rows = min(count, self._columns), -(-count // self._columns)
        right, bottom = x + cell.w * columns, y + cell.h * rows
        downs = [x + at * cell.w for at in range(1, columns)]
        acrosses = [y + at * cell.h for at in range(1, rows)]
        lines = [path((down, y), (down, bottom)) for down in downs]
        lines += [path((x, across), (right, across)) for across in acrosses]
        width = 1.0 if self._cell.w >= 8 else 0.5  # noqa: PLR2004
        grid = Stroke(colour="#ffffff", width=width)
        if lines:
            self._drawing.wire("".join(lines), grid, Layer.BOX)


# --- The whole picture: leaves with their nodes, once as placed and once by host name.
_MARGIN: Final = 24.0
_BETWEEN: Final = 40.0
_TITLE: Final = 20.0
_TEXT: Final = 12.0
_LINE: Final = 18.0
_SWATCH: Final = 14.0
_ORDERS: Final = ("as placed", "by host name")


def placement_svg(
    locality: Locality,
    orders: tuple[Sequence[str], Sequence[str]],
    groups: Sequence[Sequence[int]],
    *,
    axis: str,
    ranks_per_node: int,
    title: str,
    facts: tuple[Sequence[str], Sequence[float]] = ((), ()),
) -> str:
    """The placed order on the left, that of host names on the right, as an SVG file in itself.

    `orders` are these two, each with the same node names, the i-th carrying the ranks i·g … i·g+g−1
    of g ranks a node. `groups` are those of the axis, each with its positions in an order; a group
    that stays on its node is not among them. A box is one of the lowest domains that the fabric
    tells of, and a group in several of them counts as split. `facts` are words below the title, and
    the predicted times of both orders. The same bytes for the same input.
    """
    picture = _Picture(locality, orders, groups, axis, ranks_per_node)
    return picture.document(title, *facts)


class _Picture:
    def __init__(
        self,
        locality: Locality,
        orders: tuple[Sequence[str], Sequence[str]],
        groups: Sequence[Sequence[int]],
        axis: str,
        ranks_per_node: int,
    ) -> None:
        self._orders = orders
        self._groups = groups
        self._axis = axis
        units = units_of(locality, orders[0])
        self._unit_of = {node: unit.index for unit in units for node in unit.nodes}
        self._unknown = {unit.index for unit in units if unit.domain is None}
        kinds = dict.fromkeys(unit.kind for unit in units if unit.domain is not None)
        words = [f"an {kind}" if kind.startswith("NV") else f"a {kind}" for kind in kinds]
        self._kind = " or ".join(words) or "a node"
        of_place: list[list[int]] = [[] for _ in orders[0]]
        for number, places in enumerate(groups):
            for place in dict.fromkeys(places):
                of_place[place].append(number)
        self._of_place = [tuple(its) for its in of_place]
        self._per = ranks_per_node
        self._colours = group_colours(len(groups), *map(self._together, orders))
        numbers = {number_text(its) for its in self._of_place}
        names = max((text_width(node, 10) for node in orders[0]), default=0.0)
        self._layout = layout_of(parts_of(locality, units), tuple(numbers), names, 620.0)

    def _together(self, order: Sequence[str]) -> list[list[int]]:
        """The groups of each unit in an order."""
        found: dict[int, list[int]] = {}
        for place, node in enumerate(order):
            found.setdefault(self._unit_of[node], []).extend(self._of_place[place])
        return list(found.values())

    def split(self, order: Sequence[str]) -> int:
        """How many groups of an order are in more than one domain that the fabric knows."""
        return sum(
            len({self._unit_of[order[place]] for place in group} - self._unknown) > 1
            for group in self._groups
        )

    def document(self, title: str, words: Sequence[str], times_s: Sequence[float]) -> str:
        drawing = Drawing()
        panel = max(330.0, self._layout.w)
        width = 2 * (panel + _MARGIN) + _BETWEEN
        y = _MARGIN + _TITLE * 0.8
        name = fitted(title, _TITLE, width - 2 * _MARGIN)
        drawing.label(_MARGIN, y, Word(text=name, size=_TITLE, is_bold=True))
        known = (*words, *self._facts())
        for line in broken(known, _TEXT, width - 2 * _MARGIN, " · "):
            y += _LINE
            drawing.label(_MARGIN, y + 5, Word(text=line, size=_TEXT, colour=GREY))
        y += 36
        times = [f"predicted {short_time(one)}" for one in times_s]
        said = [
            [*times[which : which + 1], f"{self.split(order)} of {len(self._groups)} groups split"]
            for which, order in enumerate(self._orders)
        ]
        top = y + _LINE * len(said[0]) + 14
        for which, order in enumerate(self._orders):
            x = _MARGIN + which * (panel + _BETWEEN)
            drawing.label(x, y, Word(text=_ORDERS[which], size=14.0, is_bold=True))
            for at, line in enumerate(said[which], start=1):
                drawing.label(x, y + at * _LINE, Word(text=line, size=_TEXT))
            coloured = Coloured(
                place={node: at for at, node in enumerate(order)},
                groups=self._of_place,
                colours=self._colours,
                ranks_per_node=self._per,
            )
            draw_order(drawing, self._layout, coloured, (x, top))
        y = top + self._layout.h + 30
        y = self._legend(drawing, y, width)
        of_orders = (f"{name}: {', '.join(its)}" for name, its in zip(_ORDERS, said, strict=True))
        about = ". ".join((*known, *of_orders))
        return drawing.document(width, y + _MARGIN - 8, title=title, about=about)

    def _facts(self) -> tuple[str, ...]:
        if not self._groups:
            return (f"every group of {self._axis} stays on its node",)
        sizes = {len(set(group)) for group in self._groups}
        most = max(sizes)
        size = f"{most} nodes" if len(sizes) == 1 else f"{min(sizes)} to {most} nodes"
        count = len(self._groups)
        whole = f"{count} groups of {size}" if count > 1 else f"one group of {size}"
        return (
            f"colours: {self._axis}, {whole}",
            f"{self._per} ranks on a node" if self._per > 1 else "one rank on a node",
            f"a box is {self._kind}",
        )

    def _legend(self, drawing: Drawing, y: float, width: float) -> float:
        entries: list[tuple[str, str]] = []
        if len(self._groups) <= len(PALETTE):
            entries += [(f"group {at}", colour) for at, colour in enumerate(self._colours)]
        else:
            told = (
                "a cell has the number of"
                if self._layout.cell.lines
                else "pointing at a cell tells"
            )
            words = (
                f"{len(self._groups)} groups share {len(PALETTE)} colours, unlike ones within a box"
                f" where there are enough; {told} its group"
            )
            for line in broken(words.split(" "), _TEXT, width - 2 * _MARGIN):
                drawing.label(_MARGIN, y, Word(text=line, size=_TEXT, colour=GREY))
                y += _LINE
        if not all(self._of_place):
            entries.append(("no group here", NO_GROUP))
        x = _MARGIN
        for text, colour in entries:
            room = _SWATCH + 6 + text_width(text, _TEXT) + 18
            if x > _MARGIN and x + room > width - _MARGIN:
                x, y = _MARGIN, y + _LINE + 2
            swatch = Rect(x=x, y=y - 11, w=_SWATCH, h=_SWATCH)
            drawing.area("sample", rectangle(swatch), colour, (), about="")
            drawing.label(x + _SWATCH + 6, y, Word(text=text, size=_TEXT, colour=GREY))
            x += room
        return y + (_LINE if entries else 0)
