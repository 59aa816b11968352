"""What the rules about nodes see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import Final, TypeVar

from hpckit.core import hostlist
from hpckit.core.index_list import index_list
from hpckit.core.values import dataclass
from hpckit.node.path import PathKind, PathTable, path_kind
from hpckit.node.topology import Accelerator, Gpu, Nic, NodeTopology

GPUS: Final = "GPUs"
"""The subject of a finding about all GPUs of a node."""

CLOSE: Final = frozenset({PathKind.PIX, PathKind.PXB})
"""Paths between a GPU and a NIC that stay below the CPU."""

_MOST_NAMED: Final = 8

Device = Gpu | Nic | Accelerator
Cells = Mapping[tuple[str, str], str]
"""(row, column) → what lies between the two."""

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedNode:
    """A node, and how many GPUs Slurm's gres says are to be seen, None where nobody says.

    `cells` are `path_cells` of it.
    """

    topology: NodeTopology
    cells: Cells
    expected_gpus: int | None = None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the driver shows."""
        return tuple(gpu for gpu in self.topology.gpus if not gpu.is_hidden)


def gpu_name(index: int) -> str:
    """What a matrix calls a GPU."""
    return f"GPU{index}"


def gpu_ranges(indices: Iterable[int]) -> str:
    """GPUs for a sentence, with runs folded: `GPU0-3,7`."""
    return f"GPU{index_list(indices)}"


def have(count: int) -> str:
    """`has` of one, else `have`."""
    return "has" if count == 1 else "have"


def named(names: Iterable[str]) -> str:
    """Names in natural order for a sentence: `GPU0, GPU1 and 9 more`."""
    return hostlist.named(names, _MOST_NAMED)


def most_common(values: Iterable[Value]) -> Value | None:
    """The value of more than half of them, else None."""
    counts = Counter(values)
    best = counts.most_common(1)
    return best[0][0] if best and 2 * best[0][1] > counts.total() else None


def twins(gpus: Iterable[Gpu]) -> list[list[Gpu]]:
    """GPUs of one vendor and name together; those without a name are taken to be alike."""
    groups: dict[tuple[str | None, str | None], list[Gpu]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.vendor, gpu.name), []).append(gpu)
    return list(groups.values())


def device_names(device: Device) -> tuple[str, ...]:
    """Return what a matrix may call a device: `GPU0`; a NIC by its label or its name."""
    if isinstance(device, Gpu):
        return (gpu_name(device.index),)
    if isinstance(device, Nic) and device.label is not None:
        return (device.label, device.name)
    return (device.name,)


@lru_cache(maxsize=1)
def path_cells(paths: PathTable | None) -> Cells:
    """Return what lies between two devices by their names, where that is known."""
    if paths is None:
        return {}
    return {
        (row, column): cell
        for row, cells in zip(paths.devices, paths.cells, strict=True)
        for column, cell in zip(paths.devices, cells, strict=True)
        if cell is not None
    }


def kind_between(cells: Cells, a: Device, b: Device) -> PathKind | None:
    """Return the path between two devices, by `path_cells`; None where it is not known."""
    for pair in product(device_names(a), device_names(b)):
        cell = cells.get(pair) or cells.get(pair[::-1])
        if cell is not None:
            return path_kind(cell)
    return None
