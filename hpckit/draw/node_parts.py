"""The boxes of a node's picture, the wires that they hang from, and the marks of findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import FindingGroup
from hpckit.draw import node_looks as looks
from hpckit.draw.node_layout import SPINE, WIRE, Kind, Spot
from hpckit.draw.svg import Drawing, Look, Rect, Stroke, Word, path, text_width
from hpckit.model.hardware import CpuLink, Gpu, Nic, NodeTopology
from hpckit.model.nic_state import is_down
from hpckit.model.node_paths import device_names
from hpckit.model.node_title import gpu_kind, place_cpus, place_title
from hpckit.model.node_words import (
    bit_rate,
    byte_rate,
    cpus_shown,
    figure,
    gpu_label,
    gpu_model,
    is_narrow,
    is_storage,
    memory,
    names_shown,
    nic_rate,
    numbers_shown,
    pcie_bytes_per_s,
    pcie_words,
    role_words,
    slot_name,
    visible,
)
from hpckit.model.pci import PciAddress, PcieLink

_IN: Final = 22.0
_C2C_IN: Final = 9.0
_SMALL: Final = 10.0
_NAME: Final = 11.0
_EDGES: Final = 12.0
_LABEL_LINES: Final = 2
_SPLIT_FROM: Final = 10
_BADGE_W: Final = 17


class Parts:
    """Draws the boxes of one node."""

    def __init__(
        self,
        drawing: Drawing,
        topology: NodeTopology,
        spots: Sequence[Spot],
        findings: Sequence[FindingGroup],
    ) -> None:
        self._drawing = drawing
        self._links = {one.address: one.effective or one.link for one in topology.pci}
        self._beside: dict[int, CpuLink] = {link.gpu_index: link for link in topology.cpu_links}
        names = {gpu_kind(gpu) for gpu in topology.gpus if not gpu.is_hidden}
        self._has_one_kind = len(names) == 1
        self._marks: dict[str, list[tuple[int, FindingGroup]]] = {}
        for number, one in enumerate(findings, 1):
            for subject in one.subjects:
                self._marks.setdefault(subject, []).append((number, one))
        self._stacks: dict[tuple[Rect | None, float], set[str]] = {}
        for spot in spots:
            if spot.kind is Kind.NIC:
                words = pcie_words(self._pcie(spot.nics[0].pci))
                self._stacks.setdefault((spot.above, spot.rect.x), set()).add(words)

    def draw(self, spot: Spot) -> None:
        """Draw a box, its wire and its mark."""
        if spot.kind is Kind.CPU:
            self._cpu(spot)
        elif spot.kind is Kind.SWITCH:
            self._switch(spot)
        elif spot.kind is Kind.GPU:
            self._gpu(spot)
        elif spot.kind is Kind.NIC:
            self._nic(spot)
        else:
            self._accelerator(spot)

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
            text, link = "switch (PIX or PXB)", None
            about = "a PCIe switch that the matrix tells of: PIX or PXB"
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
            self._beside_wire(spot, beside)
        self._wire(spot, spot.rect.x + _IN, link)
        words = [_middle(numbers_shown(map(gpu_label, spot.gpus)), 13, is_bold=True)]
        words += [_middle(text, _SMALL) for text in self._gpu_texts(spot.gpus)[:_LABEL_LINES]]
        about = [gpu_label(first), gpu_kind(first), first.pci or "", pcie_words(link)]
        self._box(spot, looks.HIDDEN if first.is_hidden else looks.GPU, words, about)
        self._mark(spot, [name for gpu in spot.gpus for name in device_names(gpu)])

    def _gpu_texts(self, gpus: Sequence[Gpu]) -> list[str]:
        first = gpus[0]
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
        texts = _nic_texts(spot.nics) if is_uniform else _unlike_texts(first, link)
        words = _nic_words(spot, [text for text in texts if text])
        about = [
            ", ".join(nic.name for nic in spot.nics),
            *texts,
            first.pci or "",
            pcie_words(link),
        ]
        self._box(spot, looks.DOWN if is_down(first) else looks.NIC, words, about)
        if is_down(first):
            self._drawing.cross(spot.rect, looks.RED)
        self._mark(spot, [name for nic in spot.nics for name in device_names(nic)])

    def _spine(self, spot: Spot, link: PcieLink | None, *, is_labelled: bool) -> None:
        if spot.above is None:
            return
        start, _ = _edges(spot.above, spot.rect)
        x, y = spot.rect.x - SPINE + 3, spot.rect.y + spot.rect.h / 2
        stroke = looks.pcie_stroke(pcie_bytes_per_s(link))
        self._drawing.wire(path((x, start), (x, y), (spot.rect.x, y)), stroke)
        is_first = min(abs(spot.rect.y - start), abs(spot.rect.bottom - start)) <= WIRE + 1
        if is_labelled and is_first:
            self._wire_label(x + 7, start, link, is_down=spot.rect.y > start)

    def _wire(self, spot: Spot, x: float, link: PcieLink | None) -> None:
        if spot.above is None:
            return
        start, end = _edges(spot.above, spot.rect)
        stroke = looks.pcie_stroke(pcie_bytes_per_s(link))
        self._drawing.wire(path((x, start), (x, end)), stroke)
        self._wire_label(x + 7, start, link, is_down=end > start)

    def _wire_label(self, x: float, start: float, link: PcieLink | None, *, is_down: bool) -> None:
        colour = looks.RED if is_narrow(link) else looks.GREY
        lines = _label_lines(pcie_words(link))
        y = start + 18 if is_down else start - 13 - 12 * (len(lines) - 1)
        for line in lines:
            word = Word(text=line, size=_SMALL, colour=colour, is_bold=is_narrow(link))
            self._drawing.label(x, y, word)
            y += 12

    def _beside_wire(self, spot: Spot, beside: CpuLink) -> None:
        """The link to a CPU goes to its bar, or behind the switches on the way to it."""
        if spot.above is None:
            return
        start, end = _edges(spot.above, spot.rect)
        x = spot.rect.x + _C2C_IN
        width = max(2.5, looks.wire_width(beside.bandwidth_bytes_per_s))
        stroke = Stroke(colour=looks.link_colour(beside.kind), width=width)
        self._drawing.wire(path((x, start), (x, end)), stroke)

    def _box(self, spot: Spot, look: Look, words: Sequence[Word], about: Sequence[str]) -> None:
        text = " · ".join(part for part in about if part)
        self._drawing.box(spot.kind, spot.rect, look, words, about=text)

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


def beside_words(link: CpuLink) -> str:
    """`NVLink-C2C to the CPU, 450 GB/s`."""
    rate = link.bandwidth_bytes_per_s
    return f"{link.kind} to the CPU" + ("" if rate is None else f", {byte_rate(rate)}")


def _nic_texts(nics: Sequence[Nic]) -> list[str]:
    first = nics[0]
    texts = [visible(first.state, 10)] if first.state is not None and is_down(first) else []
    if len(nics) > 1:
        texts.append(f"{len(nics)} VFs" if first.is_virtual else f"{len(nics)} alike")
    rate = nic_rate(first)
    if len(nics) > 1 and first.rate_bytes_per_s is not None:
        rate = bit_rate(first.rate_bytes_per_s)
    texts += [rate] if first.kind is not None or first.rate_bytes_per_s is not None else []
    texts += [role_words(first.role)] if first.role is not None and is_storage(first) else []
    return texts


def _nic_words(spot: Spot, texts: Sequence[str]) -> list[Word]:
    """The name and what is told below it; where that is too long, its end stands by the name."""
    name = names_shown([nic.name for nic in spot.nics], most=1)
    below, room = " · ".join(texts), spot.rect.w - _EDGES
    if text_width(below, _SMALL) > room and len(texts) > 1:
        beside = f"{name} · {texts[-1]}"
        if text_width(beside, _NAME) <= room:
            name, below = beside, " · ".join(texts[:-1])
    words = [Word(text=name, size=_NAME, is_bold=True)]
    return words + ([Word(text=below, size=_SMALL)] if below else [])


def _unlike_texts(nic: Nic, link: PcieLink | None) -> list[str]:
    """For NICs whose stack has links of several kinds: the link is told before the NIC's kind."""
    rate = nic.rate_bytes_per_s
    state = [visible(nic.state, 10)] if nic.state is not None and is_down(nic) else []
    return [
        *state,
        *([] if is_narrow(link) or rate is None else [bit_rate(rate)]),
        pcie_words(link),
    ]


def _middle(text: str, size: float, *, is_bold: bool = False) -> Word:
    return Word(text=text, size=size, is_bold=is_bold, anchor="middle")


def _edges(above: Rect, rect: Rect) -> tuple[float, float]:
    """Where a wire leaves a bar and where it meets a box: on the sides that face each other."""
    if above.y < rect.y:
        return above.bottom, rect.y
    return above.y, rect.bottom


def _label_lines(text: str) -> list[str]:
    if len(text) <= _SPLIT_FROM:
        return [text] if text else []
    head, _, rest = text.partition(" (")
    if rest:
        return [head, f"({rest}"]
    head, _, rest = text.partition(" of ")
    return [head, f"of {rest}"] if rest else [text]
