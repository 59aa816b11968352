"""A node's paths as a matrix, in the form in which `nvidia-smi topo -m` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.errors import PlanError
from hpckit.model.hardware import Gpu, NodeTopology
from hpckit.model.node_words import visible
from hpckit.model.path import NcclPath, PathKind, path_kind

_UNKNOWN: Final = "N/A"
_SELF: Final = {"X": " X"}
_SYMBOL: Final = {PathKind.NV: "NV#"}

_AFFINITIES: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NARROWEST: Final = 6
_LONGEST_NAME: Final = 256

_MEANING: Final = {
    PathKind.SELF: "the device itself",
    PathKind.NV: "that many NVLinks to the other GPU, or to the switch between them",
    PathKind.XGMI: "Infinity Fabric links to the other GPU",
    PathKind.C2C: "NVLink-C2C between GPU and CPU",
    PathKind.PIX: "one PCIe switch at most",
    PathKind.PXB: "several PCIe switches, but not the host bridge",
    PathKind.PHB: "the PCIe host bridge of a CPU",
    PathKind.NODE: "two PCIe host bridges of one NUMA node",
    PathKind.SYS: "the link between two NUMA nodes, such as UPI or Infinity Fabric",
}

_NCCL_MEANING: Final = {
    NcclPath.LOC: "the device itself",
    NcclPath.NVL: "NVLink, also through a switch",
    NcclPath.NVB: "NVLink through another GPU",
    NcclPath.C2C: "a chip-to-chip link between GPU and CPU",
    NcclPath.PIX: "one PCIe switch at most",
    NcclPath.PXB: "several PCIe switches, but not the host bridge",
    NcclPath.P2C: "the chip-to-chip link, then PCIe of the same CPU",
    NcclPath.PXN: "another GPU that is nearer to the NIC",
    NcclPath.PHB: "one CPU, so also two host bridges of one NUMA node",
    NcclPath.SYS: "the link between two CPUs",
}


def matrix_text(topology: NodeTopology, *, nccl: bool = False) -> str:
    """The matrix of a node's devices, what its words mean, and the names behind NIC0, NIC1 and on.

    Columns are parted by spaces, and what is not known is N/A. With `nccl` the words are NCCL's.
    Raises PlanError where the topology has no such table.
    """
    table = topology.paths
    if table is None or (nccl and not table.nccl):
        raise _no_table(topology, "one that does in the words of NCCL" if nccl else "one that does")
    cells = table.nccl if nccl else table.cells
    gpus = {f"GPU{gpu.index}": gpu for gpu in topology.gpus}
    rows = [("", *map(_name, table.devices), *_AFFINITIES)]
    for device, row in zip(table.devices, cells, strict=True):
        words = (_UNKNOWN if cell is None else _SELF.get(cell, cell) for cell in row)
        rows.append((_name(device), *words, *_affinities(gpus.get(device))))
    blocks = [_aligned(rows), ["Legend:", "", *_meanings(cells, nccl=nccl)]]
    listed = frozenset(table.devices)
    names = [
        f"  {_name(nic.label)}: {_name(nic.name)}"
        for nic in topology.nics
        if nic.label is not None and nic.label in listed
    ]
    if names:
        blocks.append(["NIC Legend:", "", *names])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _no_table(topology: NodeTopology, need: str) -> PlanError:
    what = "a matrix of paths"
    if topology.source.is_live and not topology.gpus:
        have = "none of its devices on this machine"
        return PlanError(what, have=have, need="a GPU, or a NIC that does RDMA")
    hint = "inspect the node itself, or a capture that has its PCI tree or its matrix"
    have = "a topology that does not say what lies between its devices"
    return PlanError(what, have=have, need=need, hint=hint)


def _name(text: str) -> str:
    return visible(text, _LONGEST_NAME)


def _affinities(gpu: Gpu | None) -> tuple[str, ...]:
    if gpu is None:
        return ()
    numa = gpu.memory_numa or gpu.numa_index
    return tuple(
        _UNKNOWN if value is None else str(value)
        for value in (gpu.cpus or None, numa, gpu.own_numa_index)
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    count = len(rows[0])
    widths = [
        max(_NARROWEST, *(len(row[at]) for row in rows if at < len(row))) for at in range(count)
    ]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _meanings(cells: Iterable[Iterable[str | None]], *, nccl: bool) -> list[str]:
    """What the words of a table mean, nearest first."""
    used = {cell for row in cells for cell in row}
    if nccl:
        words = [(str(path), _NCCL_MEANING[path]) for path in NcclPath if path in used]
    else:
        kinds = {path_kind(cell) for cell in used if cell is not None}
        words = [
            (_SYMBOL.get(kind, str(kind)), _MEANING[kind]) for kind in PathKind if kind in kinds
        ]
    if None in used:
        words.append((_UNKNOWN, "not known"))
    return [f"  {word:<4} = {meaning}" for word, meaning in words]
