"""Links between GPUs, and between GPUs and CPUs, from the matrices of hwloc's XML.

Sources: hwloc, topology-nvml.c (NVLinkBandwidth: the sum of a figure for each link, in MB/s in one
direction, to GPUs, NVSwitches or CPUs) and topology-rsmi.c (XGMIBandwidth, XGMIHops).
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from hpckit.model.hardware import CpuLink, Gpu, GpuLink, GpuVendor, LinkKind
from hpckit.model.pci import PciDevice
from hpckit.parse.hwloc_distances import Matrix, matrix, objects_of
from hpckit.parse.hwloc_gpus import FoundGpu
from hpckit.parse.hwloc_numa import Places
from hpckit.parse.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.parse.hwloc_values import info

_MB: Final = 1e6

# hwloc's figure for a link of a GPU, by the first PCI device id that no longer has it: NVLink 1 of
# Pascal, 2 to 4 of Volta to Hopper, 5 of Blackwell (pci.ids: ids ascend with the generations).
_FIGURES: Final = ((0x1D80, 20_000), (0x2900, 25_000), (0x3400, 50_000))

# What hwloc writes for each pair that ROCm SMI calls XGMI, whatever the links are.
_ASSUMED_XGMI: Final = 100_000


class _Nvlinks:
    """NVLinkBandwidth by what its rows are."""

    def __init__(self, found: Matrix, objects: tuple[HwlocObject | None, ...]) -> None:
        self.rows = found.rows
        self.switches = [
            at for at, one in enumerate(objects) if one is not None and one.kind is Kind.PCI
        ]
        self.cpus = [
            (at, one)
            for at, one in enumerate(objects)
            if one is not None and one.kind not in {Kind.PCI, Kind.OS}
        ]

    def to_switches(self, row: int) -> int:
        """MB/s from a row to all switches."""
        return sum(self.rows[row][at] for at in self.switches)


def gpu_links(
    tree: HwlocTree, found: tuple[FoundGpu, ...], pci: tuple[PciDevice, ...]
) -> tuple[GpuLink, ...]:
    """The links between GPUs, by pairs of their indices. Raises ParseError."""
    links = [*_nvlinks(tree, found, pci), *_xgmi(tree, found)]
    return tuple(sorted(links, key=lambda link: (link.a, link.b)))


def cpu_links(
    tree: HwlocTree, places: Places, found: tuple[FoundGpu, ...], pci: tuple[PciDevice, ...]
) -> tuple[CpuLink, ...]:
    """NVLinks to the CPUs of POWER. Raises ParseError."""
    read = _read(tree, found, "NVLinkBandwidth")
    if read is None:
        return ()
    values, objects, of_row = read
    nvlinks = _Nvlinks(values, objects)
    return tuple(
        CpuLink(
            gpu_index=gpu.index,
            kind=LinkKind.NVLINK,
            numa_index=places.numa_index(cpu),
            count=_count(values.rows[row][at], gpu, pci),
            bandwidth_bytes_per_s=values.rows[row][at] * _MB,
        )
        for row, gpu in of_row.items()
        for at, cpu in nvlinks.cpus
        if values.rows[row][at]
    )


def _nvlinks(
    tree: HwlocTree, found: tuple[FoundGpu, ...], pci: tuple[PciDevice, ...]
) -> list[GpuLink]:
    """Direct links; else, of two GPUs at switches, what the one with less has to them.

    Which switches does not matter: those of the two boards of a DGX-2 are joined behind.
    """
    read = _read(tree, found, "NVLinkBandwidth")
    if read is None:
        return []
    values, objects, of_row = read
    nvlinks = _Nvlinks(values, objects)
    links: list[GpuLink] = []
    for (row, gpu), (column, other) in combinations(of_row.items(), 2):
        direct = min(values.rows[row][column], values.rows[column][row])
        switched = min(nvlinks.to_switches(row), nvlinks.to_switches(column))
        if direct or switched:
            links.append(
                GpuLink(
                    a=min(gpu.index, other.index),
                    b=max(gpu.index, other.index),
                    kind=LinkKind.NVLINK,
                    count=_count(direct or switched, gpu, pci),
                    bandwidth_bytes_per_s=(direct or switched) * _MB,
                    is_switched=switched > 0,
                )
            )
    return links


def _xgmi(tree: HwlocTree, found: tuple[FoundGpu, ...]) -> list[GpuLink]:
    """Pairs joined by XGMI; figures only where they are not hwloc's constants for all pairs."""
    read = _read(tree, found, "XGMIBandwidth")
    if read is None:
        return _peers(found)
    values, _, of_row = read
    hops = _read(tree, found, "XGMIHops")
    pairs = list(combinations(of_row.items(), 2))
    is_assumed = {values.rows[a][b] for (a, _), (b, _) in pairs} <= {0, _ASSUMED_XGMI}
    return [
        GpuLink(
            a=min(gpu.index, other.index),
            b=max(gpu.index, other.index),
            kind=LinkKind.XGMI,
            bandwidth_bytes_per_s=None if is_assumed else values.rows[row][column] * _MB,
            hops=None if is_assumed or hops is None else _between(hops, gpu, other),
        )
        for (row, gpu), (column, other) in pairs
        if values.rows[row][column]
    ]


def _peers(found: tuple[FoundGpu, ...]) -> list[GpuLink]:
    """Pairs of which each names the other, where a file has names and no matrix."""
    peers = {
        name: set((info(device.element, "XGMIPeers") or "").split())
        for one in found
        for name, device in one.os_devices.items()
    }
    links: list[GpuLink] = []
    for one, other in combinations(found, 2):
        if any(name in peers[of] for of in one.os_devices for name in other.os_devices):
            links.append(GpuLink(a=one.gpu.index, b=other.gpu.index, kind=LinkKind.XGMI))
    return links


_Read = tuple[Matrix, tuple[HwlocObject | None, ...], dict[int, Gpu]]


def _read(tree: HwlocTree, found: tuple[FoundGpu, ...], name: str) -> _Read | None:
    """A matrix, its objects, and the GPUs among them by row."""
    values = matrix(tree, name)
    if values is None:
        return None
    objects = objects_of(tree, values)
    of_device = {id(device): one.gpu for one in found for device in one.os_devices.values()}
    of_row = {at: of_device[id(one)] for at, one in enumerate(objects) if id(one) in of_device}
    return values, objects, of_row


def _between(hops: _Read, gpu: Gpu, other: Gpu) -> int | None:
    values, _, of_row = hops
    rows = {one.index: row for row, one in of_row.items()}
    if gpu.index not in rows or other.index not in rows:
        return None
    return values.rows[rows[gpu.index]][rows[other.index]] or None


def _count(mb_per_s: int, gpu: Gpu, pci: tuple[PciDevice, ...]) -> int | None:
    device = next((one for one in pci if one.address == gpu.pci), None)
    if device is None or device.device_id is None or gpu.vendor is not GpuVendor.NVIDIA:
        return None
    figure = next((figure for end, figure in _FIGURES if device.device_id < end), None)
    return mb_per_s // figure if figure and mb_per_s % figure == 0 else None
