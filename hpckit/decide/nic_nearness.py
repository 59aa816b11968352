"""Which NICs are below the same PCIe switch as a GPU, as the paths of a node tell."""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.decide.finding_rule import CLOSE, Cells, gpu_name, kind_of
from hpckit.model.hardware import Gpu, Nic, NodeTopology
from hpckit.model.path import PathKind


def close_nics(topology: NodeTopology, cells: Cells) -> dict[int, frozenset[int]]:
    """GPU index → the indices of the NICs with a PIX or PXB path to it, by `gpu_cells`.

    A GPU is there if its path to any NIC is known; one that the driver does not show is not.
    """
    kinds = nic_kinds(cells, (gpu for gpu in topology.gpus if not gpu.is_hidden), topology.nics)
    return {
        gpu: frozenset(nic for nic, kind in each.items() if kind in CLOSE)
        for gpu, each in kinds.items()
        if each
    }


def nic_kinds(
    cells: Cells, gpus: Iterable[Gpu], nics: Iterable[Nic]
) -> dict[int, dict[int, PathKind]]:
    """GPU index → NIC index → what lies between them, by `gpu_cells`, where that is known."""
    listed = {name for pair in cells for name in pair}
    asked = [nic for nic in nics if nic.name in listed or nic.label in listed]
    found: dict[int, dict[int, PathKind]] = {}
    for gpu in gpus:
        kinds = ((nic.index, _kind_between(cells, gpu_name(gpu.index), nic)) for nic in asked)
        found[gpu.index] = {index: kind for index, kind in kinds if kind is not None}
    return found


def _kind_between(cells: Cells, gpu: str, nic: Nic) -> PathKind | None:
    for name in (nic.name,) if nic.label is None else (nic.label, nic.name):
        cell = cells.get((gpu, name)) or cells.get((name, gpu))
        if cell is not None:
            return kind_of(cell)
    return None
