"""Colours and widths of what a node's picture shows; no fact is told by colour alone."""

from __future__ import annotations

from math import log2
from typing import Final

from hpckit.core.findings import Severity
from hpckit.draw.svg import Look, Stroke
from hpckit.model.hardware import LinkKind
from hpckit.model.node_words import as_float

PANEL: Final = Look(fill="#f6f8fa", stroke="#d0d7de", width=1, radius=8)
CPU: Final = Look(fill="#fff4d6", stroke="#9a6700")
SWITCH: Final = Look(fill="#e3e8ee", stroke="#57606a")
GPU: Final = Look(fill="#d3f5db", stroke="#1a7f37", width=1.6)
HIDDEN: Final = Look(fill="#f6f8fa", stroke="#6e7781", dash="4 3")
ACCELERATOR: Final = Look(fill="#ffe8d9", stroke="#bc4c00", width=1.6)
NIC: Final = Look(fill="#ddf0ff", stroke="#0969da")
DOWN: Final = Look(fill="#ffebe9", stroke="#cf222e", dash="4 3", width=1.6)
SYNTHETIC: Final = Look(fill="#ffffff", stroke="#9a6700", dash="5 3", width=1.6, radius=11)

INK: Final = "#1f2328"
GREY: Final = "#57606a"
RED: Final = "#cf222e"
WARNING: Final = "#9a6700"
PCIE: Final = "#57606a"
_LINKS: Final = {
    LinkKind.NVLINK: "#8250df",
    LinkKind.C2C: "#bf3989",
    LinkKind.XGMI: "#bc4c00",
}
_BY_COUNT: Final = {1: "#b08be8", 2: "#7236d1", 3: "#4c1a95"}
_LIGHT: Final = {
    LinkKind.NVLINK: "#eddcff",
    LinkKind.C2C: "#ffe0f0",
    LinkKind.XGMI: "#ffe8d9",
}
FINDINGS: Final = {Severity.ERROR: RED, Severity.WARNING: WARNING, Severity.NOTE: "#0969da"}
_UNKNOWN_WIDTH: Final = 1.2
_WIDEST: Final = 10.0
_GIGA: Final = 1e9
_MANY_LINKS: Final = 3


def wire_width(bytes_per_s: float | None) -> float:
    """A wire's width: it grows by one pixel with each doubling of the bandwidth."""
    rate = as_float(bytes_per_s or 0)
    if not rate > 0:
        return _UNKNOWN_WIDTH
    return min(_WIDEST, 1 + log2(1 + rate / _GIGA / 4))


def pcie_stroke(bytes_per_s: float | None) -> Stroke:
    """How a PCIe link is drawn; one of which nothing is known is dashed."""
    if bytes_per_s is None:
        return Stroke(colour=PCIE, width=_UNKNOWN_WIDTH, dash="3 3")
    return Stroke(colour=PCIE, width=wire_width(bytes_per_s))


def link_colour(kind: LinkKind) -> str:
    """The colour of a kind of links."""
    return _LINKS[kind]


def bar_look(kind: LinkKind) -> Look:
    """The bar that stands for a switch, or for links between all pairs."""
    return Look(fill=_LIGHT[kind], stroke=_LINKS[kind], width=1.6, radius=6)


def pair_stroke(kind: LinkKind, count: int | None, bytes_per_s: float | None) -> Stroke:
    """How the links between two GPUs are drawn: by their number, darker and wider with more."""
    colour = _LINKS[kind]
    if kind is LinkKind.NVLINK and count is not None:
        colour = _BY_COUNT.get(max(count, 1), _BY_COUNT[_MANY_LINKS])
    if bytes_per_s is None or not bytes_per_s > 0:
        width = 1 + 1.5 * min(max(count or 1, 1), _MANY_LINKS)
    else:
        width = wire_width(bytes_per_s)
    return Stroke(colour=colour, width=width)
