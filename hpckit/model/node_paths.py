"""Questions to a path table: what lies between two devices, which NICs are closest to a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hpckit.model.hardware import Accelerator, Gpu, Nic, NodeTopology
from hpckit.model.node_words import gpu_label, is_storage
from hpckit.model.path import PathKind, PathTable, path_kind

Device = Gpu | Nic | Accelerator

_ORDER: Final = {kind: at for at, kind in enumerate(PathKind)}


def device_names(device: Device) -> tuple[str, ...]:
    """What a matrix may call a device: `GPU0`; a NIC by its label or its name."""
    if isinstance(device, Gpu):
        return (gpu_label(device),)
    if isinstance(device, Nic) and device.label is not None:
        return (device.label, device.name)
    return (device.name,)


class PathLookup:
    """The kinds of a path table by the devices' names; a table that is not square has holes."""

    def __init__(self, paths: PathTable | None) -> None:
        self._paths = paths
        names = () if paths is None else paths.devices
        self._at = {name: at for at, name in reversed(tuple(enumerate(names)))}

    def kind(self, a: Device, b: Device) -> PathKind | None:
        """The path between two devices; None where the table has none, or none that is known."""
        row, column = self._index(a), self._index(b)
        if self._paths is None or row is None or column is None or row == column:
            return None
        return _kind_at(self._paths, row, column) or _kind_at(self._paths, column, row)

    def has(self, device: Device) -> bool:
        """Whether the table has a row for a device."""
        return self._index(device) is not None

    def _index(self, device: Device) -> int | None:
        for name in device_names(device):
            if name in self._at:
                return self._at[name]
        return None


def _kind_at(paths: PathTable, row: int, column: int) -> PathKind | None:
    cells = paths.cells[row] if row < len(paths.cells) else ()
    cell = cells[column] if column < len(cells) else None
    if cell is None:
        return None
    try:
        return path_kind(cell)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The NICs that are closest to a GPU, all by a path of one kind.

    Without `is_certain` another NIC, whose path is not known, may be closer.
    """

    kind: PathKind
    nics: tuple[Nic, ...]
    is_certain: bool = True


def nearest_nics(topology: NodeTopology) -> dict[int, Nearest]:
    """For each GPU, by its index, its closest NICs; one for storage only where no other is there.

    A GPU of whose paths to NICs none is known is not there.
    """
    lookup = PathLookup(topology.paths)
    compute = tuple(nic for nic in topology.nics if not is_storage(nic))
    found: dict[int, Nearest] = {}
    for gpu in topology.gpus:
        near = _nearest(lookup, gpu, compute or topology.nics)
        if near is not None:
            found[gpu.index] = near
    return found


def _nearest(lookup: PathLookup, gpu: Gpu, nics: Iterable[Nic]) -> Nearest | None:
    by_kind: dict[PathKind, list[Nic]] = {}
    is_certain = True
    for nic in nics:
        kind = lookup.kind(gpu, nic)
        if kind is None:
            is_certain = False
        else:
            by_kind.setdefault(kind, []).append(nic)
    if not by_kind:
        return None
    best = min(by_kind, key=lambda kind: _ORDER[kind])
    return Nearest(kind=best, nics=tuple(by_kind[best]), is_certain=is_certain)
