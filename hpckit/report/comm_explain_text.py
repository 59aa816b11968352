"""One communication variable for people: what the job has of it, and what could have set it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.model.comm_explained import Explained
from hpckit.report.line import Line, Style, wrapped

_INDENT: Final = " " * 10


def explain_lines(explained: Explained, *, width: int) -> Iterator[Line]:
    """The whole screen in lines of at most `width` columns."""
    yield Line(text=f" {explained.name}", style=Style.TITLE)
    yield from _row("here", explained.here, width)
    if explained.read is not None:
        yield from _row("read", explained.read, width)
    if not explained.words:
        yield from _row("rules", "none of hpckit's, nor of the site, is about it", width)
    for word in explained.words:
        yield from _row("rule", f"{word.name}: {word.value}", width)
        yield from _row("", f"where: {word.where}", width)
        if word.missing:
            yield from _row("", f"not here: {word.missing}", width)
        yield from _row("", word.because, width)
        yield from _row("", word.source, width, Style.FAINT)
    for fault in explained.faults:
        yield from _row("lint", f"{fault.rule} ({fault.severity}): {fault.because}", width)
        yield from _row("", f"fix: {fault.remedy}", width)
        yield from _row("", fault.source, width, Style.FAINT)


def _row(label: str, words: str, width: int, style: Style = Style.PLAIN) -> Iterator[Line]:
    texts = wrapped(tuple(words.split()), width, first=f" {label:<8} ", further=_INDENT)
    yield from (Line(text=text, style=style) for text in texts)
