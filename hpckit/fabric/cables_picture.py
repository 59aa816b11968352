"""The grid of cables as a picture: a row a leaf, a column a spine, a cell the cables between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from hpckit.core.svg import (
    Drawing,
    Look,
    Rect,
    Word,
    broken,
    fitted,
    rectangle,
    text_width,
)
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.fabric.cables import ABSENT, CableGrid, Cell, Row, Section, State
from hpckit.fabric.domain_names import short_names

_MARGIN: Final = 24.0
_TITLE: Final = 20.0
_TEXT: Final = 12.0
_SMALL: Final = 11.0
_ROW: Final = 18.0
_CELL_H: Final = 16.0
_GAP: Final = 7.0
_BETWEEN: Final = 14.0
_WIDEST: Final = 60.0
_PAGE: Final = 1280.0
"""No page is wider: so no text is smaller than it says where a slide shows it this wide."""
_LEAST: Final = 840.0
_GREY: Final = "#57606a"
_INK: Final = "#1f2328"
_WORDS: Final = ("leaf", "spine", "core")
_MOST_ROWS: Final = 64
"""With more rows those that are equal are one."""
_STATE_WORDS: Final = {
    State.UP: "as expected",
    State.FEWER: "with fewer cables",
    State.NONE: "without a cable",
    State.MORE: "with more cables",
}
_FILLS: Final = {
    State.UP: "#d3f5dd",
    State.FEWER: "#ffc680",
    State.NONE: "#ff9d97",
    State.MORE: "#bfdcff",
}
_NOTE: Final = Look(fill="#fff1f0", stroke="#a01820", width=1, dash="4 3", radius=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row as it is drawn: that of one switch, or of several that are equal."""

    rows: tuple[Row, ...]

    @property
    def first(self) -> Row:
        return self.rows[0]

    @property
    def rack(self) -> str:
        return self.first.rack if len(self.rows) == 1 else ""

    def of_column(self, at: int) -> list[Cell]:
        """The cells of a column of all its rows."""
        cells = (row.cells[at] for row in self.rows)
        return [cell for cell in cells if cell is not None]


def cable_svg(grid: CableGrid, *, source: str) -> str:
    """The grid as an SVG file in itself, what is down in its headline."""
    return _Page(grid).document(source)


