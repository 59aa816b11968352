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
            kind = kind_between(cells, gpu.index, nic)
            if kind is not None:
                close = found.setdefault(gpu.index, set())
                if kind in CLOSE:
                    close.add(nic.index)
    return {index: frozenset(each) for index, each in found.items()}


def kind_between(cells: Cells, gpu_index: int, nic: Nic) -> PathKind | None:
    """What lies between a GPU and a NIC, by `gpu_cells`; None where it is not known."""
    gpu = gpu_name(gpu_index)
    names = (nic.name,) if nic.label is None else (nic.label, nic.name)
    pairs = (pair for name in names for pair in ((gpu, name), (name, gpu)))
    return next((kind_of(cells[pair]) for pair in pairs if pair in cells), None)
