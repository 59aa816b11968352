"""A plan as a picture: memory by stage, step time of the best layouts, time against energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hpckit.core.svg import PALETTE, Drawing, Layer, Look, Rect, Stroke, Word, path
from hpckit.core.units import short_bytes, short_time
from hpckit.planner.answer import Answer
from hpckit.planner.fit import Verdict
from hpckit.planner.memory import Stage, stage_memory

_WIDTH: Final = 900.0
_MARGIN: Final = 24.0
_LABEL: Final = 230.0
_ROW: Final = 22.0
_GAP: Final = 44.0
_MOST_STAGES: Final = 16
_CHART: Final = 150.0
_LEAST_POINTS: Final = 2
_FAINT: Final = "#57606a"
_LIMIT: Final = "#cf222e"

Bars = Sequence[tuple[str, Sequence[tuple[str, float]]]]
"""Rows of (label, parts), a part being (name, size)."""


def plan_svg(made: Answer, sizes: Sequence[Answer] = ()) -> str:
    """Return the picture; `sizes` are answers for other numbers of GPUs, for the last panel."""
    drawing, question = Drawing(), made.question
    model, card = question.model, made.machine.accelerator
    title = f"{model.name} on {question.layout.gpus} × {card.name}: {question.layout.words()}"
    if made.verdict is Verdict.NO:
        title = f"{title} {made.verdict}"
    drawing.label(_MARGIN, 32, Word(text=title, size=15, is_bold=True))
    outside = ("driver, communicators", made.memory.outside_bytes)
    stages: Bars = [
        (f"stage {stage.index}", [*((term.name, term.bytes_) for term in stage.terms), outside])
        for stage in _stages(made)
    ]
    y = _panel(drawing, 64, "Memory per GPU by pipeline stage", stages, short_bytes,
               limit=(card.memory_bytes, "GPU memory"))  # fmt: skip
    best: Bars = [(row.layout.words(), row.time.terms) for row in made.ranking.best]
    if best:
        y = _panel(drawing, y + _GAP, "Step time of the best layouts", best, short_time)
    if len(sizes) >= _LEAST_POINTS:
        y = _against(drawing, y + _GAP, sizes)
    return drawing.document(
        _WIDTH, y + _MARGIN, title=title, about="Memory, step time and energy of a planned run"
    )


def _stages(made: Answer) -> Sequence[Stage]:
    """Return the stages that are shown: all, or the first and last ones."""
    question = made.question
    count = question.layout.pipeline
    half = _MOST_STAGES // 2
    shown = range(count) if count <= _MOST_STAGES else [*range(half), *range(count - half, count)]
    return [
        stage_memory(question.model, question.training, question.layout, index) for index in shown
    ]


def _panel(
    drawing: Drawing,
    y: float,
    title: str,
    bars: Bars,
    say: Callable[[float], str],
    *,
    limit: tuple[float, str] | None = None,
) -> float:
    """Draw stacked bars; return where they end."""
    totals = [sum(size for _, size in parts) for _, parts in bars]
    longest = max([*totals, limit[0] if limit else 0.0])
    room = _WIDTH - 2 * _MARGIN - _LABEL - 80
    colours = _colours(bars)
    drawing.label(_MARGIN, y, Word(text=title, size=13, is_bold=True))
    y = _legend(drawing, y + 18, colours)
    top = y
    for (label, parts), total in zip(bars, totals, strict=True):
        drawing.label(_MARGIN, y + 14, Word(text=label, size=11, colour=_FAINT))
        x = _MARGIN + _LABEL
        for name, size in parts:
            width = size / longest * room
            rect = Rect(x=x, y=y + 2, w=width, h=_ROW - 5)
            look = Look(fill=colours[name], stroke=colours[name], width=0, radius=0)
            drawing.box("part", rect, look, (), about=f"{label}: {name} {say(size)}")
            x += width
        drawing.label(x + 6, y + 14, Word(text=say(total), size=11))
        y += _ROW
    if limit is not None:
        x = _MARGIN + _LABEL + limit[0] / longest * room
        drawing.wire(path((x, top - 2), (x, y)), Stroke(colour=_LIMIT, width=1.5, dash="4 3"),
                     Layer.LABEL)  # fmt: skip
        word = Word(text=f"{limit[1]}: {say(limit[0])}", size=10, colour=_LIMIT, anchor="end")
        drawing.label(x - 4, y + 12, word)
        y += 12
    return y


def _colours(bars: Bars) -> Mapping[str, str]:
    names = dict.fromkeys(name for _, parts in bars for name, _ in parts)
    return {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}


def _legend(drawing: Drawing, y: float, colours: Mapping[str, str]) -> float:
    """Draw which colour is which; return where it ends."""
    x = _MARGIN
    for name, colour in colours.items():
        width = 22 + 6.6 * len(name)
        if x + width > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + 18
        look = Look(fill=colour, stroke=colour, width=0, radius=2)
        drawing.box("key", Rect(x=x, y=y - 9, w=11, h=11), look, (), about=name)
        drawing.label(x + 16, y, Word(text=name, size=11, colour=_FAINT))
        x += width + 10
    return y + 12


def _against(drawing: Drawing, y: float, sizes: Sequence[Answer]) -> float:
    """Draw a step's time against its energy, a point a number of GPUs; time on a log scale."""
    title = "Time and energy per step, by number of GPUs"
    drawing.label(_MARGIN, y, Word(text=title, size=13, is_bold=True))
    steps = [
        (made.question.layout.gpus, made.speed.time.step_s, made.energy.it_w)
        for made in sizes
        if made.energy is not None
    ]
    if len(steps) < _LEAST_POINTS:
        word = Word(text="rated power of the GPU is unknown", size=11, colour=_FAINT)
        drawing.label(_MARGIN, y + 20, word)
        return y + 24
    left, top = _MARGIN + 90, y + 16
    room = _WIDTH - 2 * _MARGIN - 180
    least_s, most_s = min(step[1] for step in steps), max(step[1] for step in steps)
    most_j = max(step_s * power_w for _, step_s, power_w in steps)
    axis = Stroke(colour="#d0d7de", width=1)
    drawing.wire(path((left, top), (left, top + _CHART), (left + room, top + _CHART)), axis)
    span = math.log(most_s / least_s) or 1.0
    places = [
        (
            left + 20 + (room - 40) * math.log(step_s / least_s) / span,
            top + _CHART * (1 - 0.85 * step_s * power_w / most_j),
        )
        for _, step_s, power_w in steps
    ]
    drawing.wire(path(*places), Stroke(colour=PALETTE[0], width=2))
    for (gpus, step_s, power_w), (x, at) in zip(steps, places, strict=True):
        kwh = f"{step_s * power_w / 3.6e6:.3g} kWh"
        spot = Look(fill=PALETTE[1], stroke="#1f2328", width=1, radius=5)
        about = f"{gpus} GPUs: {short_time(step_s)}, {kwh}"
        drawing.box("point", Rect(x=x - 5, y=at - 5, w=10, h=10), spot, (), about=about)
        bold = Word(text=f"{gpus} GPUs", size=10, is_bold=True, anchor="middle")
        drawing.label(x, at - 10, bold)
        drawing.label(x, at + 20, Word(text=kwh, size=10, anchor="middle"))
        word = Word(text=short_time(step_s), size=10, colour=_FAINT, anchor="middle")
        drawing.label(x, top + _CHART + 16, word)
    return top + _CHART + 20


def plan_html(made: Answer, picture: str, lines: Sequence[str]) -> str:
    """Return a page with the picture and the answer's lines; it needs no other file."""
    from xml.sax.saxutils import escape

    text = escape("\n".join(lines))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">\n"
        f"<title>{escape(made.question.model.name)}: plan</title>\n"
        "<style>body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
        "color:#1f2328}pre{background:#f6f8fa;padding:1rem;overflow-x:auto;font-size:13px}"
        "svg{max-width:100%;height:auto}</style></head>\n"
        f"<body>\n{picture}<pre>{text}</pre>\n</body></html>\n"
    )
