"""Which NICs are below the same PCIe switch as a GPU, as the paths of a node tell."""

from __future__ import annotations

from hpckit.decide.finding_rule import CLOSE, Cells, gpu_name, kind_of
from hpckit.model.hardware import Nic, NodeTopology
from hpckit.model.path import PathKind


def close_nics(topology: NodeTopology, cells: Cells) -> dict[int, frozenset[int]]:
    """GPU index → the indices of the NICs with a PIX or PXB path to it, by `gpu_cells`.

    A GPU is there if its path to any NIC is known; one that the driver does not show is not.
    """
    found: dict[int, set[int]] = {}
    for gpu in topology.gpus:
        for nic in () if gpu.is_hidden else topology.nics:
            cell = _cell(cells, gpu_name(gpu.index), nic)
            if cell is not None:
                close = found.setdefault(gpu.index, set())
                if kind_of(cell) in CLOSE:
                    close.add(nic.index)
    return {index: frozenset(each) for index, each in found.items()}


def nearest_kind(cells: Cells, gpu_index: int, nics: tuple[Nic, ...]) -> str | None:
    """The nearest path from a GPU to any of these NICs; None where none is known."""
    kinds = [
        kind
        for nic in nics
        if (cell := _cell(cells, gpu_name(gpu_index), nic)) is not None
        and (kind := kind_of(cell)) is not None
    ]
    return min(kinds, key=list(PathKind).index).value if kinds else None


def _cell(cells: Cells, gpu: str, nic: Nic) -> str | None:
    names = (nic.name,) if nic.label is None else (nic.label, nic.name)
    pairs = (pair for name in names for pair in ((gpu, name), (name, gpu)))
    return next((cells[pair] for pair in pairs if pair in cells), None)
