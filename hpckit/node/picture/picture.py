"""What the lines and marks of a node's picture mean, and its findings in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.finding_lines import sentence
from hpckit.core.findings import Finding, FindingGroup, group_findings
from hpckit.core.svg import Drawing, Look, Rect, Stroke, Word, broken, fitted, path, text_width
from hpckit.core.text import figure, numbers_shown
from hpckit.core.values import dataclass
from hpckit.node.links import LinkIsland, link_islands
from hpckit.node.picture import layout as looks
from hpckit.node.picture.job import BUSY_NIC, JobOnNode, use_look
from hpckit.node.picture.job import legend as use_legend
from hpckit.node.picture.layout import (
    Kind,
    Spot,
    moved,
    place_height,
    place_spots,
    place_width,
    row_of_gpus,
    turned,
)
from hpckit.node.picture.parts import (
    Band,
    Parts,
    band_height,
    draw_links,
    gpu_spots,
    is_bar,
    is_crossed,
)
from hpckit.node.places import Place, places
from hpckit.node.title import node_title
from hpckit.node.topology import Host, NodeTopology, Source, is_down
from hpckit.node.words import byte_rate, pcie_bytes_per_s, pcie_words

MARGIN: Final = 24.0
PADDING: Final = 9.0
_BETWEEN: Final = 16.0
_WIDEST_ROW: Final = 1240.0
_LEAST_PAGE: Final = 640.0
_MANY: Final = 4
_TWO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The boxes, the panels behind them, and the room for links; `bottom` is where all ends.

    `band` lies between the two halves; links of GPUs above it come down to it, the others up.
    `others` says which NUMA nodes are left out, and why.
    """

    spots: tuple[Spot, ...]
    panels: tuple[Rect, ...]
    band: Rect | None
    width: float
    bottom: float
    others: str


def page(places: Sequence[Place], top: float, band_height: float | None) -> Page:
    """The page below `top`; without `band_height` there are no links to make room for."""
    shown, others = _without_empty(places)
    rows = _rows(shown) if band_height is None else _halves(shown)
    widest = max(map(_row_width, rows), default=0.0)
    width = max(_LEAST_PAGE, widest + 2 * MARGIN)
    spots: list[Spot] = []
    panels: list[Rect] = []
    band = None
    y = top
    for at, row in enumerate(rows):
        is_turned = band_height is not None and at == 1
        height = max(map(place_height, row), default=0.0)
        x = (width - (_row_width(row) if band_height is None else widest)) / 2
        _put_row(row, (x, y, height), is_turned=is_turned, spots=spots, panels=panels)
        y += height + 2 * PADDING
        if band_height is not None and at == 0:
            band = Rect(x=MARGIN, y=y, w=width - 2 * MARGIN, h=band_height)
            y += band_height
        elif band_height is None:
            y += _BETWEEN
    return Page(
        spots=tuple(spots), panels=tuple(panels), band=band, width=width, bottom=y, others=others
    )


def _without_empty(places: Sequence[Place]) -> tuple[list[Place], str]:
    held = [place for place in places if place.root.devices()]
    shown = list(places) if len(places) <= _MANY else held or list(places[:_MANY])
    if len(shown) == len(places):
        return shown, ""
    others = numbers_shown(f"NUMA {one.numa_index}" for one in places if one not in shown)
    return shown, f"{others}: {'no devices' if held else 'not drawn'}"


def _rows(places: Sequence[Place]) -> list[list[Place]]:
    rows: list[list[Place]] = []
    for place in places:
        if rows and _row_width([*rows[-1], place]) <= _WIDEST_ROW:
            rows[-1].append(place)
        else:
            rows.append([place])
    return rows


