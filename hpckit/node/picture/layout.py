"""Where each part of a node stands in its picture: columns below bars, in pixels, no overlaps.

A NUMA node is a bar with what hangs from it below: switches are bars again, GPUs stand in a row at
the far edge, NICs in stacks. The lower half of a picture is the same turned upside down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from math import log2
from typing import Final

from hpckit.core.findings import Severity
from hpckit.core.svg import Look, Rect, Stroke
from hpckit.core.values import dataclass
from hpckit.node.pci import PciAddress
from hpckit.node.places import Branch, Place
from hpckit.node.rules.rule import Device
from hpckit.node.topology import Accelerator, CpuLink, Gpu, LinkKind, Nic
from hpckit.node.words import as_float, nic_rate

GPU_W: Final = 102.0
GPU_H: Final = 52.0
NIC_W: Final = 128.0
NIC_H: Final = 34.0
NIC_GAP: Final = 6.0
SPINE: Final = 14.0
ACCELERATOR_W: Final = 128.0
BAR_H: Final = 26.0
CPU_H: Final = 46.0
WIRE: Final = 44.0
GAP: Final = 12.0
_LEAST_BAR: Final = 128.0
_LEAST_PLACE: Final = 250.0
_STACK: Final = 6
_FOLD_FROM: Final = 3
_MOST_ALIKE: Final = 12


class Kind(StrEnum):
    """What a box stands for."""

    CPU = "cpu"
    SWITCH = "switch"
    GPU = "gpu"
    ACCELERATOR = "accelerator"
    NIC = "nic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A box, what stands in it, and the bar that it hangs from.

    A box of NICs hangs from a spine at its left, one of partitions of a GPU holds them all.
    """

    kind: Kind
    rect: Rect
    above: Rect | None = None
    place: Place | None = None
    branch: Branch | None = None
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    accelerator: Accelerator | None = None

    @property
    def pci(self) -> PciAddress | None:
        """The address of its link: of a switch that of its bridge."""
        if self.branch is not None:
            return None if self.branch.bridge is None else self.branch.bridge.address
        devices: tuple[Device | None, ...] = (*self.gpus, *self.nics, self.accelerator)
        return None if devices[0] is None else devices[0].pci


_Part = Branch | tuple[Spot, ...]
"""A switch, or boxes that are not put anywhere yet: a stack of NICs, or a GPU or accelerator."""

_NOWHERE: Final = Rect(x=0, y=0, w=0, h=0)
_WIDTHS: Final = {Kind.GPU: GPU_W, Kind.ACCELERATOR: ACCELERATOR_W, Kind.NIC: SPINE + NIC_W}


def place_spots(place: Place, height: float) -> tuple[Spot, ...]:
    """The boxes of a NUMA node, its bar at the top left corner, its GPUs at the end of `height`."""
    bar = Rect(x=0, y=0, w=place_width(place), h=CPU_H)
    own = Spot(kind=Kind.CPU, rect=bar, place=place)
    return (own, *_hanging(place.root, bar, height))


def place_width(place: Place) -> float:
    """How wide the picture of a NUMA node is."""
    return max(_LEAST_PLACE, _width_of(_parts(place.root)))


def place_height(place: Place) -> float:
    """How high it is, wires included."""
    return _lowest(place.root, CPU_H)


