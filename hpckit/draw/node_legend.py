"""What the lines and marks of a node's picture mean, and its findings in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import FindingGroup
from hpckit.draw import node_looks as looks
from hpckit.draw.node_band import is_bar
from hpckit.draw.node_page import MARGIN
from hpckit.draw.node_parts import beside_words
from hpckit.draw.svg import Drawing, Rect, Stroke, Word, broken, path, text_width
from hpckit.model.finding_group import sentence
from hpckit.model.hardware import NodeTopology
from hpckit.model.nic_state import is_down
from hpckit.model.node_links import LinkIsland
from hpckit.model.node_paths import Device
from hpckit.model.node_words import byte_rate, figure, pcie_bytes_per_s, pcie_words
from hpckit.model.pci import PcieLink

_SAMPLE: Final = 30.0
_SIZE: Final = 11.0
_LINE: Final = 20.0
_MOST_SAMPLES: Final = 4
_MOST_FINDINGS: Final = 12
_Entry = tuple[str, Stroke]


def draw_legend(
    drawing: Drawing,
    topology: NodeTopology,
    islands: Sequence[LinkIsland],
    where: tuple[float, float],
) -> float:
    """Draw it in a page of a width, from a y on; answers where it ends."""
    width, y = where
    entries = (*_pcie_entries(topology), *_link_entries(topology, islands))
    x = MARGIN
    if entries:
        y += 8
    for text, stroke in entries:
        room = _SAMPLE + 8 + text_width(text, _SIZE) + 22
        if x > MARGIN and x + room > width - MARGIN:
            x, y = MARGIN, y + _LINE
        drawing.wire(path((x, y - 4), (x + _SAMPLE, y - 4)), stroke)
        drawing.label(x + _SAMPLE + 8, y, Word(text=text, size=_SIZE, colour=looks.GREY))
        x += room
    if any(map(is_down, topology.nics)):
        y = _draw_down(drawing, (x, y), width)
    return y + _LINE if entries else y


def _draw_down(drawing: Drawing, where: tuple[float, float], width: float) -> float:
    text = "network port that is not up"
    x, y = where
    if x > MARGIN and x + _SAMPLE + 8 + text_width(text, _SIZE) > width - MARGIN:
        x, y = MARGIN, y + _LINE
    rect = Rect(x=x, y=y - 11, w=_SAMPLE, h=14)
    drawing.box("sample", rect, looks.DOWN, (), about=text)
    drawing.cross(Rect(x=x, y=y - 11, w=_SAMPLE - 4, h=14), looks.RED)
    drawing.label(x + _SAMPLE + 8, y, Word(text=text, size=_SIZE, colour=looks.GREY))
    return y


def _pcie_entries(topology: NodeTopology) -> list[_Entry]:
    links = {one.address: one.effective or one.link for one in topology.pci}
    drawn: tuple[Device, ...] = (*topology.gpus, *topology.nics, *topology.accelerators)
    known: dict[str, float] = {}
    is_unknown = False
    for device in drawn:
        link = None if device.pci is None else links.get(device.pci)
        rate = pcie_bytes_per_s(link)
        if rate is None:
            is_unknown = True
        else:
            known[pcie_words(_full(link))] = rate
    widest = sorted(known.items(), key=lambda item: item[1], reverse=True)[:_MOST_SAMPLES]
    entries = [
        (f"PCIe {text}, {byte_rate(rate)}", looks.pcie_stroke(rate)) for text, rate in widest
    ]
    if is_unknown:
        entries.append(("PCIe, rate or way not known", looks.pcie_stroke(None)))
    return entries


def _full(link: PcieLink | None) -> PcieLink | None:
    """The same link as it is, without what it could be."""
    if link is None:
        return None
    return PcieLink(speed_gt_per_s=link.speed_gt_per_s, width=link.width)


def _link_entries(topology: NodeTopology, islands: Sequence[LinkIsland]) -> list[_Entry]:
    entries: dict[str, Stroke] = {}
    for island in islands:
        for link in sorted(island.links, key=lambda link: link.count or 0):
            rate = link.bandwidth_bytes_per_s
            if not is_bar(island):
                count = "" if link.count is None else f"{figure(link.count)} × "
                text = f"{count}{link.kind}" + ("" if not rate else f", {byte_rate(rate)}")
                entries[text] = looks.pair_stroke(link.kind, link.count, rate)
    for beside in topology.cpu_links:
        width = max(2.5, looks.wire_width(beside.bandwidth_bytes_per_s))
        colour = looks.link_colour(beside.kind)
        entries[beside_words(beside)] = Stroke(colour=colour, width=width)
    return list(entries.items())


def draw_findings(
    drawing: Drawing, findings: Sequence[FindingGroup], where: tuple[float, float]
) -> float:
    """Draw the findings with the numbers of their marks; answers where they end."""
    width, y = where
    y += 8 if findings else 0
    for number, one in enumerate(findings[:_MOST_FINDINGS], 1):
        drawing.badge(MARGIN + 8, y - 4, str(number), looks.FINDINGS[one.severity])
        text = f"{one.severity}: {sentence(one)}"
        room = width - 2 * MARGIN - 26
        for line in broken(text.split(" "), _SIZE, room):
            drawing.label(MARGIN + 26, y, Word(text=line, size=_SIZE))
            y += 15
        for line in broken(one.remedy.split(" "), _SIZE, room):
            drawing.label(MARGIN + 26, y, Word(text=line, size=_SIZE, colour=looks.GREY))
            y += 15
        y += 5
    left = len(findings) - _MOST_FINDINGS
    if left > 0:
        drawing.label(MARGIN + 26, y, Word(text=f"… and {left} more", size=_SIZE))
        y += _LINE
    return y