def _halves(places: Sequence[Place]) -> list[list[Place]]:
    """Above and below the links: a package each, or as many as make equal widths."""
    packages = list(dict.fromkeys(place.package_index for place in places))
    if len(packages) == _TWO and len(places) >= _TWO:
        return [[one for one in places if one.package_index == package] for package in packages]
    cuts = range(1, len(places) + 1)
    best = min(
        cuts, key=lambda cut: max(_row_width(places[:cut]), _row_width(places[cut:])), default=0
    )
    return [row for row in (list(places[:best]), list(places[best:])) if row]


def _row_width(places: Sequence[Place]) -> float:
    panels = sum(place_width(place) + 2 * PADDING for place in places)
    return panels + _BETWEEN * max(0, len(places) - 1)


def _put_row(
    row: Sequence[Place],
    where: tuple[float, float, float],
    *,
    is_turned: bool,
    spots: list[Spot],
    panels: list[Rect],
) -> None:
    x, y, height = where
    for place in row:
        width = place_width(place)
        panels.append(Rect(x=x, y=y, w=width + 2 * PADDING, h=height + 2 * PADDING))
        found = place_spots(place, height)
        if is_turned:
            found = turned(found, height)
        spots += [moved(spot, x + PADDING, y + PADDING) for spot in found]
        x += width + 2 * PADDING + _BETWEEN


_SAMPLE: Final = 30.0
_SIZE: Final = 11.0
_LEGEND_LINE: Final = 20.0
_MOST_FINDINGS: Final = 12
_DOWN: Final = "network port down"
_NOUNS: Final = {
    Kind.GPU: "GPUs",
    Kind.NIC: "NICs",
    Kind.SWITCH: "switches",
    Kind.ACCELERATOR: "accelerators",
}
_Entry = tuple[str, Stroke | Look]


def draw_legend(drawing: Drawing, entries: Iterable[_Entry], where: tuple[float, float]) -> float:
    """Draw it in a page of a width, from a y on; answers where it ends."""
    width, y = where
    x, size = MARGIN, drawing.size(_SIZE)
    y += 8
    bottom = y - 8
    for text, sample in entries:
        room = _SAMPLE + 8 + text_width(text, size) + 22
        if x > MARGIN and x + room > width - MARGIN:
            x, y = MARGIN, y + _LEGEND_LINE
        if isinstance(sample, Look):
            rect = Rect(x=x, y=y - 11, w=_SAMPLE, h=14)
            drawing.box("sample", rect, sample, (), about=text)
            if sample is looks.DOWN:
                drawing.cross(replace(rect, w=_SAMPLE - 4), looks.RED)
        else:
            drawing.wire(path((x, y - 4), (x + _SAMPLE, y - 4)), sample)
        drawing.label(x + _SAMPLE + 8, y, Word(text=text, size=size, colour=looks.GREY))
        x += room
        bottom = y + _LEGEND_LINE
    return bottom


def _pcie_entries(topology: NodeTopology, spots: Sequence[Spot], parts: Parts) -> Iterable[_Entry]:
    """What the wires without labels are; to which boxes they lead where not all are alike."""
    rates = {
        pcie_words(link): pcie_bytes_per_s(link)
        for link in (one.effective or one.link for one in topology.pci)
    }
    usual = parts.usual
    for words, kinds in usual.items():
        rate = rates[words]
        text = f"PCIe {words}" + ("" if rate is None else f", {byte_rate(rate)}")
        text += f": {' and '.join(_NOUNS[kind] for kind in kinds)}" if len(usual) > 1 else ""
        yield text, looks.pcie_stroke(rate)
    known = {one.address for one in topology.pci if pcie_bytes_per_s(one.effective or one.link)}
    ends = (spot for spot in spots if spot.above is not None and spot.kind is not Kind.SWITCH)
    if any(spot.pci not in known for spot in ends):
        yield "PCIe, rate or path unknown", looks.pcie_stroke(None)
    if any(spot.branch is not None and spot.branch.is_inferred for spot in spots):
        yield "switch: PIX or PXB in the matrix", looks.SWITCH


