"""A node as a picture: NUMA nodes, PCIe switches, GPUs, NICs, and the links between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.findings import Finding, FindingGroup, group_findings
from hpckit.draw import node_looks as looks
from hpckit.draw.node_band import Band, band_height, draw_links, gpu_spots, is_crossed
from hpckit.draw.node_legend import draw_findings, draw_legend
from hpckit.draw.node_page import MARGIN, Page, page
from hpckit.draw.node_parts import Parts
from hpckit.draw.svg import Drawing, Rect, Word, broken, fitted, text_width
from hpckit.model.finding_group import sentence
from hpckit.model.hardware import NodeTopology
from hpckit.model.node_links import LinkIsland, link_islands
from hpckit.model.node_places import Place, places
from hpckit.model.node_title import node_title

_TITLE_SIZE: Final = 20.0
_TEXT_SIZE: Final = 12.0
_LINE: Final = 17.0
_SYNTHETIC_W: Final = 104.0


def node_svg(topology: NodeTopology, findings: Sequence[Finding] = ()) -> str:
    """The picture as an SVG file in itself, the same for the same node; findings are marked in it.

    It stands alone, in a browser as in a README: no script, no font file, no reference, and its
    own light ground. Hosts' and devices' names are shown with what is hidden in them escaped.
    """
    found = places(topology)
    islands = _drawn_islands(topology)
    drawing = Drawing()
    real = replace(topology, source=replace(topology.source, is_synthetic=False))
    name, *parts = node_title(real)
    top = _TITLE_SIZE + MARGIN + 14
    trial = page(found, top, band_height(islands, is_crossed=False))
    lines = broken(parts, _TEXT_SIZE, trial.width - 2 * MARGIN, " · ")
    crossed = trial.band is not None and is_crossed(
        islands, Band(rect=trial.band, spots=gpu_spots(trial.spots))
    )
    top += len(lines) * _LINE + 6
    laid = page(found, top, band_height(islands, is_crossed=crossed))
    _draw_title(drawing, (name, *lines), laid, is_synthetic=topology.source.is_synthetic)
    groups = group_findings(findings)
    _draw_page(drawing, topology, groups, laid)
    if laid.band is not None:
        draw_links(drawing, islands, Band(rect=laid.band, spots=gpu_spots(laid.spots)))
    y = _draw_others(drawing, laid, found)
    y = draw_legend(drawing, topology, islands, (laid.width, y))
    y = draw_findings(drawing, groups, (laid.width, y))
    found_words = (sentence(group) for group in groups)
    about = ". ".join((*node_title(topology), *found_words))
    title = f"Topology of {name}"
    return drawing.document(laid.width, y + MARGIN - 8, title=title, about=about)


def _drawn_islands(topology: NodeTopology) -> tuple[LinkIsland, ...]:
    known = {gpu.index for gpu in topology.gpus}
    return tuple(island for island in link_islands(topology) if known.intersection(island.gpus))


def _draw_title(
    drawing: Drawing, texts: tuple[str, ...], laid: Page, *, is_synthetic: bool
) -> None:
    y = MARGIN + _TITLE_SIZE * 0.8
    room = laid.width - 2 * MARGIN - (_SYNTHETIC_W + 16 if is_synthetic else 0)
    name, lines = fitted(texts[0], _TITLE_SIZE, room), texts[1:]
    drawing.label(MARGIN, y, Word(text=name, size=_TITLE_SIZE, is_bold=True))
    if is_synthetic:
        x = MARGIN + min(room, text_width(name, _TITLE_SIZE)) + 16
        rect = Rect(x=x, y=y - 17, w=_SYNTHETIC_W, h=22)
        word = Word(text="synthetic", size=13, is_bold=True, colour="#7d4e00", anchor="middle")
        drawing.box("synthetic", rect, looks.SYNTHETIC, (word,), about="synthetic: no real machine")
    y += 5
    for line in lines:
        y += _LINE
        drawing.label(MARGIN, y, Word(text=line, size=_TEXT_SIZE, colour=looks.GREY))


def _draw_page(
    drawing: Drawing, topology: NodeTopology, findings: Sequence[FindingGroup], laid: Page
) -> None:
    for panel in laid.panels:
        drawing.box("panel", panel, looks.PANEL, (), about="")
    parts = Parts(drawing, topology, laid.spots, findings)
    for spot in laid.spots:
        parts.draw(spot)


def _draw_others(drawing: Drawing, laid: Page, found: Sequence[Place]) -> float:
    y = laid.bottom + 14
    if laid.others:
        text = fitted(laid.others, 11, laid.width - 2 * MARGIN)
        drawing.label(MARGIN, y, Word(text=text, size=11, colour=looks.GREY))
        y += _LINE
    if not found:
        drawing.label(MARGIN, y, Word(text="nothing is known of what is in it", size=12))
        y += _LINE
    return y
