"""The devices of a node as a tree of lines: NUMA nodes, PCIe switches, GPUs, NICs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from hpckit.model.hardware import Accelerator, Gpu, LinkKind, Nic, NodeTopology
from hpckit.model.nic_state import is_down
from hpckit.model.node_links import GpuReach, gpu_reach
from hpckit.model.node_paths import Nearest, nearest_nics
from hpckit.model.node_places import Branch, Place, places
from hpckit.model.node_title import gpu_kind, place_cpus, place_title
from hpckit.model.node_words import (
    cpus_shown,
    figure,
    memory,
    names_within,
    nic_rate,
    numbers_shown,
    role_words,
    slot_name,
    visible,
)
from hpckit.model.path import PathKind
from hpckit.model.text_width import columns
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.node_pcie import PcieWays

_WIDEST_CELL: Final = 30
_CLOSE: Final = frozenset({PathKind.C2C, PathKind.PIX, PathKind.PXB, PathKind.PHB})
_MANY_PLACES: Final = 4
_MOST_PLACES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A device's cells; those of one `form` share their columns."""

    form: str
    cells: tuple[str, ...]
    style: Style = Style.PLAIN


class _Facts:
    """What rows look up about a node."""

    def __init__(self, topology: NodeTopology) -> None:
        self.ways = PcieWays(topology)
        self.reach = gpu_reach(topology)
        self.nearest = nearest_nics(topology)
        self.gpu_name = _common(gpu_kind(gpu) for gpu in topology.gpus if not gpu.is_hidden)
        self.beside_cpu = {link.gpu_index: link.kind for link in topology.cpu_links}


def _common(texts: Iterable[str]) -> str | None:
    found = set(texts)
    return found.pop() if len(found) == 1 else None


def tree_lines(topology: NodeTopology, width: int) -> list[Line]:
    """The tree; each line fits `width` columns, and devices that are alike share one."""
    facts = _Facts(topology)
    rows: list[tuple[str, str, _Row]] = []
    for place in _with_empty_folded(places(topology)):
        rows.append(("", "", _head(place, _empty_words(topology))))
        if not isinstance(place, str):
            _walk(place.root, place, "", facts, rows)
    return _aligned(rows, width)


def _with_empty_folded(found: Sequence[Place]) -> list[Place | str]:
    """Of many NUMA nodes, those without devices share a line, where some have any."""
    empty = [f"NUMA {one.numa_index}" for one in found if not one.root.devices()]
    shown: list[Place | str] = [one for one in found if one.root.devices()]
    if len(found) <= (_MANY_PLACES if shown else _MOST_PLACES):
        return list(found)
    if not shown:
        return [f"{numbers_shown(empty)} · devices not known"]
    return [*shown, f"{numbers_shown(empty)} · no devices"] if empty else shown


def _empty_words(topology: NodeTopology) -> tuple[str, ...]:
    """What is said of a place without devices: nothing if no place is known to have some."""
    told = topology.pci or topology.gpus or topology.nics or topology.accelerators
    return ("· no devices",) if told else ()


def _head(place: Place | str, empty: tuple[str, ...]) -> _Row:
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
        if isinstance(part, Branch):
            rows.append((first, further, _switch_row(part, facts)))
            facts.ways.tell(part)
            _walk(part, place, further, facts, rows)
        else:
            rows.append((first, further, part))