def _job_entries(job: JobOnNode, spots: Sequence[Spot]) -> Iterable[_Entry]:
    uses = [job.use([gpu.index for gpu in spot.gpus]) for spot in spots if spot.kind is Kind.GPU]
    yield from use_legend([use_look(use) for use in uses])
    if any(use is not None and use.is_slow for use in uses):
        yield "slower than its peers, or throttled", looks.SLOW
    if job.nics:
        yield "sent and received, against the busiest NIC", BUSY_NIC


def _link_entries(topology: NodeTopology, islands: Sequence[LinkIsland]) -> Iterable[_Entry]:
    entries: dict[str, Stroke] = {}
    for island in islands:
        for link in sorted(island.links, key=lambda link: link.count or 0):
            rate = link.bandwidth_bytes_per_s
            if not is_bar(island):
                count = "" if link.count is None else f"{figure(link.count)} × "
                text = f"{count}{link.kind}" + ("" if not rate else f", {byte_rate(rate)}")
                entries[text] = looks.pair_stroke(link.kind, link.count, rate)
    for beside in topology.cpu_links:
        rate = beside.bandwidth_bytes_per_s
        text = f"{beside.kind} to the CPU" + ("" if rate is None else f", {byte_rate(rate)}")
        entries[text] = looks.beside_stroke(beside)
    return entries.items()


def draw_findings(
    drawing: Drawing, findings: Sequence[FindingGroup], where: tuple[float, float]
) -> float:
    """Draw the findings with the numbers of their marks; answers where they end."""
    width, y = where
    y += 8 if findings else 0
    size = drawing.size(_SIZE)
    for number, one in enumerate(findings[:_MOST_FINDINGS], 1):
        drawing.badge(MARGIN + 8, y - 4, str(number), looks.FINDINGS[one.severity])
        text = f"{one.severity}: {sentence(one)}"
        room = width - 2 * MARGIN - 26
        for line in broken(text.split(" "), size, room):
            drawing.label(MARGIN + 26, y, Word(text=line, size=size))
            y += size + 4
        for line in broken(one.remedy.split(" "), size, room):
            drawing.label(MARGIN + 26, y, Word(text=line, size=size, colour=looks.GREY))
            y += size + 4
        y += 5
    left = len(findings) - _MOST_FINDINGS
    if left > 0:
        drawing.label(MARGIN + 26, y, Word(text=f"… and {left} more", size=_SIZE))
        y += _LEGEND_LINE
    return y


_TITLE_SIZE: Final = 20.0
_TEXT_SIZE: Final = 12.0
_LINE: Final = 17.0
_SYNTHETIC_W: Final = 104.0


def node_svg(
    topology: NodeTopology, findings: Sequence[Finding] = (), job: JobOnNode | None = None
) -> str:
    """The picture as an SVG file in itself, the same for the same node; findings are marked in it.

    It stands alone, in a browser as in a README: no script, no font file, no reference, and its
    own ground, light or dark. A `job` is shown on it: its ranks, and how useful each GPU was.
    Hosts' and devices' names are shown with what is hidden in them escaped.
    """
    known = {gpu.index for gpu in topology.gpus}
    islands = [island for island in link_islands(topology) if known.intersection(island.gpus)]
    real = replace(topology, source=replace(topology.source, is_synthetic=False))
    name, *parts = node_title(real)
    name = name if job is None else job.title
    found = places(topology)
    laid, lines = _laid_out(topology, found, islands, parts)
    drawing = Drawing(laid.width)
    is_synthetic = topology.source.is_synthetic or (job is not None and job.is_synthetic)
    _draw_title(drawing, (name, *lines), laid, is_synthetic=is_synthetic)
    groups = group_findings(findings)
    for panel in laid.panels:
        drawing.box("panel", panel, looks.PANEL, (), about="")
    boxes = Parts(drawing, topology, laid.spots, groups, job)
    for spot in laid.spots:
        boxes.draw(spot)
    if laid.band is not None:
        draw_links(drawing, islands, Band(rect=laid.band, spots=gpu_spots(laid.spots)))
    y = _draw_others(drawing, laid, found)
    entries = [] if job is None else [*_job_entries(job, laid.spots)]
    entries += [*_pcie_entries(topology, laid.spots, boxes), *_link_entries(topology, islands)]
    entries += [(_DOWN, looks.DOWN)] if any(map(is_down, topology.nics)) else []
    y = draw_legend(drawing, entries, (laid.width, y))
    y = draw_findings(drawing, groups, (laid.width, y))
    about = ". ".join((name, *node_title(topology)[1:], *map(sentence, groups)))
    title = f"Topology of {name}" if job is None else name
    return drawing.document(laid.width, y + MARGIN - 8, title=title, about=about)


