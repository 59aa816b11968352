"""A placement as a picture: leaves with their nodes, once as placed and once by host name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.draw.group_colours import NO_GROUP, PALETTE, group_colours
from hpckit.draw.placement_cells import GREY, Coloured, draw_order, number_text
from hpckit.draw.placement_layout import layout_of
from hpckit.draw.placement_tree import Unit, parts_of, units_of
from hpckit.draw.svg import Drawing, Rect, Word, broken, fitted, rectangle, text_width
from hpckit.model.locality import Locality
from hpckit.units import short_time

_MARGIN: Final = 24.0
_BETWEEN: Final = 40.0
_PANEL_W: Final = 620.0
_LEAST_W: Final = 330.0
_TITLE: Final = 20.0
_HEAD: Final = 14.0
_TEXT: Final = 12.0
_LINE: Final = 18.0
_SWATCH: Final = 14.0
_ORDERS: Final = ("as placed", "by host name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is told of a placement: `words` below the title, the predicted times of both orders."""

    words: tuple[str, ...] = ()
    times_s: tuple[float, ...] = ()


def placement_svg(
    locality: Locality,
    orders: tuple[Sequence[str], Sequence[str]],
    groups: Sequence[Sequence[int]],
    *,
    axis: str,
    ranks_per_node: int,
    title: str,
    facts: Facts | None = None,
) -> str:
    """The placed order on the left, that of host names on the right, as an SVG file in itself.

    `orders` are these two, each with the same node names, the i-th carrying the ranks i·g … i·g+g−1
    of g ranks a node. `groups` are those of the axis, each with its positions in an order; a group
    that stays on its node is not among them. A box is one of the lowest domains that the fabric
    tells of, and a group in several of them counts as split. The same bytes for the same input.
    """
    picture = _Picture(locality, orders, groups, axis, ranks_per_node)
    return picture.document(title, facts or Facts())


class _Picture:
    """What the parts of the picture share."""

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
        self._kind = _kinds(units)
        of_place: list[list[int]] = [[] for _ in orders[0]]
        for number, places in enumerate(groups):
            for place in dict.fromkeys(places):
                of_place[place].append(number)
        self._of_place = [tuple(its) for its in of_place]
        self._per = ranks_per_node
        self._colours = group_colours(len(groups), *map(self._together, orders))
        numbers = {number_text(its) for its in self._of_place}
        names = max((text_width(node, 10) for node in orders[0]), default=0.0)
        self._layout = layout_of(parts_of(locality, units), tuple(numbers), names, _PANEL_W)

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

    def document(self, title: str, facts: Facts) -> str:
        drawing = Drawing()
        panel = max(_LEAST_W, self._layout.w)
        width = 2 * (panel + _MARGIN) + _BETWEEN
        y = _MARGIN + _TITLE * 0.8
        name = fitted(title, _TITLE, width - 2 * _MARGIN)
        drawing.label(_MARGIN, y, Word(text=name, size=_TITLE, is_bold=True))
        known = (*facts.words, *self._facts())
        for line in broken(known, _TEXT, width - 2 * _MARGIN, " · "):
            y += _LINE
            drawing.label(_MARGIN, y + 5, Word(text=line, size=_TEXT, colour=GREY))
        y += 36
        times = [f"predicted {short_time(one)}" for one in facts.times_s]
        words = [
            [*times[which : which + 1], self._count_words(order)]
            for which, order in enumerate(self._orders)
        ]
        top = y + _LINE * len(words[0]) + 14
        told = []
        for which, order in enumerate(self._orders):
            x = _MARGIN + which * (panel + _BETWEEN)
            drawing.label(x, y, Word(text=_ORDERS[which], size=_HEAD, is_bold=True))
            for at, line in enumerate(words[which], start=1):
                drawing.label(x, y + at * _LINE, Word(text=line, size=_TEXT))
            told.append(draw_order(drawing, self._layout, self._coloured(order), (x, top)))
        y = top + self._layout.h + 30
        y = self._legend(drawing, y, width, is_told=all(told))
        about = ". ".join(
            (
                *known,
                *(f"{name}: {', '.join(its)}" for name, its in zip(_ORDERS, words, strict=True)),
            )
        )
        return drawing.document(width, y + _MARGIN - 8, title=title, about=about)

    def _coloured(self, order: Sequence[str]) -> Coloured:
        return Coloured(
            place={node: at for at, node in enumerate(order)},
            groups=self._of_place,
            colours=self._colours,
            ranks_per_node=self._per,
            group_word="group",
        )

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

    def _count_words(self, order: Sequence[str]) -> str:
        return f"{self.split(order)} of {len(self._groups)} groups split"

    def _legend(self, drawing: Drawing, y: float, width: float, *, is_told: bool) -> float:
        entries: list[tuple[str, str]] = []
        if len(self._groups) <= len(PALETTE):
            entries += [(f"group {at}", colour) for at, colour in enumerate(self._colours)]
        else:
            y = _note(drawing, y, width, self._repeats(is_told=is_told))
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

    def _repeats(self, *, is_told: bool) -> str:
        """What a colour means where there are more groups than colours."""
        shared = (
            f"{len(self._groups)} groups share {len(PALETTE)} colours, unlike ones within a box"
            " where there are enough"
        )
        if self._layout.cell.lines:
            return f"{shared}; a cell has the number of its group"
        if is_told:
            return f"{shared}; pointing at a cell tells its group"
        return f"{shared}; there are too many cells for each to tell its group"


def _note(drawing: Drawing, y: float, width: float, text: str) -> float:
    for line in broken(text.split(" "), _TEXT, width - 2 * _MARGIN):
        drawing.label(_MARGIN, y, Word(text=line, size=_TEXT, colour=GREY))
        y += _LINE
    return y


def _kinds(units: Sequence[Unit]) -> str:
    """What a box stands for."""
    found = dict.fromkeys(unit.kind for unit in units if unit.domain is not None)
    words = [f"an {kind}" if kind.startswith("NV") else f"a {kind}" for kind in found]
    return " or ".join(words) or "a node"
