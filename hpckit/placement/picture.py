"""The nodes of one order in the boxes of their leaves, in the colours of their groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
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
from hpckit.core.units import counted, format_indices, short_time
from hpckit.core.values import dataclass
from hpckit.fabric.domain_names import place_kind, short_names
from hpckit.fabric.locality import Locality
from hpckit.placement.picture_layout import (
    BOX_TEXT,
    CELL_TEXT,
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
SPLIT_LEAF: Final = Look(fill="#ffffff", stroke="#1f2328", width=2, radius=3)
GREY: Final = "#57606a"
_MOST_PARTS: Final = 4
_GRID_FROM: Final = 4.0
_OUTLINE_FROM: Final = 8.0
_WIDE_OUTLINE_FROM: Final = 14.0
_GRID: Final = "#fefefe"
"""The lines between cells: nearly white, to be told from white text and outlines in the dark."""
_LONG: Final = 160
_Groups = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coloured:
    """One order with its groups: `place` is each node's position, `groups` those of a position.

    `split` are the groups in more than one box, which are outlined.
    """

    place: Mapping[str, int]
    groups: Sequence[_Groups]
    colours: Sequence[str]
    ranks_per_node: int
    split: Set[int] = frozenset()

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
        pen.draw_outlines()


def _called(part: Unit | Frame, most: int) -> str:
    """What a box stands for and its name, `leaf a1`, but not `leaf leaf1`."""
    name = short_names([part.name], most)
    is_told = not part.kind or name.lower().startswith(part.kind.lower())
    return name if is_told else f"{part.kind} {name}"


def _unit_words(unit: Unit, order: Coloured) -> str:
    found = Counter(group for node in unit.nodes for group in order.of(node))
    count = f"{len(unit.nodes)} nodes of the job" if len(unit.nodes) > 1 else "one node of the job"
    name = f"{_called(unit, _LONG)}: {count}"
    return f"{name}, {len(found)} groups" if len(found) != 1 else f"{name}, one group"


def _box(drawing: Drawing, spot: Spot, order: Coloured, cell: Cell) -> None:
    if isinstance(spot.part, Frame):
        drawing.box("pod", spot.rect, POD, (), about=_called(spot.part, _LONG))
    elif spot.part.domain is not None:
        groups = (group for node in spot.part.nodes for group in order.of(node))
        is_outlined = cell.w < _OUTLINE_FROM and not order.split.isdisjoint(groups)
        look = SPLIT_LEAF if is_outlined else LEAF
        drawing.box("leaf", spot.rect, look, (), about=_unit_words(spot.part, order))
    most = cell.chars(spot.part)
    text = "" if most is None else fitted(label(spot.part, most), BOX_TEXT, spot.rect.w - 4)
    if text:
        word = Word(text=text, size=BOX_TEXT, colour=GREY)
        drawing.label(spot.rect.x + 4, spot.rect.y + cell.pad + 10, word)


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
        self._outlined: list[tuple[range, str]] = []

    def draw(self) -> None:
        """Draw the nodes, those of one group beside each other; each by itself if it has a text."""
        order, at = self._order, 0
        nodes = sorted(self._unit.nodes, key=lambda node: (order.of(node), order.place[node]))
        for groups, alike in groupby(nodes, key=order.of):
            run = tuple(alike)
            if not order.split.isdisjoint(groups):
                self._outlined.append((range(at, at + len(run)), ink_on(order.fill(groups))))
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
        text, size = number_text(groups) or "–", CELL_TEXT
        y = rect.y + rect.h / 2 + size * 0.36
        if self._cell.lines > 1:
            name = fitted(node, size, rect.w - 6)
            yield rect.middle, rect.y + 15, Word(text=name, size=size, colour=ink, anchor="middle")
            text, y = fitted(text, size, rect.w - 6), rect.y + 29
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
        grid = Stroke(colour=_GRID, width=width)
        if lines:
            self._drawing.wire("".join(lines), grid, Layer.BOX)

    def draw_outlines(self) -> None:
        """A line within the cells of each split group, in the colour of text on them.

        Where cells are too small for that, their box has it.
        """
        if self._cell.w < _OUTLINE_FROM:
            return
        is_large = self._cell.w >= _WIDE_OUTLINE_FROM
        inset, width = (2.5, 2.0) if is_large else (0.5, 1.0)
        inks: defaultdict[str, list[str]] = defaultdict(list)
        for cells, ink in self._outlined:
            inks[ink] += self._around(cells, inset)
        for ink, paths in inks.items():
            outline = Stroke(colour=ink, width=width, is_kept=True)
            self._drawing.wire("".join(paths), outline, Layer.BOX)

    def _around(self, cells: range, d: float) -> Iterator[str]:
        """The closed lines around cells that follow each other, so far inside of their edges."""
        first, last = self._rect(cells.start), self._rect(cells.stop - 1)
        if first.y == last.y or (last.right <= first.x and last.y == first.bottom):
            for part in dict.fromkeys((first.y, last.y)):
                start = first.x if part == first.y else self._x
                end = last.right if part == last.y else self._x + self._columns * self._cell.w
                low, high = part + d, part + self._cell.h - d
                yield path((start + d, low), (end - d, low), (end - d, high), (start + d, high))
                yield "z"
            return
        left, right = self._x + d, self._x + self._columns * self._cell.w - d
        yield path(
            (first.x + d, first.y + d), (right, first.y + d), (right, last.y - d)
            if last.right < right else (right, last.bottom - d),
            (last.right - d, last.y - d) if last.right < right else (right, last.bottom - d),
            (last.right - d, last.bottom - d), (left, last.bottom - d),
            (left, first.bottom + d), (first.x + d, first.bottom + d),
        )  # fmt: skip
        yield "z"


# --- The whole picture: leaves with their nodes, once by host name and once as placed.
_MARGIN: Final = 24.0
_BETWEEN: Final = 40.0
_TITLE: Final = 18.0
_TEXT: Final = 12.0
_LINE: Final = 18.0
_SWATCH: Final = 14.0
_NARROWEST: Final = 376.0
_WIDEST: Final = 596.0
"""Of each half: the page is 1280 wide then, so no text is smaller than it says on a slide."""
_ORDERS: Final = ("by host name", "hpckit's order")


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
    """The order of host names on the left, the placed one on the right, as an SVG file in itself.

    `orders` are the placed one and that of host names, each with the same node names, the i-th
    carrying the ranks i·g … i·g+g−1 of g ranks a node. `groups` are those of the axis, each with
    its positions in an order; a group that stays on its node is not among them. A box is one of the
    lowest domains that the fabric tells of, and a group in several of them counts as split, and is
    outlined. `facts` are words below the title, and the predicted times of both orders. The same
    bytes for the same input.
    """
    picture = _Picture(locality, orders[::-1], groups, axis, ranks_per_node)
    return picture.document(title, facts[0], facts[1][::-1])


class _Picture:
    def __init__(
        self,
        locality: Locality,
        orders: tuple[Sequence[str], ...],
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
        self._boxes = place_kind(locality, orders[0])
        of_place: list[list[int]] = [[] for _ in orders[0]]
        for number, places in enumerate(groups):
            for place in dict.fromkeys(places):
                of_place[place].append(number)
        self._of_place = [tuple(its) for its in of_place]
        self._per = ranks_per_node
        self._colours = group_colours(len(groups), *map(self._together, orders[::-1]))
        numbers = {number_text(its) for its in self._of_place}
        names = max((text_width(node, CELL_TEXT) for node in orders[0]), default=0.0)
        self._layout = layout_of(parts_of(locality, units), tuple(numbers), names, _WIDEST)

    def _together(self, order: Sequence[str]) -> list[list[int]]:
        """The groups of each unit in an order."""
        found: dict[int, list[int]] = {}
        for place, node in enumerate(order):
            found.setdefault(self._unit_of[node], []).extend(self._of_place[place])
        return list(found.values())

    def split(self, order: Sequence[str]) -> frozenset[int]:
        """The groups of an order that are in more than one domain that the fabric knows."""
        return frozenset(
            number
            for number, group in enumerate(self._groups)
            if len(self._units(order, group)) > 1
        )

    def document(self, title: str, words: Sequence[str], times_s: Sequence[float]) -> str:
        drawing = Drawing()
        panel = max(_NARROWEST, self._layout.w)
        width = 2 * (panel + _MARGIN) + _BETWEEN
        split = [self.split(order) for order in self._orders]
        is_all = sum(map(len, split)) == len(split) * len(self._groups)
        # A line around all that is small would hide it, and tell nothing.
        outlined = [frozenset[int]()] * 2 if is_all and not self._layout.cell.lines else split
        facts = self._facts(is_outlined=any(outlined))
        y = self._head(drawing, title, (words, facts), width - 2 * _MARGIN) + 40
        said = [
            " · ".join((*map(short_time, times_s[at : at + 1]), *self._split_words(order)))
            for at, order in enumerate(self._orders)
        ]
        top = y + _LINE + 14
        for which, order in enumerate(self._orders):
            x = _MARGIN + which * (panel + _BETWEEN)
            drawing.label(x, y, Word(text=_ORDERS[which], size=15.0, is_bold=True))
            text = fitted(said[which], _TEXT, panel)
            drawing.label(x, y + _LINE + 2, Word(text=text, size=_TEXT))
            coloured = Coloured(
                place={node: at for at, node in enumerate(order)},
                groups=self._of_place,
                colours=self._colours,
                ranks_per_node=self._per,
                split=outlined[which],
            )
            draw_order(drawing, self._layout, coloured, (x, top))
        y = self._legend(drawing, top + self._layout.h + 30, width)
        of_orders = (f"{name}: {its}" for name, its in zip(_ORDERS, said, strict=True))
        about = ". ".join((*words, *facts, *of_orders))
        return drawing.document(width, y + _MARGIN - 26, title=title, about=about)

    def _head(
        self, drawing: Drawing, title: str, facts: Sequence[Sequence[str]], room: float
    ) -> float:
        """The headline and the lines below it; where they end."""
        y = _MARGIN - 6
        for line in broken(title.split(" "), _TITLE, room):
            y += _TITLE * 1.25
            drawing.label(_MARGIN, y, Word(text=line, size=_TITLE, is_bold=True))
        y += 5
        for line in (line for parts in facts for line in broken(parts, _TEXT, 0.94 * room, " · ")):
            y += _LINE
            drawing.label(_MARGIN, y, Word(text=line, size=_TEXT, colour=GREY))
        return y

    def _split_words(self, order: Sequence[str]) -> Iterator[str]:
        split, count = len(self.split(order)), len(self._groups)
        if count:
            yield f"{split} of {counted(count, f'{self._axis} group')} split"
        most = max((len(self._units(order, group)) for group in self._groups), default=0)
        if split:
            yield f"on up to {most} {self._boxes}"

    def _units(self, order: Sequence[str], group: Sequence[int]) -> set[int]:
        """The known domains that a group is in."""
        return {self._unit_of[order[place]] for place in group} - self._unknown

    def _facts(self, *, is_outlined: bool) -> tuple[str, ...]:
        if not self._groups:
            return (f"each {self._axis} group stays on one node",)
        sizes = {len(set(group)) for group in self._groups}
        most = max(sizes)
        size = f"{most} nodes" if len(sizes) == 1 else f"{min(sizes)} to {most} nodes"
        cell, count = self._layout.cell, len(self._groups)
        colour = "colour and number" if cell.lines else "colour"
        what = "split over several boxes"
        what = "boxes with split groups" if cell.w < _OUTLINE_FROM else what
        shared = f"{count} groups share {len(PALETTE)} colours"
        return (
            f"boxes: {self._boxes}",
            f"{colour}: {counted(count, f'{self._axis} group')} of {size}",
            *([f"outlined: {what}"] if is_outlined else []),
            *([shared] if count > len(PALETTE) else []),
            f"{self._per} ranks per node" if self._per > 1 else "one rank per node",
        )

    def _legend(self, drawing: Drawing, y: float, width: float) -> float:
        """What the colours are where no number is in the cells; where its last line ends."""
        entries: list[tuple[str, str]] = []
        if len(self._groups) <= len(PALETTE) and not self._layout.cell.lines:
            entries += [(f"group {at}", colour) for at, colour in enumerate(self._colours)]
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
