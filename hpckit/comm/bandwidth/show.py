"""Predicted bus bandwidth for people: a line a collective, then what to keep in mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpckit.comm.bandwidth.values import BusbwPrediction
from hpckit.core.text import Line, Style, columns, wrapped, wrapped_lines

_TITLES: Final = ("", "GB/s", "by", "limited by")
_GAP: Final = "  "
_LEAST: Final = 16
_GB: Final = 1e9
_UNKNOWN: Final = "?"


def busbw_lines(
    predictions: Sequence[BusbwPrediction], *, where: str, width: int
) -> Iterator[Line]:
    """The screen in lines of at most `width` columns; `where` is the job in words.

    `predictions` are the best of each collective. Where none has a figure, one sentence says why.
    """
    if not any(one.busbw_bytes_per_s for one in predictions):
        reasons = "; ".join(dict.fromkeys(one.because for one in predictions))
        words = f"predicted bus bandwidth: not known ({reasons})"
        yield from wrapped_lines(words, width, first=" ", further="   ")
        return
    title = f"predicted bus bandwidth, {where}"
    yield from wrapped_lines(title, width, first=" ", further=" ", style=Style.TITLE)
    yield from _table(predictions, width)
    for caveat, named in _caveats(predictions).items():
        words = f"{caveat} ({', '.join(named)})"
        yield from wrapped_lines(words, width, first=" note: ", further="       ", style=Style.NOTE)


def _caveats(predictions: Sequence[BusbwPrediction]) -> dict[str, dict[str, None]]:
    """Each caveat once, and whom it is about in the order of the table."""
    found: dict[str, dict[str, None]] = {}
    for one in predictions:
        for caveat in one.caveat.split("; ") if one.caveat else ():
            found.setdefault(caveat, {})[one.collective.value] = None
    return found


def _table(rows: Sequence[BusbwPrediction], width: int) -> Iterator[Line]:
    cells = [_TITLES, *(_cells(one) for one in rows)]
    widths = [max(columns(row[at]) for row in cells) for at in range(3)]
    for at, row in enumerate(cells):
        name, figure, by, limit = row
        head = f" {name:<{widths[0]}}{_GAP}{figure:>{widths[1]}}{_GAP}{by:<{widths[2]}}{_GAP}"
        further = " " * columns(head)
        if width - columns(head) < _LEAST:
            head, further = f" {name:<{widths[0]}}{_GAP}{figure:>{widths[1]}} {by} ", "   "
        style = Style.FAINT if at == 0 else Style.PLAIN
        for text in wrapped(tuple(limit.split()), width, first=head, further=further):
            yield Line(text=text.rstrip(), style=style)


def _cells(one: BusbwPrediction) -> tuple[str, str, str, str]:
    if one.busbw_bytes_per_s is None:
        return (one.collective.value, _UNKNOWN, "", one.because)
    figure = f"{one.busbw_bytes_per_s / _GB:.3g}"
    limit = one.limited_by or ""
    return (one.collective.value, figure, one.algorithm or "", f"{limit}; {one.because}")
