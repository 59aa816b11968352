"""A network as a picture: domains inside domains, how many nodes are in them, what leads out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hpckit.core.svg import Drawing, Look, Rect, Stroke, Word, fitted, path
from hpckit.core.values import dataclass
from hpckit.fabric.cables import cable_grid
from hpckit.fabric.cables_picture import cable_svg
from hpckit.fabric.domain_names import (
    Branch,
    branch_about,
    branch_count,
    branch_name,
    branch_nodes,
    branch_up,
    branches,
)
from hpckit.fabric.domains import locality_of
from hpckit.fabric.locality import Locality
from hpckit.fabric.show import title_parts
from hpckit.fabric.topology import ClusterTopology
from hpckit.node.picture.layout import GREY, wire_width

_MARGIN: Final = 24.0
_TITLE: Final = 16.0
_TEXT: Final = 12.0
_PAGE: Final = 1280.0
"""No page is wider: so no text is smaller than it says where a slide shows it this wide."""
_WIDEST: Final = 250.0
_LEAF_W: Final = 340.0
_PAD: Final = 5.0
_LINE: Final = 15.0
_GAP_X: Final = 48.0
_GAP_Y: Final = 8.0
_WIRE: Final = "#57606a"
_INNER: Final = Look(fill="#e3e8ee", stroke="#57606a")
_LEAF: Final = Look(fill="#ddf0ff", stroke="#0969da")
_NVLINK: Final = Look(fill="#eddcff", stroke="#8250df")
_REST: Final = Look(fill="#f6f8fa", stroke="#6e7781", dash="4 3")


def picture_of(topology: ClusterTopology) -> str:
    """The cables as a grid where the source counts them, else the tree of domains."""
    locality = locality_of(topology)
    source, *parts = title_parts(topology, locality)
    grid = cable_grid(topology)
    if grid is None:
        return fabric_svg(locality, title=" · ".join((*parts, source)))
    return cable_svg(grid, source=source)


def fabric_svg(locality: Locality, *, title: str) -> str:
    """The tree of domains as an SVG file in itself, the outermost at the left.

    Where there are many, those that are alike in size, in what leads out and in what is below them
    share a box. A wire is the wider the more its domain's cables carry, dashed where nobody tells.
    """
    found = branches(locality, 40)
    drawing = Drawing()
    boxes: list[_Box] = []
    y = _MARGIN + _TITLE + 16
    above = max(map(_depth, found), default=1) - 1
    room = (_PAGE - 2 * _MARGIN - _LEAF_W) / max(1, above) - _GAP_X
    for branch in found:
        y = _place(branch, 0, y, boxes, min(_WIDEST, room))
    width = max((box.rect.right for box in boxes), default=_WIDEST * 2) + _MARGIN
    name = fitted(title, _TITLE, width - 2 * _MARGIN)
    top = _MARGIN + _TITLE * 0.8
    drawing.label(_MARGIN, top, Word(text=name, size=_TITLE, is_bold=True))
    for box in boxes:
        _draw(drawing, box)
    if not boxes:
        drawing.label(_MARGIN, y + 12, Word(text="no named compute node", size=12, colour=GREY))
        y += 24
    about = ". ".join(branch_about(box.branch) for box in boxes)
    return drawing.document(width, y + _MARGIN - _GAP_Y, title=title, about=about)


def _depth(branch: Branch) -> int:
    return 1 + max(map(_depth, branch.children), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    branch: Branch
    rect: Rect
    below: tuple[_Box, ...] = ()


def _place(branch: Branch, x: float, y: float, boxes: list[_Box], w: float) -> float:
    """Put a branch and all below it from a y on, the branch beside their middle; where they end.

    `w` is the width of the boxes that have others below them.
    """
    at = len(boxes)
    left = _MARGIN + x
    height = 2 * _PAD + _LINE * len(_texts(branch)) + 2
    rect = Rect(x=left, y=y, w=w if branch.children else _LEAF_W, h=height)
    below: list[_Box] = []
    end = y
    for child in branch.children:
        mark = len(boxes)
        end = _place(child, x + w + _GAP_X, end, boxes, w)
        below.append(boxes[mark])
    end = max(end, y + height + _GAP_Y)
    if below:
        middle = (below[0].rect.y + below[-1].rect.bottom) / 2
        rect = replace(rect, y=max(y, middle - height / 2))
    boxes.insert(at, _Box(branch=branch, rect=rect, below=tuple(below)))
    return end


def _texts(branch: Branch) -> list[str]:
    kind, _, name = branch_name(branch).partition(" ")
    called = name if name.startswith(kind) else f"{kind} {name}".rstrip()
    texts = [called, " · ".join((branch_count(branch), *branch_up(branch)))]
    if not branch.is_rest:
        texts += [branch_nodes(branch, 64)] if branch.own_nodes else []
    return texts


def _draw(drawing: Drawing, box: _Box) -> None:
    first, *others = _texts(box.branch)
    words = [Word(text=first, size=_TEXT, is_bold=True)]
    words += [Word(text=text, size=_TEXT) for text in others]
    drawing.box("domain", box.rect, _look(box.branch), words, about=branch_about(box.branch))
    start = box.rect.right, box.rect.y + box.rect.h / 2
    for one in box.below:
        end = one.rect.x, one.rect.y + one.rect.h / 2
        bend = start[0] + _GAP_X / 2
        wire = path(start, (bend, start[1]), (bend, end[1]), end)
        drawing.wire(wire, _stroke(one.branch))


def _look(branch: Branch) -> Look:
    if branch.is_rest:
        return _REST
    if branch.of.is_nvlink:
        return _NVLINK
    return _INNER if branch.children else _LEAF


def _stroke(branch: Branch) -> Stroke:
    rate = branch.of.uplink_bytes_per_s
    if branch.is_rest or rate is None:
        return Stroke(colour=_WIRE, width=1.2, dash="3 3")
    return Stroke(colour=_WIRE, width=max(1.0, wire_width(rate) * 0.6))
