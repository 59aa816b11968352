"""The boxes of a node's picture, the wires that they hang from, and the marks of findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.core.findings import FindingGroup
from hpckit.core.svg import (
    Drawing,
    Look,
    Rect,
    Stroke,
    Word,
    curve,
    path,
    text_width,
)
from hpckit.core.text import figure, names_shown, numbers_shown, visible
from hpckit.core.values import dataclass
from hpckit.node.links import LinkIsland
from hpckit.node.pci import PciAddress, PcieLink
from hpckit.node.picture import layout as looks
from hpckit.node.picture.job import TRAFFIC, GpuUse, JobOnNode, use_look
from hpckit.node.picture.layout import (
    GPU_W,
    INK,
    SPINE,
    WARNING,
    WIRE,
    Kind,
    Spot,
    bar_look,
    pair_stroke,
    wire_width,
)
from hpckit.node.rules.rule import device_names, gpu_name
from hpckit.node.title import gpu_kind, place_cpus, place_title
from hpckit.node.topology import CpuLink, GpuLink, LinkKind, Nic, NodeTopology, is_down
from hpckit.node.words import (
    bit_rate,
    byte_rate,
    cpus_shown,
    gpu_model,
    is_narrow,
    is_storage,
    memory,
    nic_rate,
    pcie_bytes_per_s,
    pcie_words,
    role_words,
    slot_name,
)

_BAR_H: Final = 30.0
_LANE: Final = 34.0
_MESH_H: Final = 190.0
_LEAST_MESH_H: Final = 40.0
_ONE_SIDE_H: Final = 130.0
_PAIR: Final = 2
_FEW_ARCS: Final = 8
_LABEL_SIZE: Final = 11.0


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
    arcs = sum(len(island.links) for island in islands if not is_bar(island))
    if arcs:
        height += min(_MESH_H, _LEAST_MESH_H + arcs * _LANE) if is_crossed else _ONE_SIDE_H
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
    room, wider = band.rect, min(max(width, text_width(text, drawing.size(12)) + 24), band.rect.w)
    left = min(max(room.x, left - (wider - width) / 2), room.right - wider)
    bar = Rect(x=left, y=y, w=wider, h=_BAR_H)
    word = Word(text=text, size=12, is_bold=True, anchor="middle")
    drawing.box("bar", bar, bar_look(island.kind), (word,), about=text)
    counts = dict(zip(island.gpus, island.counts or (), strict=False))
    drawn = set()
    for gpu, spot in members.items():
        if spot.rect not in drawn:
            drawn.add(spot.rect)
            _draw_tap(drawing, band, spot, bar, (island, counts.get(gpu)))


def _draw_tap(
    drawing: Drawing, band: Band, spot: Spot, bar: Rect, of: tuple[LinkIsland, int | None]
) -> None:
    island, count = of
    y = band.edge(spot)
    end = bar.y if band.is_above(spot) else bar.bottom
    most = max((held for held in island.counts or () if held is not None), default=0)
    has_fewer = count is not None and count < most
    colour = WARNING if has_fewer else looks.LINKS[island.kind]
    wire = path((spot.rect.middle, y), (spot.rect.middle, end))
    drawing.wire(wire, Stroke(colour=colour, width=_tap_width(island)))
    if count is not None and count != _usual_count(island.counts or ()):
        at = y + 24 if band.is_above(spot) else y - 16
        word = Word(
            text=_count_words(island.kind, count),
            size=_LABEL_SIZE,
            colour=WARNING if has_fewer else INK,
            is_bold=has_fewer,
        )
        drawing.label(spot.rect.middle + 7, at, word)


def _usual_count(counts: Sequence[int | None]) -> int | None:
    """What most have: it is said once, and only what differs has a label."""
    known = Counter(count for count in counts if count is not None)
    return max(known, key=lambda count: (known[count], count), default=None)


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
        parts = ["NVSwitch" if island.kind is LinkKind.NVLINK else f"{island.kind} switch"]
    else:
        how = "all to all" if island.is_switched is None else "all to all, no switch"
        parts = [str(island.kind), how]
    count = _usual_count(island.counts or ())
    if count is not None and (count > 1 or island.kind is LinkKind.NVLINK):
        parts.append(_count_words(island.kind, count))
    if rate is not None:
        each = "GPU" if island.is_switched else "pair"
        parts.append(f"{most}{byte_rate(rate)} per {each} each way")
    return " · ".join(parts)


def _draw_arcs(drawing: Drawing, links: Sequence[GpuLink], band: Band, *, top: float) -> None:
    drawn = [link for link in links if link.a in band.spots and link.b in band.spots]
    anchors = _anchors(drawn, band)
    usual = _usual_count([link.count for link in drawn])
    for link in drawn:
        ends = anchors[link.a, link.b], anchors[link.b, link.a]
        points = _arc(ends, band, (link.a, link.b), top)
        stroke = pair_stroke(link.kind, link.count, link.bandwidth_bytes_per_s)
        drawing.wire(curve(points), stroke)
        if len(drawn) <= _FEW_ARCS and link.count not in (None, usual):
            word = Word(
                text=_count_words(link.kind, link.count or 0), size=_LABEL_SIZE, anchor="middle"
            )
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


_IN: Final = 22.0
_C2C_IN: Final = 9.0
_SMALL: Final = 11.0
_NAME: Final = 11.0
_EDGES: Final = 12.0
_LABEL_LINES: Final = 2
_SPLIT_FROM: Final = 10
_BADGE_W: Final = 18
_RING: Final = Stroke(colour=looks.RED, width=3.5)


class Parts:
    """Draws the boxes of one node."""

    def __init__(
        self,
        drawing: Drawing,
        topology: NodeTopology,
        spots: Sequence[Spot],
        findings: Sequence[FindingGroup],
        job: JobOnNode | None = None,
    ) -> None:
        self._drawing, self._job = drawing, job
        uses = () if job is None else job.gpus.values()
        self._is_one_line = all(self._fits(" · ".join(use.texts())) for use in uses)
        self._links = {one.address: one.effective or one.link for one in topology.pci}
        self._beside: dict[int, CpuLink] = {link.gpu_index: link for link in topology.cpu_links}
        names = {gpu_kind(gpu) for gpu in topology.gpus if not gpu.is_hidden}
        self._has_one_kind = len(names) == 1
        self._marks: dict[str, list[tuple[int, FindingGroup]]] = {}
        for number, one in enumerate(findings, 1):
            for subject in one.subjects:
                self._marks.setdefault(subject, []).append((number, one))
        self._stacks: dict[tuple[Rect | None, float], set[str]] = {}
        words: dict[Kind, Counter[str]] = {}
        for spot in spots:
            link = self._pcie(spot.pci)
            if spot.kind is Kind.NIC:
                self._stacks.setdefault((spot.above, spot.rect.x), set()).add(pcie_words(link))
            if pcie_words(link) and spot.kind is not Kind.CPU:
                words.setdefault(spot.kind, Counter())[pcie_words(link)] += 1
        self._usual = {kind: counted.most_common(1)[0][0] for kind, counted in words.items()}

    @property
    def usual(self) -> Mapping[str, tuple[Kind, ...]]:
        """What the wires say that have no label, and to what kinds of boxes these lead."""
        said = dict.fromkeys(self._usual.values())
        return {
            words: tuple(kind for kind, its in self._usual.items() if its == words)
            for words in said
        }

    def draw(self, spot: Spot) -> None:
        """Draw a box, its wire and its mark."""
        draw = {
            Kind.CPU: self._cpu,
            Kind.SWITCH: self._switch,
            Kind.GPU: self._gpu,
            Kind.NIC: self._nic,
            Kind.ACCELERATOR: self._accelerator,
        }
        draw[spot.kind](spot)

    def _pcie(self, address: PciAddress | None) -> PcieLink | None:
        return None if address is None else self._links.get(address)

    def _cpu(self, spot: Spot) -> None:
        if spot.place is None:
            return
        title, facts = place_title(spot.place), []
        cpus = place_cpus(spot.place)
        if cpus:
            facts.append(f"CPUs {cpus_shown(cpus, 30)}")
        if spot.place.numa is not None and spot.place.numa.memory_bytes is not None:
            facts.append(memory(spot.place.numa.memory_bytes))
        words = [_middle(title, 13, is_bold=True)]
        words += [_middle(" · ".join(facts), 11)] if facts else []
        self._box(spot, looks.CPU, words, [title, *facts])
        self._mark(spot, [f"NUMA {spot.place.numa_index}"])

    def _switch(self, spot: Spot) -> None:
        bridge = None if spot.branch is None else spot.branch.bridge
        if bridge is None:
            text, link = "switch", None
            about = "PCIe switch, from the matrix: PIX or PXB"
        else:
            text, link = f"switch {slot_name(bridge.address)}", self._pcie(bridge.address)
            about = f"PCIe switch {bridge.address} {pcie_words(link)}"
        self._wire(spot, spot.rect.middle, link)
        self._box(spot, looks.SWITCH, [_middle(text, 11)], [about])
        self._mark(spot, [] if bridge is None else [bridge.address])

    def _gpu(self, spot: Spot) -> None:
        first = spot.gpus[0]
        link = self._pcie(first.pci)
        beside = self._beside.get(first.index)
        if beside is not None and not first.is_hidden:
            # It goes to the CPU's bar, or behind the switches on the way to it.
            x, (start, end) = spot.rect.x + _C2C_IN, _edges(spot)
            self._drawing.wire(path((x, start), (x, end)), looks.beside_stroke(beside))
        if spot.above is not None:
            self._wire(spot, spot.rect.x + _IN, link)
        words = [_middle(numbers_shown(gpu_name(gpu.index) for gpu in spot.gpus), 13, is_bold=True)]
        texts, look = self._gpu_texts(spot), looks.HIDDEN if first.is_hidden else looks.GPU
        about = [gpu_name(first.index), gpu_kind(first), first.pci or "", pcie_words(link)]
        if self._job is not None:
            use = self._job.use([gpu.index for gpu in spot.gpus])
            look, about = use_look(use), [*about, *texts]
            if use is not None and use.is_slow:
                self._drawing.ring(spot.rect, _RING)
        words += [_middle(text, _SMALL) for text in texts[:_LABEL_LINES]]
        self._box(spot, look, words, about)
        self._mark(spot, [name for gpu in spot.gpus for name in device_names(gpu)])

    def _use_texts(self, use: GpuUse | None) -> list[str]:
        if use is None:
            return ["not in job"]
        ranks, useful = use.texts()
        if not self._fits(ranks):
            ranks = f"{len(use.ranks)} ranks"
        return [f"{ranks} · {useful}"] if self._is_one_line else [ranks, useful]

    def _fits(self, text: str) -> bool:
        return text_width(text, self._drawing.size(_SMALL)) <= GPU_W - _EDGES

    def _gpu_texts(self, spot: Spot) -> list[str]:
        gpus, first = spot.gpus, spot.gpus[0]
        if self._job is not None:
            use = self._job.use([gpu.index for gpu in gpus])
            if use is not None or not first.is_hidden:
                return self._use_texts(use)
        if first.is_hidden:
            return ["hidden here"]
        texts = []
        if first.is_mig:
            count = "" if first.mig_devices is None else f" {figure(first.mig_devices)}"
            texts.append(f"MIG{count}")
        if len(gpus) > 1:
            kind = first.partition or ""
            word = f"× {visible(kind, 8)}" if kind.isalpha() else "partitions"
            texts.append(f"{len(gpus)} {word}")
        if not self._has_one_kind:
            texts.append("GPU" if first.name is None else gpu_model(first.name))
        if first.pci is not None:
            texts.append(slot_name(first.pci))
        return texts

    def _accelerator(self, spot: Spot) -> None:
        one = spot.accelerator
        if one is None:
            return
        link = self._pcie(one.pci)
        self._wire(spot, spot.rect.x + _IN, link)
        words = [_middle(one.name, 12, is_bold=True)]
        words += [_middle(slot_name(one.pci), _SMALL)] if one.pci is not None else []
        self._box(spot, looks.ACCELERATOR, words, [one.name, one.pci or "", pcie_words(link)])
        self._mark(spot, [one.name])

    def _nic(self, spot: Spot) -> None:
        first = spot.nics[0]
        link = self._pcie(first.pci)
        is_uniform = len(self._stacks[spot.above, spot.rect.x]) == 1
        self._spine(spot, link, is_labelled=is_uniform)
        has_usual = is_uniform or pcie_words(link) == self._usual.get(Kind.NIC)
        texts = _nic_texts(spot.nics) if has_usual else _unlike_texts(first, link)
        traffic = None if self._job is None else self._job.traffic(first)
        shown = texts if traffic is None else [traffic.text]
        words = _nic_words(spot, [text for text in shown if text])
        names = ", ".join(nic.name for nic in spot.nics)
        about = [names, *texts, first.pci or "", pcie_words(link)]
        load = None if traffic is None else (traffic.load_frac, TRAFFIC)
        about += [] if traffic is None else [traffic.text]
        look = looks.DOWN if is_down(first) else looks.NIC
        self._box(spot, look, words, about, load)
        if is_down(first):
            self._drawing.cross(spot.rect, looks.RED)
        self._mark(spot, [name for nic in spot.nics for name in device_names(nic)])

    def _spine(self, spot: Spot, link: PcieLink | None, *, is_labelled: bool) -> None:
        start, _ = _edges(spot)
        x, y = spot.rect.x - SPINE + 3, spot.rect.y + spot.rect.h / 2
        stroke = looks.pcie_stroke(pcie_bytes_per_s(link))
        self._drawing.wire(path((x, start), (x, y), (spot.rect.x, y)), stroke)
        is_first = min(abs(spot.rect.y - start), abs(spot.rect.bottom - start)) <= WIRE + 1
        if is_labelled and is_first:
            self._wire_label(x + 7, spot, link)

    def _wire(self, spot: Spot, x: float, link: PcieLink | None) -> None:
        start, end = _edges(spot)
        stroke = looks.pcie_stroke(pcie_bytes_per_s(link))
        self._drawing.wire(path((x, start), (x, end)), stroke)
        self._wire_label(x + 7, spot, link)

    def _wire_label(self, x: float, spot: Spot, link: PcieLink | None) -> None:
        """What a wire is, unless it is as most to boxes of this kind are: the legend says those."""
        if pcie_words(link) == self._usual.get(spot.kind):
            return
        start, end = _edges(spot)
        colour = looks.RED if is_narrow(link) else looks.GREY
        lines, line_h = _label_lines(pcie_words(link)), self._drawing.size(_SMALL) + 2
        y = start + 18 if end > start else start - 11 - line_h * (len(lines) - 1)
        for line in lines:
            word = Word(text=line, size=_SMALL, colour=colour, is_bold=is_narrow(link))
            self._drawing.label(x, y, word)
            y += line_h

    def _box(
        self,
        spot: Spot,
        look: Look,
        words: Sequence[Word],
        about: Sequence[str],
        load: tuple[float, str] | None = None,
    ) -> None:
        text = " · ".join(part for part in about if part)
        self._drawing.box(spot.kind, spot.rect, look, words, about=text, load=load)

    def _mark(self, spot: Spot, names: Sequence[str]) -> None:
        """A badge for each finding, from the right; what has no room is in the last as `…`."""
        found = {
            number: looks.FINDINGS[one.severity]
            for name in names
            for number, one in self._marks.get(name, ())
        }
        marks = [(str(number), found[number]) for number in sorted(found)]
        room = int((spot.rect.w - 10) // _BADGE_W)
        if len(marks) > room:
            marks = [*marks[: room - 1], ("…", marks[room - 1][1])]
        for at, (text, colour) in enumerate(marks):
            self._drawing.badge(spot.rect.right - 2 - _BADGE_W * at, spot.rect.y + 1, text, colour)


def _nic_texts(nics: Sequence[Nic]) -> list[str]:
    first = nics[0]
    texts = [visible(first.state, 10)] if first.state is not None and is_down(first) else []
    if len(nics) > 1:
        texts.append(f"{len(nics)} VFs" if first.is_virtual else f"{len(nics)} NICs")
    rate = nic_rate(first)
    if len(nics) > 1 and first.rate_bytes_per_s is not None:
        rate = bit_rate(first.rate_bytes_per_s)
    texts += [rate] if first.kind is not None or first.rate_bytes_per_s is not None else []
    texts += [role_words(first.role)] if first.role is not None and is_storage(first) else []
    return texts


def _nic_words(spot: Spot, texts: Sequence[str]) -> list[Word]:
    """The name and what is told below it; where that is too long, its end stands by the name.

    Where that is too long as well, the end stands below, the first by the name: `mlx5_1 · DOWN`.
    """
    name = names_shown([nic.name for nic in spot.nics], most=1)
    below, room = " · ".join(texts), spot.rect.w - _EDGES
    if text_width(below, _SMALL) > room and len(texts) > 1:
        beside = f"{name} · {texts[-1]}"
        if text_width(beside, _NAME) <= room:
            name, below = beside, " · ".join(texts[:-1])
        else:
            name = f"{name} · {texts[0]}" if len(texts) > _PAIR else name
            below = texts[-1]
    words = [Word(text=name, size=_NAME, is_bold=True)]
    return words + ([Word(text=below, size=_SMALL)] if below else [])


def _unlike_texts(nic: Nic, link: PcieLink | None) -> list[str]:
    """For NICs whose stack has links of several kinds: the link is told before the NIC's kind."""
    rate = nic.rate_bytes_per_s
    state = visible(nic.state, 10) if nic.state is not None and is_down(nic) else ""
    return [state, "" if is_narrow(link) or rate is None else bit_rate(rate), pcie_words(link)]


def _middle(text: str, size: float, *, is_bold: bool = False) -> Word:
    return Word(text=text, size=size, is_bold=is_bold, anchor="middle")


def _edges(spot: Spot) -> tuple[float, float]:
    """Where a wire leaves a bar and where it meets a box: on the sides that face each other."""
    above, rect = spot.above or spot.rect, spot.rect
    return (above.bottom, rect.y) if above.y < rect.y else (above.y, rect.bottom)


def _label_lines(text: str) -> list[str]:
    if len(text) <= _SPLIT_FROM:
        return [text] if text else []
    head, _, rest = text.partition(" (")
    if rest:
        return [head, f"({rest}"]
    head, _, rest = text.partition(" of ")
    return [head, f"of {rest}"] if rest else [text]
