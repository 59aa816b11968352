"""The devices of a node as a tree of lines: NUMA nodes, PCIe switches, GPUs, NICs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import Final

from hpckit.core.errors import PlanError
from hpckit.core.finding_lines import labelled
from hpckit.core.text import (
    Line,
    Style,
    columns,
    figure,
    names_within,
    numbers_shown,
    visible,
    wrapped,
)
from hpckit.core.values import dataclass
from hpckit.node.links import GpuReach, Nearest, gpu_reach, nearest_nics
from hpckit.node.path import NcclPath, PathKind, path_kind
from hpckit.node.pci import PciAddress, PcieLink
from hpckit.node.places import Branch, Place, places
from hpckit.node.rules.rule import gpu_name
from hpckit.node.title import gpu_kind, place_cpus, place_title
from hpckit.node.topology import Accelerator, Gpu, LinkKind, Nic, NodeTopology, is_down
from hpckit.node.words import (
    cpus_shown,
    is_narrow,
    memory,
    nic_rate,
    pcie_bytes_per_s,
    pcie_words,
    role_words,
    slot_name,
)

_UNKNOWN: Final = "N/A"
_SELF: Final = {"X": " X"}
_SYMBOL: Final = {PathKind.NV: "NV#"}

_AFFINITIES: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NARROWEST: Final = 6

_MEANING: Final = {
    PathKind.SELF: "the device itself",
    PathKind.NV: "# NVLinks to the other GPU, or to the switch between them",
    PathKind.XGMI: "Infinity Fabric links to the other GPU",
    PathKind.C2C: "NVLink-C2C between GPU and CPU",
    PathKind.PIX: "at most one PCIe switch",
    PathKind.PXB: "several PCIe switches, but not the host bridge",
    PathKind.PHB: "the PCIe host bridge of a CPU",
    PathKind.NODE: "two PCIe host bridges of one NUMA node",
    PathKind.SYS: "the link between two NUMA nodes, such as UPI or Infinity Fabric",
}

_NCCL_MEANING: Final = {
    NcclPath.LOC: "the device itself",
    NcclPath.NVL: "NVLink, directly or through a switch",
    NcclPath.NVB: "NVLink through another GPU",
    NcclPath.C2C: "a chip-to-chip link between GPU and CPU",
    NcclPath.PIX: "at most one PCIe switch",
    NcclPath.PXB: "several PCIe switches, but not the host bridge",
    NcclPath.P2C: "the chip-to-chip link, then PCIe of the same CPU",
    NcclPath.PXN: "through another GPU that is nearer to the NIC",
    NcclPath.PHB: "within one CPU, also between host bridges of one NUMA node",
    NcclPath.SYS: "the link between two CPUs",
}


def matrix_text(topology: NodeTopology, *, nccl: bool = False) -> str:
    """The matrix of a node's devices, what its words mean, and the names behind NIC0, NIC1 and on.

    Columns are parted by spaces, and what is not known is N/A. With `nccl` the words are NCCL's.
    Raises PlanError where the topology has no such table.
    """
    table = topology.paths
    if table is None or (nccl and not table.nccl):
        raise _no_table(topology, "one with NCCL's paths" if nccl else "one with them")
    cells = table.nccl if nccl else table.cells
    gpus = {f"GPU{gpu.index}": gpu for gpu in topology.gpus}
    rows = [("", *map(_shown, table.devices), *_AFFINITIES)]
    for device, row in zip(table.devices, cells, strict=True):
        words = (_UNKNOWN if cell is None else _SELF.get(cell, cell) for cell in row)
        rows.append((_shown(device), *words, *_affinities(gpus.get(device))))
    blocks = [_aligned(rows), ["Legend:", "", *_meanings(cells, nccl=nccl)]]
    listed = frozenset(table.devices)
    names = [
        f"  {_shown(nic.label)}: {_shown(nic.name)}"
        for nic in topology.nics
        if nic.label is not None and nic.label in listed
    ]
    if names:
        blocks.append(["NIC Legend:", "", *names])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _no_table(topology: NodeTopology, need: str) -> PlanError:
    what = "no path matrix"
    if topology.source.is_live and not topology.gpus:
        have = "none of its devices on this machine"
        return PlanError(what, have=have, need="a GPU or an RDMA NIC")
    hint = "inspect the node itself, or a capture with its PCI tree or its matrix"
    have = "a topology without the paths between its devices"
    return PlanError(what, have=have, need=need, hint=hint)


def _shown(name: str) -> str:
    return visible(name, 256)


def _affinities(gpu: Gpu | None) -> tuple[str, ...]:
    if gpu is None:
        return ()
    numa = gpu.memory_numa or gpu.numa_index
    return tuple(
        _UNKNOWN if value is None else str(value)
        for value in (gpu.cpus or None, numa, gpu.own_numa_index)
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    cells = zip_longest(*rows, fillvalue="")
    widths = [max(_NARROWEST, *map(len, column)) for column in cells]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _meanings(cells: Iterable[Iterable[str | None]], *, nccl: bool) -> list[str]:
    used = {cell for row in cells for cell in row}
    if nccl:
        words = [(str(path), _NCCL_MEANING[path]) for path in NcclPath if path in used]
    else:
        kinds = {path_kind(cell) for cell in used if cell is not None}
        words = [
            (_SYMBOL.get(kind, str(kind)), _MEANING[kind]) for kind in PathKind if kind in kinds
        ]
    if None in used:
        words.append((_UNKNOWN, "unknown"))
    return [f"  {word:<4} = {meaning}" for word, meaning in words]


_SLOW: Final = "(slowest hop; idle links slow down)"
_NARROW: Final = "(narrowest hop)"


class PcieWays:
    """The links of a node's PCI devices; what a switch's line has said is not said again."""

    def __init__(self, topology: NodeTopology) -> None:
        self._own = {one.address: one.link or one.effective for one in topology.pci}
        self._whole = {one.address: one.effective or one.link for one in topology.pci}
        self._told: dict[PciAddress, PcieLink | None] = {}

    def tell(self, branch: Branch) -> None:
        """Take what is slow on the way up to a switch as said, for all that is below it."""
        if branch.bridge is not None:
            link = self._whole.get(branch.bridge.address)
            self._told.update(dict.fromkeys(_below(branch), link))

    def of_switch(self, branch: Branch) -> tuple[str, bool]:
        """The words for the link above a switch, and if it is narrow.

        Where one on its way up is slower than it, or than a device below, it is the slowest.
        """
        if branch.bridge is None:
            return "", False
        address = branch.bridge.address
        own, whole, told = (of.get(address) for of in (self._own, self._whole, self._told))
        below = [self._own.get(one) for one in _below(branch)]
        faster = [link for link in (own, *below) if _is_slower(whole, link)]
        if whole is None or not faster or (told is not None and not _is_slower(whole, told)):
            return _marked(own)
        words, is_odd = _marked(whole)
        is_less_wide = any((whole.width or 0) < (link.width or 0) for link in faster if link)
        return f"{words} {_NARROW if is_less_wide else _SLOW}", is_odd

    def own(self, address: PciAddress | None) -> PcieLink | None:
        """The link of a device itself."""
        return None if address is None else self._own.get(address)

    def of_device(self, address: PciAddress | None) -> tuple[str, bool]:
        """The words for the link of a device, and whether it is narrow.

        What is slower above it is told where no line of a switch above does.
        """
        if address is None:
            return "", False
        own, whole, told = (of.get(address) for of in (self._own, self._whole, self._told))
        words, is_odd = _marked(own)
        if not _is_slower(whole, own) or (told is not None and not _is_slower(whole, told)):
            return words, is_odd
        above, is_narrow_above = _marked(whole)
        return f"{words}, upstream {above}", is_odd or is_narrow_above


def _below(branch: Branch) -> list[PciAddress]:
    found = [end.pci for end in branch.ends if end.pci is not None]
    for below in branch.branches:
        found += [] if below.bridge is None else [below.bridge.address]
        found += _below(below)
    return found


def _marked(link: PcieLink | None) -> tuple[str, bool]:
    return pcie_words(link) + (" NARROW" if is_narrow(link) else ""), is_narrow(link)


def _is_slower(one: PcieLink | None, other: PcieLink | None) -> bool:
    rates = pcie_bytes_per_s(one), pcie_bytes_per_s(other)
    return rates[0] is not None and rates[1] is not None and rates[0] < rates[1]


_WIDEST_CELL: Final = 30
_NEAREST_ROOM: Final = _WIDEST_CELL - len("↔  PIX")
_MOST_LINKS_SHOWN: Final = 3
_CLOSE: Final = frozenset({PathKind.C2C, PathKind.PIX, PathKind.PXB, PathKind.PHB})
_MANY_PLACES: Final = 4
_MOST_PLACES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    form: str
    cells: tuple[str, ...]
    style: Style = Style.PLAIN


def _row(form: str, cells: tuple[str, ...], is_odd: bool | None) -> _Row:
    return _Row(form=form, cells=cells, style=Style.WARNING if is_odd else Style.PLAIN)


class _Facts:
    """What the rows are made of; `usual_reach` and `usual_pcie` are said above the tree, once."""

    def __init__(self, topology: NodeTopology) -> None:
        self.ways = PcieWays(topology)
        self.reach = gpu_reach(topology)
        self.nearest = nearest_nics(topology)
        shown = [gpu for gpu in topology.gpus if not gpu.is_hidden]
        self.has_one_kind = len(set(map(gpu_kind, shown))) == 1
        self.beside_cpu = {link.gpu_index: link.kind for link in topology.cpu_links}
        firsts = [next(iter(self.reach.get(gpu.index, ())), None) for gpu in shown]
        ways = [None if one is None or not one.is_all else _reach_words(one) for one in firsts]
        self.usual_reach = _usual(ways)
        self.exceptions = {gpu.index for gpu, way in zip(shown, ways, strict=True)
                           if way != self.usual_reach}  # fmt: skip
        devices = (topology.gpus, topology.accelerators, topology.nics)
        links = (self.ways.own(one.pci) for kind in devices for one in kind)
        self.usual_pcie = _usual([_marked(link)[0] for link in links])

    def pcie(self, address: PciAddress | None) -> str:
        """The words for the link of a device; none for the usual one."""
        words = self.ways.of_device(address)[0]
        return "" if words == self.usual_pcie else words

    def links_line(self, width: int) -> list[Line]:
        """What most links of the node are, where the tree shows the others alone."""
        parts = [f"GPUs {self.usual_reach}" if self.usual_reach else ""]
        parts += [f"PCIe {self.usual_pcie}" if self.usual_pcie else ""]
        parts = [part for part in parts if part]
        if not parts:
            return []
        words = (" · ".join(parts) + ", unless shown otherwise").split(" ")
        return labelled("links", tuple(words), width, Style.PLAIN)


def _usual(words: Sequence[str | None]) -> str:
    """The words of more than half of all, where there are three and more and all are known."""
    if len(words) < _MOST_LINKS_SHOWN or not all(words):
        return ""
    word, count = Counter(words).most_common(1)[0]
    return word if word and 2 * count > len(words) and "NARROW" not in word else ""


def tree_lines(topology: NodeTopology, width: int) -> list[Line]:
    """The tree; each line fits `width` columns, and devices that are alike share one."""
    facts = _Facts(topology)
    # Nothing is said of a place without devices where no place is known to have some.
    is_told = bool(topology.pci or topology.gpus or topology.nics or topology.accelerators)
    rows: list[tuple[str, str, _Row]] = []
    for place in _with_empty_folded(places(topology)):
        rows.append(("", "", _head(place, ["· no devices"] * is_told)))
        if not isinstance(place, str):
            _walk(place.root, place, "", facts, rows)
    return [*facts.links_line(width), *_aligned_rows(rows, width)]


def _with_empty_folded(found: Sequence[Place]) -> list[Place | str]:
    """Of many NUMA nodes, those without devices share a line, where some have any."""
    empty = [f"NUMA {one.numa_index}" for one in found if not one.root.devices()]
    shown: list[Place | str] = [one for one in found if one.root.devices()]
    if len(found) <= (_MANY_PLACES if shown else _MOST_PLACES):
        return list(found)
    if not shown:
        return [f"{numbers_shown(empty)} · devices unknown"]
    return [*shown, f"{numbers_shown(empty)} · no devices"] if empty else shown


def _head(place: Place | str, empty: list[str]) -> _Row:
    if isinstance(place, str):
        return _Row(form="head", cells=(place,), style=Style.TITLE)
    cells = [place_title(place)]
    cpus = place_cpus(place)
    if cpus:
        cells.append(f"· CPUs {cpus_shown(cpus, 40)}")
    if place.numa is not None and place.numa.memory_bytes is not None:
        cells.append(f"· {memory(place.numa.memory_bytes)}")
    cells += [] if place.root.devices() else empty
    return _Row(form="head", cells=tuple(cells), style=Style.TITLE)


def _walk(
    branch: Branch, place: Place, stem: str, facts: _Facts, rows: list[tuple[str, str, _Row]]
) -> None:
    parts: list[_Row | Branch] = [
        *branch.branches,
        *_gpu_rows(branch.gpus, place, facts),
        *(_accelerator_row(one, facts) for one in branch.accelerators),
        *_nic_rows(branch.nics, facts),
    ]
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        first, further = stem + ("└─ " if is_last else "├─ "), stem + ("   " if is_last else "│  ")
        row = _shared_row(part, place, facts) if isinstance(part, Branch) else part
        if row is not None:
            rows.append((first, further, row))
        elif isinstance(part, Branch):
            rows.append((first, further, _switch_row(part, facts)))
            facts.ways.tell(part)
            _walk(part, place, further, facts, rows)


def _switch_row(branch: Branch, facts: _Facts) -> _Row:
    if branch.bridge is None:
        return _Row(form="switch", cells=("switch", "(from the matrix)"))
    words, is_odd = facts.ways.of_switch(branch)
    words = "" if words == facts.usual_pcie else words
    return _row("switch", (f"switch {slot_name(branch.bridge.address)}", words), is_odd)


def _shared_row(branch: Branch, place: Place, facts: _Facts) -> _Row | None:
    """The line that a switch shares with its GPUs and their NICs, where nothing is unusual."""
    nics, gpus = _nic_rows(branch.nics, facts), _gpu_rows(branch.gpus, place, facts)
    if branch.branches or branch.accelerators or len(nics) != 1:
        return None
    if len({row.cells[1:] for row in gpus}) != 1:
        return None
    switch = _switch_row(branch, facts)
    _, links, pcie, nearest, remarks = gpus[0].cells
    names, rate, state, nic_pcie, nic_remarks = nics[0].cells
    closest = f"↔ {names_within([nic.name for nic in branch.nics], _NEAREST_ROOM)} {PathKind.PIX}"
    is_plain = not any((switch.cells[1], pcie, nic_pcie, nic_remarks)) and state in {"", "ACTIVE"}
    is_warned = any(row.style is not Style.PLAIN for row in (switch, *nics, *gpus))
    if not is_plain or is_warned or nearest != closest:
        return None
    gpu_names = numbers_shown(gpu_name(gpu.index) for gpu in branch.gpus)
    return _Row(
        form="shared", cells=(switch.cells[0], gpu_names, links, f"↔ {names}", rate, remarks)
    )


def _gpu_rows(gpus: Sequence[Gpu], place: Place, facts: _Facts) -> list[_Row]:
    """A line a GPU; partitions of one share it where nothing but their number differs."""

    def alike(gpu: Gpu) -> tuple[object, ...]:
        if gpu.pci is None or not gpu.partition:
            return (gpu.index,)
        return (gpu.pci, _gpu_cells(replace(gpu, partition=None), place, facts))

    rows = []
    for _, group in groupby(gpus, key=alike):
        same = tuple(group)
        name = numbers_shown(gpu_name(gpu.index) for gpu in same)
        kinds = {gpu.partition or "" for gpu in same}
        part = None if same[0].partition is None else f"partition {same[0].partition}"
        if len(same) > 1:
            part = f"{len(same)} partitions {kinds.pop() if len(kinds) == 1 else ''}".rstrip()
        shown = replace(same[0], partition=part)
        cells = (name, *_gpu_cells(shown, place, facts))
        is_odd = facts.ways.of_device(same[0].pci)[1] or same[0].is_hidden
        rows.append(_row("gpu", cells, is_odd))
    return rows


def _gpu_cells(gpu: Gpu, place: Place, facts: _Facts) -> tuple[str, ...]:
    if gpu.is_hidden:
        return ("hidden here", facts.pcie(gpu.pci), "", "")
    nearest = facts.nearest.get(gpu.index)
    return (
        _links_cell(gpu, facts),
        facts.pcie(gpu.pci),
        "" if nearest is None else _nearest_cell(nearest),
        " · ".join(_remarks(gpu, place, facts)),
    )


def _links_cell(gpu: Gpu, facts: _Facts) -> str:
    reach = facts.reach.get(gpu.index, ())
    if gpu.index not in facts.exceptions:  # nor what joins it to these, which they say
        reach = tuple(one for one in reach[1:] if not facts.exceptions.issuperset(one.gpus))
    parts = [_reach_words(one) for one in reach]
    if reach and reach[0].is_all:  # what follows are exceptions from it
        parts = [", ".join(parts)]
    active = sum(bool(link.is_active) for link in gpu.nvlinks or ())
    if not facts.reach.get(gpu.index) and active:
        parts.append(f"{active} NVLinks")
    beside = facts.beside_cpu.get(gpu.index)
    if beside is not None:
        parts.append("C2C to CPU" if beside is LinkKind.C2C else f"{beside} to CPU")
    return " · ".join(parts)


def _reach_words(reach: GpuReach) -> str:
    peers = "all" if reach.is_all else numbers_shown(map(gpu_name, reach.gpus))
    if not reach.is_direct:
        return f"via other GPUs to {peers}"
    count = "" if reach.count is None else figure(reach.count)
    if reach.kind is LinkKind.NVLINK:
        name = f"NV{count}"
    else:
        name = str(reach.kind) + (f"×{count}" if reach.count not in {None, 1} else "")
    return f"{name} to {peers}"


def _nearest_cell(nearest: Nearest) -> str:
    if nearest.kind not in _CLOSE:
        far = f"no close NIC ({nearest.kind})"
        return far if nearest.is_certain else "nearest NIC unknown"
    return f"↔ {names_within([nic.name for nic in nearest.nics], _NEAREST_ROOM)} {nearest.kind}"


def _remarks(gpu: Gpu, place: Place, facts: _Facts) -> list[str]:
    remarks = []
    if not facts.has_one_kind:
        remarks.append(gpu_kind(gpu))
    if gpu.partition is not None:
        remarks.append(visible(gpu.partition, 20))
    if gpu.is_mig:
        count = "" if gpu.mig_devices is None else f" ({figure(gpu.mig_devices)})"
        remarks.append(f"MIG{count}")
    if gpu.own_numa_index is not None:
        remarks.append(f"memory NUMA {figure(gpu.own_numa_index)}")
    if gpu.cpus and gpu.cpus != place_cpus(place):
        remarks.append(f"CPUs {cpus_shown(gpu.cpus)}")
    return remarks


def _accelerator_row(one: Accelerator, facts: _Facts) -> _Row:
    slot = "" if one.pci is None else slot_name(one.pci)
    driver = "" if one.driver is None else f"driver {visible(one.driver, 16)}"
    is_odd = facts.ways.of_device(one.pci)[1]
    return _row("accelerator", (visible(one.name, 28), slot, facts.pcie(one.pci), driver), is_odd)


def _nic_rows(nics: Sequence[Nic], facts: _Facts) -> list[_Row]:
    groups: dict[tuple[str, ...], list[Nic]] = {}
    for nic in nics:
        groups.setdefault(_nic_cells(nic, facts), []).append(nic)
    rows = []
    for cells, alike in groups.items():
        count = f" ({len(alike)} VFs)" if alike[0].is_virtual else f" ({len(alike)})"
        count = count if len(alike) > 1 else ""
        names = names_within([nic.name for nic in alike], _WIDEST_CELL - len(count)) + count
        is_odd = is_down(alike[0]) or facts.ways.of_device(alike[0].pci)[1]
        rows.append(_row("nic", (names, *cells), is_odd))
    return rows


def _nic_cells(nic: Nic, facts: _Facts) -> tuple[str, ...]:
    remarks = []
    if nic.role is not None and nic.role != "compute":
        remarks.append(role_words(nic.role))
    if nic.bond is not None and nic.bond != nic.name:
        remarks.append(f"in {visible(nic.bond, 16)}")
    if nic.is_virtual:
        remarks.append("VF" if nic.physfn is None else f"VF of {slot_name(nic.physfn)}")
    is_bare = nic.kind is None and nic.rate_bytes_per_s is None
    return (
        "" if is_bare else nic_rate(nic),
        "" if nic.state is None else visible(nic.state, 12),
        facts.pcie(nic.pci),
        " · ".join(remarks),
    )


def _aligned_rows(rows: Sequence[tuple[str, str, _Row]], width: int) -> list[Line]:
    widths = _widths(rows)
    lines = []
    for first, further, row in rows:
        if row.form == "head":
            texts = wrapped(row.cells, width, further="  ")
        else:
            padded = tuple(
                cell + " " * (widths[row.form, at] - columns(cell))
                for at, cell in enumerate(_without_end(row.cells))
                if widths[row.form, at]
            )
            texts = wrapped(padded, width, first=first, further=further + "       ", between="  ")
        lines += [Line(text=text, style=row.style) for text in texts]
    return lines


def _without_end(cells: tuple[str, ...]) -> tuple[str, ...]:
    """The cells without the empty ones at their end, whose blanks would be a line of their own."""
    held = max((at for at, cell in enumerate(cells) if cell), default=-1)
    return cells[: held + 1]


def _widths(rows: Iterable[tuple[str, str, _Row]]) -> dict[tuple[str, int], int]:
    widths: dict[tuple[str, int], int] = {}
    for _, _, row in rows:
        for at, cell in enumerate(row.cells):
            held = min(columns(cell), _WIDEST_CELL)
            widths[row.form, at] = max(widths.get((row.form, at), 0), held)
    return widths
