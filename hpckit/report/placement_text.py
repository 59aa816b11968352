"""A placement for people: what it is worth beside other orders, then what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hpckit.model.mesh import Mesh
from hpckit.model.placement import Compared, Placement
from hpckit.model.text_width import columns
from hpckit.report.line import Line, Style, wrapped

TIME: Final = "step_comm_time_s"
_TITLES: Final = ("here", "host names", "Slurm order", "random", "bound")
_MILLI, _MICRO = 1e-3, 1e-6
_NAMED: Final = {
    "hop_bytes": "bytes × hops",
    "straddling_groups": "groups split",
    "max_spread": "leaves of a group, at most",
}
_MOST_SHOWN: Final = 12


def placement_lines(
    placement: Placement, mesh: Mesh, *, leaves: int, source: str, width: int
) -> Iterator[Line]:
    """The whole screen; `leaves` counts those on which the nodes are."""
    nodes = len(placement.orders.placed)
    sizes = " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)
    on = f"{leaves} leaves" if leaves != 1 else "one leaf"
    title = f" {nodes} nodes on {on} ({source}) · mesh {sizes}"
    yield from (Line(text=text, style=Style.TITLE) for text in wrapped((title,), width))
    yield from _table(placement)
    yield Line(text=f" {placement.because}")
    yield from _order(placement, width)
    for words in placement.assumed:
        yield from _said("assumed", words, width, Style.FAINT)
    for words in placement.notes:
        yield from _said("note", words, width, Style.NOTE)
    for words in placement.advice:
        yield from _said("would help", words, width, Style.PLAIN)


def _said(head: str, words: str, width: int, style: Style) -> Iterator[Line]:
    first = f" {head}: "
    texts = wrapped(tuple(words.split()), width, first=first, further=" " * len(first))
    yield from (Line(text=text, style=style) for text in texts)


def _order(placement: Placement, width: int) -> Iterator[Line]:
    """The first names of the order, so that it can be seen what kind of order it is."""
    order = placement.orders.placed
    shown = ", ".join(order[:_MOST_SHOWN]) + (", …" if len(order) > _MOST_SHOWN else "")
    yield from _said("order", shown, width, Style.PLAIN)


def _table(placement: Placement) -> Iterator[Line]:
    rows: list[tuple[str, Sequence[str]]] = [("", _TITLES)]
    for axis, found in placement.groups.items():
        if found.groups:
            name = f"{axis} groups split, of {found.groups}"
            rows.append((name, _cells(found.straddling, str)))
    for key, name in _NAMED.items():
        if key != "straddling_groups":
            rows.append((name, _cells(placement.objectives[key], _short)))
    rows.append(("communication of a step", _cells(placement.objectives[TIME], seconds)))
    widths = [max(columns(cells[i]) for _, cells in rows) for i in range(len(_TITLES))]
    head = max(columns(name) for name, _ in rows)
    for at, (name, cells) in enumerate(rows):
        line = f" {name}" + " " * (head - columns(name))
        for cell, wide in zip(cells, widths, strict=True):
            line += "  " + " " * (wide - columns(cell)) + cell
        yield Line(text=line, style=Style.FAINT if at == 0 else Style.PLAIN)


def _cells(figures: Compared, words: Callable[[float], str]) -> list[str]:
    values = (
        figures.placed, figures.hostname, figures.slurm, figures.random, figures.lower_bound
    )  # fmt: skip
    return ["?" if value is None else words(value) for value in values]


def _short(value: float) -> str:
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """A time with three digits, in the unit that shows them."""
    if value and value < _MILLI:
        return f"{value / _MICRO:.3g} µs"
    if value and value < 1:
        return f"{value / _MILLI:.3g} ms"
    return f"{value:.3g} s"


def hostfile_text(order: Sequence[str], per_node: int) -> str:
    """One host name a task, as SLURM_HOSTFILE has it for `srun --distribution=arbitrary`."""
    return "".join(f"{node}\n" for node in order for _ in range(per_node))
