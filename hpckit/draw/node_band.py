"""The links between GPUs: a bar where all reach all, arcs where pairs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.draw.node_layout import Kind, Spot
from hpckit.draw.node_looks import INK, WARNING, bar_look, link_colour, pair_stroke, wire_width
from hpckit.draw.svg import Drawing, Rect, Stroke, Word, curve, path, text_width
from hpckit.model.hardware import GpuLink, LinkKind
from hpckit.model.node_links import LinkIsland
from hpckit.model.node_words import byte_rate, figure

_BAR_H: Final = 30.0
_LANE: Final = 34.0
_MESH_H: Final = 190.0
_ONE_SIDE_H: Final = 130.0
_PAIR: Final = 2
_FEW_ARCS: Final = 8
_LABEL_SIZE: Final = 10.0


def is_bar(island: LinkIsland) -> bool:
    """Whether an island is drawn as a bar: all reach all, and it is more than a pair."""
    return island.counts is not None and (len(island.gpus) > _PAIR or bool(island.is_switched))


def band_height(islands: Sequence[LinkIsland], *, is_crossed: bool) -> float | None:
    """The room that the links take between two rows of GPUs; None where there are none.

    Arcs that cross it (`is_crossed`) take more.
    """
    if not islands:
        return None
    bars = sum(map(is_bar, islands))
    height = bars * (_BAR_H + _LANE) + (_LANE if bars else 0)
    if bars < len(islands):
        height += _MESH_H if is_crossed else _ONE_SIDE_H
    return height


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The room for links and the boxes of GPUs by index."""

    rect: Rect
    spots: Mapping[int, Spot]

    def edge(self, spot: Spot) -> float:
        """The y of the edge of a box that looks to the band."""
        return spot.rect.bottom if self.is_above(spot) else spot.rect.y

    def is_above(self, spot: Spot) -> bool:
        """Whether a box is above the band."""
        return spot.rect.y < self.rect.y


def gpu_spots(spots: Sequence[Spot]) -> dict[int, Spot]:
    """The box of each GPU, by its index."""
    return {gpu.index: spot for spot in spots if spot.kind is Kind.GPU for gpu in spot.gpus}


def draw_links(drawing: Drawing, islands: Sequence[LinkIsland], band: Band) -> None:
    """Draw the links of a node between its GPUs; those of GPUs that are not drawn are left out."""
    y = band.rect.y + _LANE
    for island in filter(is_bar, islands):
        _draw_bar(drawing, island, band, y)
        y += _BAR_H + _LANE
    arcs = [link for island in islands if not is_bar(island) for link in island.links]
    _draw_arcs(drawing, arcs, band, top=y - _LANE)


def _draw_bar(drawing: Drawing, island: LinkIsland, band: Band, y: float) -> None:
    members = {gpu: band.spots[gpu] for gpu in island.gpus if gpu in band.spots}
    boxes = tuple({spot.rect: spot for spot in members.values()}.values())
    if not boxes:
        return
    # Partitions of a GPU share a box: what joins them is not what the bar stands for.
    outer = [link for link in island.links if members.get(link.a) is not members.get(link.b)]
    text = _bar_words(island, outer or island.links)
    left = min(spot.rect.x for spot in boxes)
    width = max(spot.rect.right for spot in boxes) - left
    width, left = _wide_enough(width, left, text_width(text, 12) + 24, band.rect)
    bar = Rect(x=left, y=y, w=width, h=_BAR_H)
    word = Word(text=text, size=12, is_bold=True, anchor="middle")
    drawing.box("bar", bar, bar_look(island.kind), (word,), about=text)
    counts = dict(zip(island.gpus, island.counts or (), strict=False))
    drawn = set()
    for gpu, spot in members.items():
        if spot.rect not in drawn:
            drawn.add(spot.rect)
            _draw_tap(drawing, band, spot, bar, (island, counts.get(gpu)))


def _wide_enough(width: float, left: float, least: float, room: Rect) -> tuple[float, float]:
    wider = min(max(width, least), room.w)
    left = min(max(room.x, left - (wider - width) / 2), room.right - wider)
    return wider, left


def _draw_tap(
    drawing: Drawing, band: Band, spot: Spot, bar: Rect, of: tuple[LinkIsland, int | None]
) -> None:
    island, count = of
    y = band.edge(spot)
    end = bar.y if band.is_above(spot) else bar.bottom
    most = max((held for held in island.counts or () if held is not None), default=0)
    has_fewer = count is not None and count < most
    colour = WARNING if has_fewer else link_colour(island.kind)
    wire = path((spot.rect.middle, y), (spot.rect.middle, end))
    drawing.wire(wire, Stroke(colour=colour, width=_tap_width(island)))
    if count is not None and (count > 1 or has_fewer or island.kind is LinkKind.NVLINK):
        at = y + 24 if band.is_above(spot) else y - 16
        word = Word(
            text=_count_words(island.kind, count),
            size=_LABEL_SIZE,
            colour=WARNING if has_fewer else INK,
            is_bold=has_fewer,
        )
        drawing.label(spot.rect.middle + 7, at, word)


