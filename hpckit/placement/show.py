"""A placement for people: what it is worth beside other orders, then what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from typing import Final

from hpckit.core.text import Line, Style, columns, wrapped
from hpckit.core.units import counted, short_bytes, short_time
from hpckit.placement.order_plan import Mesh
from hpckit.placement.request import (
    BYTES_X_HOPS,
    HOP_BYTES,
    ORDER_WORDS,
    SPREAD,
    STEP_TIME_WORDS,
    TIME,
    Compared,
    Placement,
    spread_words,
)
from hpckit.placement.traffic import mesh_words

_TITLES: Final = ("here", *ORDER_WORDS.values(), "bound")
_SHORT_TITLES: Final = ("here", "names", "Slurm", "random", "bound")
_GAP: Final = "  "
_Row = tuple[str, Sequence[str]]
_MOST_SHOWN: Final = 12


def placement_lines(
    placement: Placement, mesh: Mesh, *, where: str, source: str, width: int
) -> Iterator[Line]:
    """The whole screen in lines of at most `width` columns; `where` are the nodes in words."""
    nodes = counted(len(placement.orders.placed), "node")
    title = f"{nodes} {where} ({source}) · mesh {mesh_words(mesh)}"
    for text, style in ((headline(placement.objectives[TIME]), Style.TITLE), (title, Style.PLAIN)):
        lines = wrapped(tuple(text.split()), width, first=" ", further=" ") if text else ()
        yield from (Line(text=line, style=style) for line in lines)
    yield from _table(placement, width)
    yield Line(text=f" {placement.because}")
    # The first names of the order, so that it can be seen what kind of order it is.
    order = placement.orders.placed
    shown = ", ".join(order[:_MOST_SHOWN]) + (", …" if len(order) > _MOST_SHOWN else "")
    for head, sentences, style in (
        ("order", (shown,), Style.PLAIN),
        ("given", _joined(placement.given), Style.FAINT),
        ("assumed", _joined(placement.assumed), Style.FAINT),
        ("note", placement.notes, Style.NOTE),
        ("try", placement.advice, Style.PLAIN),
    ):
        first = f" {head}: "
        for words in sentences:
            texts = wrapped(tuple(words.split()), width, first=first, further=" " * len(first))
            yield from (Line(text=text, style=style) for text in texts)


def _joined(sentences: Sequence[str]) -> Sequence[str]:
    return ("; ".join(sentences),) if sentences else ()


_NOTICEABLE: Final = 0.01
_FEW: Final = 2


def headline(time_s: Compared) -> str:
    """Return what the order is worth; nothing where ranks send nothing."""
    if not time_s.placed:
        return ""
    ratio = time_s.hostname / time_s.placed
    other = f"host-name order ({short_time(time_s.hostname)})"
    times = f"{ratio:.2f}" if ratio < _FEW else f"{ratio:.2g}"
    worth = f"as in {other}"
    if ratio > 1 + _NOTICEABLE:
        worth = f"{times}× less than {other}"
    elif 1 / ratio > 1 + _NOTICEABLE:  # an order that somebody gave
        worth = f"{1 / ratio:.2f}× that of {other}"
    text = f"{short_time(time_s.placed)} communication per step: {worth}"
    if not time_s.lower_bound:
        return text
    above = time_s.placed / time_s.lower_bound - 1
    words = "at the bound" if above < _NOTICEABLE else f"{100 * above:.0f} % above the bound"
    return f"{text}, {words} ({short_time(time_s.lower_bound)})"


def _table(placement: Placement, width: int) -> Iterator[Line]:
    rows = [("", _TITLES), *_rows(placement)]
    head = max(columns(name) for name, _ in rows)
    if 1 + head + sum(_widths(rows)) + len(_GAP) * len(_TITLES) > width:
        rows[0] = ("", _SHORT_TITLES)
    widths = _widths(rows)
    for at, (name, cells) in enumerate(rows):
        line = f" {name}" + " " * (head - columns(name))
        for cell, wide in zip(cells, widths, strict=True):
            line += _GAP + " " * (wide - columns(cell)) + cell
        yield Line(text=line, style=Style.FAINT if at == 0 else Style.PLAIN)


def _widths(rows: Sequence[_Row]) -> list[int]:
    return [max(columns(cells[i]) for _, cells in rows) for i in range(len(_TITLES))]


def _rows(placement: Placement) -> Iterator[_Row]:
    for axis, found in placement.groups.items():
        if found.groups:
            yield f"{axis} groups split, of {found.groups}", _cells(found.straddling, str)
    yield BYTES_X_HOPS, _cells(placement.objectives[HOP_BYTES], short_bytes)
    yield spread_words(placement.places), _cells(placement.objectives[SPREAD], str)
    yield STEP_TIME_WORDS, _cells(placement.objectives[TIME], short_time)
    timed = {axis: one.time_s for axis, one in placement.groups.items() if one.time_s.random}
    if len(timed) > 1:
        for axis, figures in timed.items():
            yield f"  along {axis}", _cells(figures, short_time)


def _cells(figures: Compared, words: Callable[[float], str]) -> list[str]:
    return ["?" if value is None else words(value) for value in astuple(figures)]


def hostfile_text(order: Sequence[str], per_node: int) -> str:
    """One host name a task, as SLURM_HOSTFILE has it for `srun --distribution=arbitrary`."""
    return "".join(f"{node}\n" for node in order for _ in range(per_node))
