"""`nvidia-smi topo -m`: what lies between the GPUs and NICs of a node, and the CPUs beside them.

Sources: nvidia-smi(1), "TOPOLOGY"; the legend that it prints; nvml.h, nvmlGpuTopologyLevel_t.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpckit.model.hardware import (
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    Nic,
    NodeTopology,
    Source,
    Unknown,
)
from hpckit.model.index_list import expand_indices
from hpckit.model.path import PathTable, link_count
from hpckit.parse.excerpt import refuse_text
from hpckit.parse.nvidia_topo_place import find_places
from hpckit.parse.nvidia_topo_row import TOOL, Affinity
from hpckit.parse.nvidia_topo_table import TopoTable, read_table
from hpckit.parse.nvidia_topo_text import plain_lines

TOPO_MATRIX_FORMAT: Final = TOOL

_NOT_PRINTED: Final = "nvidia-smi topo -m does not print it"


def is_topo_matrix(text: str) -> bool:
    """Whether a text holds a matrix of `nvidia-smi topo -m`, whole or not."""
    return "GPU" in text and bool(find_places(plain_lines(text)))


def parse_topo_matrix(text: str) -> tuple[NodeTopology, ...]:
    """The nodes whose matrices a text holds, one each, at least one, in the order of the text.

    What is around them is not read. What a paste has plainly lost is in `unknown`. Raises
    ParseError where there is no matrix, and for a row or cell that cannot be read.
    """
    lines = plain_lines(text)
    places = find_places(lines)
    if not places:
        expected = "the matrix of nvidia-smi topo -m, whose header begins with GPU0"
        raise refuse_text("there is no matrix", tool=TOOL, lines=lines, expected=expected)
    ends = [place.head.line_no - 1 for place in places[1:]] + [len(lines)]
    return tuple(
        _topology(read_table(lines, place, end)) for place, end in zip(places, ends, strict=True)
    )


def _topology(table: TopoTable) -> NodeTopology:
    gpus = tuple(_gpu(name, table) for name in table.devices if _is_gpu(name))
    nics = _nics(table)
    paths = PathTable(devices=table.devices, cells=_cells(table), is_recorded=True)
    links = _gpu_links(paths)
    return NodeTopology(
        source=Source(format=TOPO_MATRIX_FORMAT),
        gpus=gpus,
        gpu_links=links,
        nics=nics,
        paths=paths,
        unknown=(
            *_not_printed(bool(links), bool(nics)),
            *_lost_cells(table),
            *_lost_affinities(table),
            *_lost_names(table),
        ),
    )


def _is_gpu(name: str) -> bool:
    return name.startswith("GPU") and name[3:].isdecimal()


def _gpu(name: str, table: TopoTable) -> Gpu:
    row = table.rows.get(name)
    affinity = row.affinity if row else Affinity()
    return Gpu(
        index=int(name[3:]),
        vendor=GpuVendor.NVIDIA,
        numa_index=expand_indices(affinity.numa)[0] if affinity.numa else None,
        own_numa_index=affinity.own_numa,
        cpus=affinity.cpus,
        memory_numa=affinity.numa,
    )


def _nics(table: TopoTable) -> tuple[Nic, ...]:
    names = [name for name in table.devices if not _is_gpu(name)]
    are_labels = all(name.startswith("NIC") and name[3:].isdecimal() for name in names)
    return tuple(
        Nic(
            index=int(name[3:]) if are_labels else at,
            name=table.legend.names.get(name, name),
            label=name if name in table.legend.names else None,
        )
        for at, name in enumerate(names)
    )


def _cells(table: TopoTable) -> tuple[tuple[str | None, ...], ...]:
    nothing: tuple[str | None, ...] = (None,) * len(table.devices)
    rows = (table.rows.get(name) for name in table.devices)
    return tuple(nothing if row is None else row.cells + nothing[len(row.cells) :] for row in rows)


def _gpu_links(paths: PathTable) -> tuple[GpuLink, ...]:
    gpus = sorted((int(name[3:]), at) for at, name in enumerate(paths.devices) if _is_gpu(name))
    links = []
    for first, (a, row) in enumerate(gpus):
        for b, column in gpus[first + 1 :]:
            seen = [c for c in (paths.cells[row][column], paths.cells[column][row]) if c]
            counts = [link_count(cell) or 0 for cell in seen]
            count = min(counts, default=0)
            if count:
                links.append(GpuLink(a=a, b=b, kind=LinkKind.NVLINK, count=count))
    return tuple(links)


def _not_printed(has_links: bool, has_nics: bool) -> Iterable[Unknown]:
    for what in ("name", "pci", "uuid", "memory_bytes"):
        yield Unknown(subject="GPUs", what=what, because=_NOT_PRINTED)
    if has_nics:
        for what in ("pci", "state", "rate_bytes_per_s"):
            yield Unknown(subject="NICs", what=what, because=_NOT_PRINTED)
    if has_links:
        because = "nvidia-smi topo -m counts links and does not say of which generation they are"
        yield Unknown(subject="NVLinks", what="bandwidth_bytes_per_s", because=because)
        because = "NV# is the same for links between two GPUs and for links to a switch"
        yield Unknown(subject="NVLinks", what="is_switched", because=because)


def _lost_cells(table: TopoTable) -> Iterable[Unknown]:
    if table.header.columns == 0:
        because = "the text has lost the end of the header, so there may be more than these"
        yield Unknown(subject="paths", what="devices", because=because)
    for name in table.devices:
        row = table.rows.get(name)
        count = len(row.cells) if row else 0
        if row is None:
            yield Unknown(subject=name, what="paths", because="the text does not have its row")
        elif count < len(table.devices):
            because = f"the text ends its row after {count} of {len(table.devices)} cells"
            yield Unknown(subject=name, what="paths", because=because)


def _lost_affinities(table: TopoTable) -> Iterable[Unknown]:
    gpus = [name for name in table.devices if _is_gpu(name)]
    for what, why in (("cpus", _why_no_cpus), ("numa_index", _why_no_numa)):
        reasons = {name: why(table, name) for name in gpus}
        if len(set(reasons.values())) == 1:
            reasons = {"GPUs": reasons[gpus[0]]}
        for name, because in reasons.items():
            if because:
                yield Unknown(subject=name, what=what, because=because)


def _why_no_cpus(table: TopoTable, name: str) -> str | None:
    affinity = _affinity_of(table, name)
    if affinity.is_partial:
        return "nvidia-smi topo -m prints six runs of CPUs at most, so there may be more than these"
    if affinity.cpus is not None:
        return None
    return _why_lost(table, name) or "the CPU affinity is blank or N/A, as where a cgroup has none"


def _why_no_numa(table: TopoTable, name: str) -> str | None:
    if _affinity_of(table, name).numa is not None:
        return None
    if table.header.columns == 1 and not table.header.is_cut:
        return "this version of nvidia-smi prints no NUMA affinity"
    reason = "the NUMA affinity is N/A: a virtual machine, or one NUMA node; it does not say which"
    return _why_lost(table, name) or reason


def _why_lost(table: TopoTable, name: str) -> str | None:
    row = table.rows.get(name)
    if row is None:
        return "the text does not have its row"
    if row.affinity.is_glued:
        return "in the text its CPU and NUMA affinity have run into one number"
    if table.header.is_cut:
        return "the text has lost the end of the header"
    if row.affinity.is_cut or len(row.cells) < len(table.devices):
        return "the text ends its row too soon"
    return None


def _affinity_of(table: TopoTable, name: str) -> Affinity:
    row = table.rows.get(name)
    return row.affinity if row else Affinity()


def _lost_names(table: TopoTable) -> Iterable[Unknown]:
    for name in table.devices:
        if name.startswith("NIC") and name not in table.legend.names:
            is_garbled = name in table.legend.unnamed
            because = "the legend has no name there" if is_garbled else "no legend gives its name"
            yield Unknown(subject=name, what="name", because=because)