def _tap_width(island: LinkIsland) -> float:
    rates = [link.bandwidth_bytes_per_s or 0 for link in island.links]
    pairs = 1 if island.is_switched else len(island.gpus) - 1
    return max(2.5, wire_width(max(rates, default=0) * pairs))


def _count_words(kind: LinkKind, count: int) -> str:
    return f"NV{figure(count)}" if kind is LinkKind.NVLINK else f"{kind} ×{figure(count)}"


def _bar_words(island: LinkIsland, links: Sequence[GpuLink]) -> str:
    """What a bar says of the links that it stands for: `NVSwitch · 450 GB/s a GPU each way`."""
    rates = {link.bandwidth_bytes_per_s or None for link in links}
    rate = max((rate for rate in rates if rate is not None), default=None)
    most = "up to " if len(rates) > 1 else ""
    if island.is_switched:
        name = "NVSwitch" if island.kind is LinkKind.NVLINK else f"{island.kind} switch"
        return name if rate is None else f"{name} · {most}{byte_rate(rate)} a GPU each way"
    how = "all to all" if island.is_switched is None else "each GPU to each, no switch"
    text = f"{island.kind} · {how}"
    return text if rate is None else f"{text} · {most}{byte_rate(rate)} a pair each way"


def _draw_arcs(drawing: Drawing, links: Sequence[GpuLink], band: Band, *, top: float) -> None:
    drawn = [link for link in links if link.a in band.spots and link.b in band.spots]
    anchors = _anchors(drawn, band)
    for link in drawn:
        ends = anchors[link.a, link.b], anchors[link.b, link.a]
        points = _arc(ends, band, (link.a, link.b), top)
        stroke = pair_stroke(link.kind, link.count, link.bandwidth_bytes_per_s)
        drawing.wire(curve(points), stroke)
        if len(drawn) <= _FEW_ARCS and link.count is not None:
            word = Word(text=_count_words(link.kind, link.count), size=_LABEL_SIZE, anchor="middle")
            drawing.label(*_label_at(points), word)


def _label_at(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Over the middle of an arc; beyond the peak of one that comes back to its side."""
    x, y = ((points[0][axis] + points[3][axis]) / 2 for axis in range(2))
    bend = points[1][1] - points[0][1]
    if points[0][1] != points[3][1]:
        return x, y + 3
    return x, y + 0.75 * bend + (15 if bend > 0 else -8)


def is_crossed(islands: Sequence[LinkIsland], band: Band) -> bool:
    """Whether an arc goes from one side of the room for links to the other."""
    return any(
        band.is_above(band.spots[link.a]) != band.is_above(band.spots[link.b])
        for island in islands
        if not is_bar(island)
        for link in island.links
        if link.a in band.spots and link.b in band.spots
    )


def _anchors(links: Sequence[GpuLink], band: Band) -> dict[tuple[int, int], tuple[float, float]]:
    """Where each link leaves each GPU: beside each other, in the order of where they go."""
    others: dict[int, list[int]] = {}
    for link in links:
        others.setdefault(link.a, []).append(link.b)
        others.setdefault(link.b, []).append(link.a)
    found = {}
    for gpu, ends in others.items():
        spot = band.spots[gpu]
        ends.sort(key=lambda end: (band.spots[end].rect.middle, end))
        for at, end in enumerate(ends):
            x = spot.rect.x + spot.rect.w * (at + 1) / (len(ends) + 1)
            found[gpu, end] = (x, band.edge(spot))
    return found


def _arc(
    ends: tuple[tuple[float, float], tuple[float, float]],
    band: Band,
    gpus: tuple[int, int],
    top: float,
) -> tuple[tuple[float, float], ...]:
    (x1, y1), (x2, y2) = ends
    is_above = [band.is_above(band.spots[gpu]) for gpu in gpus]
    if is_above[0] != is_above[1]:
        middle = (y1 + y2) / 2
        return ((x1, y1), (x1, middle), (x2, middle), (x2, y2))
    room = band.rect.bottom - top
    bend = min(room * 0.95, 40 + abs(x2 - x1) * 0.16) * (1 if is_above[0] else -1)
    return ((x1, y1), (x1, y1 + bend), (x2, y2 + bend), (x2, y2))