def row_of_gpus(gpus: Sequence[Gpu], x: float, y: float, room: float) -> tuple[Spot, ...]:
    """The boxes of GPUs of which nothing else is known: in rows, from the top left corner on."""
    each = max(1, int((room + GAP) // (GPU_W + GAP)))
    return tuple(
        Spot(
            kind=Kind.GPU,
            rect=Rect(
                x=x + at % each * (GPU_W + GAP), y=y + at // each * (GPU_H + GAP), w=GPU_W, h=GPU_H
            ),
            gpus=(gpu,),
        )
        for at, gpu in enumerate(gpus)
    )


def moved(spot: Spot, x: float, y: float) -> Spot:
    """The same box elsewhere."""
    above = None if spot.above is None else _moved(spot.above, x, y)
    return replace(spot, rect=_moved(spot.rect, x, y), above=above)


def turned(spots: Sequence[Spot], height: float) -> tuple[Spot, ...]:
    """The same boxes in the plane turned upside down about the middle of `height`.

    NICs of a stack keep their order, from the top down.
    """
    stacks: dict[tuple[Rect | None, float], list[Rect]] = {}
    for spot in spots:
        if spot.kind is Kind.NIC:
            stacks.setdefault((spot.above, spot.rect.x), []).append(spot.rect)
    found = []
    for spot in spots:
        above = None if spot.above is None else _turned(spot.above, height)
        rect = spot.rect
        if spot.kind is Kind.NIC:
            rect = stacks[spot.above, spot.rect.x].pop()
        found.append(replace(spot, rect=_turned(rect, height), above=above))
    return tuple(found)


def _moved(rect: Rect, x: float, y: float) -> Rect:
    return replace(rect, x=rect.x + x, y=rect.y + y)


def _turned(rect: Rect, height: float) -> Rect:
    return replace(rect, y=height - rect.bottom)


def _parts(branch: Branch) -> tuple[_Part, ...]:
    nics = [Spot(kind=Kind.NIC, rect=_NOWHERE, nics=box) for box in nic_boxes(branch.nics)]
    count = -(-len(nics) // _STACK)
    each = -(-len(nics) // count) if count else 1
    return (
        *branch.branches,
        *((Spot(kind=Kind.GPU, rect=_NOWHERE, gpus=card),) for card in _cards(branch.gpus)),
        *(
            (Spot(kind=Kind.ACCELERATOR, rect=_NOWHERE, accelerator=one),)
            for one in branch.accelerators
        ),
        *(tuple(nics[start : start + each]) for start in range(0, len(nics), each)),
    )


def _cards(gpus: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
    def card(gpu: Gpu) -> tuple[object, ...]:
        return (gpu.pci,) if gpu.pci is not None and gpu.partition else (gpu.index,)

    return [tuple(group) for _, group in groupby(gpus, key=card)]


def nic_boxes(nics: Sequence[Nic]) -> list[tuple[Nic, ...]]:
    """NICs, a box each; virtual functions that are alike share one, and so do very many NICs."""
    groups: dict[tuple[object, ...], list[Nic]] = {}
    for nic in nics:
        key = (nic_rate(nic), nic.state, nic.role, nic.is_virtual, nic.physfn)
        groups.setdefault(key, []).append(nic)
    boxes: list[tuple[Nic, ...]] = []
    for group in groups.values():
        most = _FOLD_FROM if group[0].is_virtual else _MOST_ALIKE
        boxes += [(nic,) for nic in group] if len(group) < most else [tuple(group)]
    return sorted(boxes, key=lambda box: box[0].index)


def _width(part: _Part) -> float:
    if isinstance(part, Branch):
        return max(_LEAST_BAR, _width_of(_parts(part)))
    return _WIDTHS[part[0].kind]


def _width_of(parts: Sequence[_Part]) -> float:
    return sum(map(_width, parts)) + GAP * max(0, len(parts) - 1)


def _lowest(branch: Branch, bottom: float) -> float:
    lowest = bottom
    for part in _parts(branch):
        top = bottom + WIRE
        if isinstance(part, Branch):
            lowest = max(lowest, _lowest(part, top + BAR_H))
        elif part[0].kind is Kind.NIC:
            lowest = max(lowest, top + len(part) * (NIC_H + NIC_GAP) - NIC_GAP)
        else:
            lowest = max(lowest, top + GPU_H)
    return lowest


def _hanging(branch: Branch, bar: Rect, bottom: float) -> list[Spot]:
    parts = _parts(branch)
    x = bar.x + max(0.0, (bar.w - _width_of(parts)) / 2)
    y = bar.bottom + WIRE
    spots: list[Spot] = []
    for part in parts:
        width = _width(part)
        if isinstance(part, Branch):
            own = Rect(x=x, y=y, w=width, h=BAR_H)
            spots.append(Spot(kind=Kind.SWITCH, rect=own, above=bar, branch=part))
            spots += _hanging(part, own, bottom)
        elif part[0].kind is Kind.NIC:
            first = Rect(x=x + SPINE, y=y, w=NIC_W, h=NIC_H)
            for row, spot in enumerate(part):
                rect = _moved(first, 0, row * (NIC_H + NIC_GAP))
                spots.append(replace(spot, rect=rect, above=bar))
        else:
            rect = Rect(x=x, y=bottom - GPU_H, w=width, h=GPU_H)
            spots.append(replace(part[0], rect=rect, above=bar))
        x += width + GAP
    return spots


PANEL: Final = Look(fill="#f6f8fa", stroke="#d0d7de", width=1, radius=8)
CPU: Final = Look(fill="#fff4d6", stroke="#9a6700")
SWITCH: Final = Look(fill="#e3e8ee", stroke="#57606a")
GPU: Final = Look(fill="#d3f5db", stroke="#1a7f37", width=1.6)
HIDDEN: Final = Look(fill="#f6f8fa", stroke="#6e7781", dash="4 3")
ACCELERATOR: Final = Look(fill="#ffe8d9", stroke="#bc4c00", width=1.6)
NIC: Final = Look(fill="#ddf0ff", stroke="#0969da")
DOWN: Final = Look(fill="#ffebe9", stroke="#cf222e", dash="4 3", width=1.6)
SLOW: Final = Look(fill="#ffffff", stroke="#cf222e", width=3.5)
SYNTHETIC: Final = Look(fill="#ffffff", stroke="#9a6700", dash="5 3", width=1.6, radius=11)

INK: Final = "#1f2328"
GREY: Final = "#57606a"
RED: Final = "#cf222e"
WARNING: Final = "#9a6700"
PCIE: Final = "#57606a"
LINKS: Final = {
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


def beside_stroke(link: CpuLink) -> Stroke:
    """How the link from a GPU to the CPU beside it is drawn."""
    return Stroke(colour=LINKS[link.kind], width=max(2.5, wire_width(link.bandwidth_bytes_per_s)))


def bar_look(kind: LinkKind) -> Look:
    """The bar that stands for a switch, or for links between all pairs."""
    return Look(fill=_LIGHT[kind], stroke=LINKS[kind], width=1.6, radius=6)


def pair_stroke(kind: LinkKind, count: int | None, bytes_per_s: float | None) -> Stroke:
    """How the links between two GPUs are drawn: by their number, darker and wider with more."""
    colour = LINKS[kind]
    if kind is LinkKind.NVLINK and count is not None:
        colour = _BY_COUNT.get(max(count, 1), _BY_COUNT[_MANY_LINKS])
    if bytes_per_s is None or not bytes_per_s > 0:
        width = 1 + 1.5 * min(max(count or 1, 1), _MANY_LINKS)
    else:
        width = wire_width(bytes_per_s)
    return Stroke(colour=colour, width=width)