def _switch_row(branch: Branch, facts: _Facts) -> _Row:
    if branch.bridge is None:
        return _Row(form="switch", cells=("switch", "(from the matrix)"))
    words, is_odd = facts.ways.of_switch(branch)
    return _Row(
        form="switch",
        cells=(f"switch {slot_name(branch.bridge.address)}", words),
        style=Style.WARNING if is_odd else Style.PLAIN,
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
        name = numbers_shown(f"GPU{figure(gpu.index)}" for gpu in same)
        one = f"partition {same[0].partition}" if same[0].partition is not None else None
        shown = replace(same[0], partition=one if len(same) == 1 else _partitions(same))
        cells = (name, *_gpu_cells(shown, place, facts))
        is_odd = facts.ways.of_device(same[0].pci)[1] or same[0].is_hidden
        rows.append(_Row(form="gpu", cells=cells, style=Style.WARNING if is_odd else Style.PLAIN))
    return rows


def _partitions(gpus: Sequence[Gpu]) -> str:
    kind = _common(gpu.partition or "" for gpu in gpus)
    return f"{len(gpus)} partitions" + (f" {kind}" if kind else "")


def _gpu_cells(gpu: Gpu, place: Place, facts: _Facts) -> tuple[str, ...]:
    if gpu.is_hidden:
        return ("hidden here", facts.ways.of_device(gpu.pci)[0], "", "")
    nearest = facts.nearest.get(gpu.index)
    return (
        _links_cell(gpu, facts),
        facts.ways.of_device(gpu.pci)[0],
        "" if nearest is None else _nearest_cell(nearest),
        " · ".join(_remarks(gpu, place, facts)),
    )


def _links_cell(gpu: Gpu, facts: _Facts) -> str:
    reach = facts.reach.get(gpu.index, ())
    parts = [_reach_words(one) for one in reach]
    if reach and reach[0].is_all:  # what follows are exceptions from it
        parts = [", ".join(parts)]
    active = sum(bool(link.is_active) for link in gpu.nvlinks or ())
    if not parts and active:
        parts.append(f"{active} NVLinks")
    beside = facts.beside_cpu.get(gpu.index)
    if beside is not None:
        parts.append("C2C to CPU" if beside is LinkKind.C2C else f"{beside} to CPU")
    return " · ".join(parts)


def _reach_words(reach: GpuReach) -> str:
    peers = "all" if reach.is_all else numbers_shown(f"GPU{figure(gpu)}" for gpu in reach.gpus)
    if not reach.is_direct:
        return f"over other GPUs to {peers}"
    count = "" if reach.count is None else figure(reach.count)
    if reach.kind is LinkKind.NVLINK:
        name = f"NV{count}"
    else:
        name = str(reach.kind) + (f"×{count}" if reach.count not in {None, 1} else "")
    return f"{name} to {peers}"


def _nearest_cell(nearest: Nearest) -> str:
    if nearest.kind not in _CLOSE:
        if not nearest.is_certain:
            return "nearest NIC not known"
        return f"no close NIC ({nearest.kind})"
    room = _WIDEST_CELL - columns(f"↔  {nearest.kind}")
    return f"↔ {names_within([nic.name for nic in nearest.nics], room)} {nearest.kind}"


def _remarks(gpu: Gpu, place: Place, facts: _Facts) -> list[str]:
    remarks = []
    if facts.gpu_name is None:
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
    link, is_odd = facts.ways.of_device(one.pci)
    return _Row(
        form="accelerator",
        cells=(visible(one.name, 28), slot, link, driver),
        style=Style.WARNING if is_odd else Style.PLAIN,
    )


def _nic_rows(nics: Sequence[Nic], facts: _Facts) -> list[_Row]:
    """A line for NICs of one branch that are alike."""
    groups: dict[tuple[str, ...], list[Nic]] = {}
    for nic in nics:
        groups.setdefault(_nic_cells(nic, facts), []).append(nic)
    rows = []
    for cells, alike in groups.items():
        count = f" ({len(alike)} VFs)" if alike[0].is_virtual else f" ({len(alike)})"
        count = count if len(alike) > 1 else ""
        names = names_within([nic.name for nic in alike], _WIDEST_CELL - len(count)) + count
        is_odd = is_down(alike[0]) or facts.ways.of_device(alike[0].pci)[1]
        style = Style.WARNING if is_odd else Style.PLAIN
        rows.append(_Row(form="nic", cells=(names, *cells), style=style))
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
        facts.ways.of_device(nic.pci)[0],
        " · ".join(remarks),
    )


def _aligned(rows: Sequence[tuple[str, str, _Row]], width: int) -> list[Line]:
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