def _laid_out(
    topology: NodeTopology,
    found: Sequence[Place],
    islands: Sequence[LinkIsland],
    parts: Sequence[str],
) -> tuple[Page, list[str]]:
    """The page, and the lines below its title; where only GPUs are known, these in a row."""
    top = _TITLE_SIZE + MARGIN + 14
    trial = page(found, top, band_height(islands, is_crossed=False))
    crossed = trial.band is not None and is_crossed(
        islands, Band(rect=trial.band, spots=gpu_spots(trial.spots))
    )
    lines = broken(parts, Drawing(trial.width).size(_TEXT_SIZE), trial.width - 2 * MARGIN, " · ")
    top += len(lines) * _LINE + 6
    bare = replace(topology, gpus=(), source=Source(format=""), host=Host())
    if topology.gpus and bare == NodeTopology(source=Source(format="")):
        return _row_page(topology, top), lines
    return page(found, top, band_height(islands, is_crossed=crossed)), lines


def _row_page(topology: NodeTopology, top: float) -> Page:
    spots = row_of_gpus(topology.gpus, MARGIN, top, _WIDEST_ROW - 2 * MARGIN)
    right = max(spot.rect.right for spot in spots)
    bottom = max(spot.rect.bottom for spot in spots)
    width = max(_LEAST_PAGE, right + MARGIN)
    return Page(spots=spots, panels=(), band=None, width=width, bottom=bottom, others="")


def _draw_title(
    drawing: Drawing, texts: tuple[str, ...], laid: Page, *, is_synthetic: bool
) -> None:
    y = MARGIN + _TITLE_SIZE * 0.8
    room = laid.width - 2 * MARGIN - (_SYNTHETIC_W + 16 if is_synthetic else 0)
    name, lines = fitted(texts[0], _TITLE_SIZE, room), texts[1:]
    drawing.label(MARGIN, y, Word(text=name, size=_TITLE_SIZE, is_bold=True))
    if is_synthetic:
        x = MARGIN + min(room, 1.12 * text_width(name, _TITLE_SIZE)) + 16
        rect = Rect(x=x, y=y - 17, w=_SYNTHETIC_W, h=22)
        word = Word(text="synthetic", size=13, is_bold=True, colour="#7d4e00", anchor="middle")
        drawing.box(
            "synthetic", rect, looks.SYNTHETIC, (word,), about="synthetic: not a real machine"
        )
    y += 5
    for line in lines:
        y += _LINE
        drawing.label(MARGIN, y, Word(text=line, size=_TEXT_SIZE, colour=looks.GREY))


def _draw_others(drawing: Drawing, laid: Page, found: Sequence[Place]) -> float:
    y = laid.bottom + 14
    if laid.others:
        text = fitted(laid.others, 11, laid.width - 2 * MARGIN)
        drawing.label(MARGIN, y, Word(text=text, size=11, colour=looks.GREY))
        y += _LINE
    if not found:
        drawing.label(MARGIN, y, Word(text="contents unknown", size=12))
        y += _LINE
    return y