def lines_of(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Many rows in the order in which they are drawn, equal ones on one line.

    First those with something missing, then those without in one; of too many of the first those
    that are equal are one too.
    """
    wrong = [row for row in rows if not row.is_whole]
    whole = [row for row in rows if row.is_whole]
    alike: defaultdict[object, list[Row]] = defaultdict(list)
    for row in wrong:
        is_own = len(wrong) <= _MOST_ROWS or row.note
        alike[row.switch if is_own else row.cells].append(row)
    found = [tuple(its) for its in alike.values()]
    return [*found, tuple(whole)] if whole else found


class _Page:
    def __init__(self, grid: CableGrid) -> None:
        self._grid = grid
        self._drawing = Drawing()
        is_large = sum(1 for _ in grid.rows) > _MOST_ROWS
        # Of a large fabric the sections where nothing is wrong are told of in a sentence.
        wrong = [one for one in grid.sections if not all(row.is_whole for row in one.rows)]
        self._sections = wrong or grid.sections[:1] if is_large else grid.sections
        self._lines = [
            [_Line(rows=rows) for rows in lines_of(one.rows)]
            if is_large
            else [_Line(rows=(row,)) for row in one.rows]
            for one in self._sections
        ]
        self._columns = list(self._heads())
        self._left = _MARGIN + sum(width for _, width in self._columns)
        most = max(len(section.uppers) for section in self._sections)
        names = max(text_width(grid.short[one], _TEXT) for one in self._uppers())
        room = (_PAGE - self._left - _MARGIN) / most
        wide = (_LEAST - self._left - _MARGIN) / most
        self._cell_w = min(max(names + 8, min(wide, _WIDEST)), room)
        self._width = max(_LEAST, self._left + most * self._cell_w + _MARGIN)

    def _uppers(self) -> Iterator[str]:
        return (upper for section in self._sections for upper in section.uppers)

    def _heads(self) -> Iterator[tuple[str, float]]:
        """The columns left of the cells that have something to say, and how wide they are."""
        lines = [line for lines in self._lines for line in lines]
        for head in (self._grid.group, "rail", "", "ports"):
            texts = [self._told(head, line) for line in lines]
            if any(texts):
                widest = max(text_width(text, _TEXT) for text in (*texts, head or "switch"))
                yield head, min(widest, 260.0) + _BETWEEN

    def _told(self, head: str, line: _Line) -> str:
        row = line.first
        if len(line.rows) > 1:
            return self._several(line) if not head else ""
        if head == "rail":
            return "" if row.rail is None else str(row.rail)
        if head == "ports":
            return str(row.ports) if row.ports else ""
        return row.rack if head else self._grid.short[row.switch]

    def _several(self, line: _Line) -> str:
        """`187 others` where nothing is missing; else how many and which."""
        if line.first.is_whole:
            return (
                f"{len(line.rows)} others"
                if any(not one.is_whole for one in self._grid.rows)
                else f"all {len(line.rows)}"
            )
        names = short_names([self._grid.short[one.switch] for one in line.rows], 24)
        return f"{len(line.rows)}: {names}"

    def document(self, source: str) -> str:
        grid, y = self._grid, _MARGIN
        for line in broken(grid.headline.split(" "), _TITLE, self._width - 2 * _MARGIN):
            y += _TITLE * 1.25
            self._drawing.label(_MARGIN, y - 5, Word(text=line, size=_TITLE, is_bold=True))
        for line in broken(self._facts(source), _TEXT, self._width - 2 * _MARGIN, " · "):
            y += _ROW
            self._drawing.label(_MARGIN, y, Word(text=line, size=_TEXT, colour=_GREY))
        y = self._legend(y + _ROW + 6)
        level = -1
        for section, lines in zip(self._sections, self._lines, strict=True):
            y = self._section(section, lines, y + 6, is_first=section.level != level)
            level = section.level
        for text in self._left_out():
            y += _ROW
            self._drawing.label(_MARGIN, y, Word(text=text, size=_TEXT, colour=_GREY))
        about = "; ".join((*self._facts(source), *self._wrong()))
        return self._drawing.document(self._width, y + _MARGIN, title=grid.headline, about=about)

    def _facts(self, source: str) -> list[str]:
        per = Counter(cell.expected for row in self._grid.rows for cell in row.cells if cell)
        usual, count = per.most_common(1)[0]
        expected = f" ({usual} expected)" if count == per.total() else ""
        lower, upper = _level_words(0)
        by = [head for head, _ in self._columns if head in (self._grid.group, "rail")]
        rows = f"rows: {_plural(lower)}" + (f" by {' and '.join(by)}" if by else "")
        if len({section.level for section in self._grid.sections}) > 1:
            rows, upper = "rows: switches", "switch above"
        columns = f"columns: {_plural(upper)}"
        return [rows, columns, f"number: cables up{expected}", source]

    def _wrong(self) -> Iterator[str]:
        for section in self._grid.sections:
            for row in section.rows:
                for upper, cell in zip(section.uppers, row.cells, strict=False):
                    if cell and cell.state is not State.UP:
                        yield f"{row.switch}–{upper} {cell.cables} of {cell.expected}"

    def _left_out(self) -> Iterator[str]:
        """`not drawn: 96 leaves in 6 groups, all cables up`."""
        drawn = {id(section) for section in self._sections}
        out = [section for section in self._grid.sections if id(section) not in drawn]
        for level, its in groupby(out, key=lambda section: section.level):
            sections = list(its)
            count = sum(len(one.rows) for one in sections)
            groups = f" in {counted(len(sections), 'group')}" if len(sections) > 1 else ""
            yield f"not drawn: {count} {_plural(_level_words(level)[0])}{groups}, all cables up"

    def _legend(self, y: float) -> float:
        """A sample of each colour that there is, and of how many pairs of switches it is."""
        seen = Counter(cell.state for row in self._grid.rows for cell in row.cells if cell)
        x = _MARGIN
        for state, words in _STATE_WORDS.items():
            if seen[state]:
                text = f"{counted(seen[state], 'pair')} {words}"
                swatch = rectangle(Rect(x=x, y=y - 11, w=14, h=14))
                self._drawing.area(state, swatch, _FILLS[state], (), about="")
                self._drawing.label(x + 20, y, Word(text=text, size=_TEXT, colour=_GREY))
                x += 20 + text_width(text, _TEXT) + 18
        return y

    def _section(
        self, section: Section, lines: Sequence[_Line], y: float, *, is_first: bool
    ) -> float:
        """The heads, once a level, and the rows; where they end."""
        lower, upper = _level_words(section.level)
        heads = {head: head or lower for head, _ in self._columns if section.level == 0 or not head}
        x, y = _MARGIN, y + _ROW
        if is_first:
            self._drawing.label(self._left, y, Word(text=upper, size=_TEXT, colour=_GREY))
            y += _ROW
        for head, width in self._columns:
            if is_first and head in heads:
                self._drawing.label(x, y, Word(text=heads[head], size=_TEXT, colour=_GREY))
            x += width
        for at, name in enumerate(section.uppers):
            text = fitted(self._grid.short[name], _TEXT, self._cell_w)
            middle = self._left + (at + 0.5) * self._cell_w
            word = Word(text=text, size=_TEXT, colour=_INK, anchor="middle")
            self._drawing.label(middle, y, word)
        y += 8
        for _, group in groupby(lines, key=lambda line: line.rack):
            for at, line in enumerate(group):
                self._line(section, line, y, is_first=at == 0)
                y += _ROW
            y += _GAP if self._grid.group in dict(self._columns) else 0
        return y

    def _line(self, section: Section, line: _Line, y: float, *, is_first: bool) -> None:
        x = _MARGIN
        for head, width in self._columns:
            text = self._told(head, line)
            is_group = head == self._grid.group
            if text and (is_first or not is_group):
                shown = fitted(text, _TEXT, width - 4)
                self._drawing.label(x, y + 12.5, Word(text=shown, size=_TEXT, is_bold=is_group))
            x += width
        if line.first.note:
            self._note(line.first, len(section.uppers), y)
            return
        for at, upper in enumerate(section.uppers):
            cells = line.of_column(at)
            if cells:
                self._cell(line, upper, cells, self._left + at * self._cell_w, y)

    def _cell(self, line: _Line, upper: str, cells: Sequence[Cell], x: float, y: float) -> None:
        state = cells[0].state
        counts = sorted({cell.cables for cell in cells})
        text = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        expected = "" if state is State.UP else f", {cells[0].expected} expected"
        up = "cable up" if counts == [1] else "cables up"
        about = f"{line.first.switch}–{upper}: {text} {up}{expected}" if len(cells) == 1 else ""
        rect = Rect(x=x, y=y, w=self._cell_w - 2, h=_CELL_H)
        word = Word(
            text=text, size=_SMALL, is_bold=state is not State.UP, colour=_INK, anchor="middle"
        )
        fill = _FILLS[state]
        words = [(rect.middle, y + 12, word)]
        self._drawing.area(state, rectangle(rect), fill, words, about=about)

    def _note(self, row: Row, columns: int, y: float) -> None:
        """A box across all columns; its edge tells it apart without its colour."""
        rect = Rect(x=self._left + 0.5, y=y + 0.5, w=columns * self._cell_w - 3, h=_CELL_H - 1)
        word = Word(text=row.note, size=_SMALL, is_bold=True, colour=_NOTE.stroke, anchor="middle")
        about = f"{row.switch} is {row.note}" if row.note == ABSENT else f"{row.switch}: {row.note}"
        self._drawing.box("note", rect, _NOTE, [word], about=about)


def _level_words(level: int) -> tuple[str, str]:
    """What the switches of a level are called, and those above."""
    names = (*_WORDS, *(f"level {at}" for at in range(len(_WORDS), level + 2)))
    return names[level], names[level + 1]


def _plural(noun: str) -> str:
    return {"leaf": "leaves", "switch above": "switches above"}.get(noun, f"{noun}s")
