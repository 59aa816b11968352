"""Links between GPUs, and between GPUs and CPUs, from the matrices of hwloc's XML.

Sources: hwloc, topology-nvml.c (NVLinkBandwidth: the sum of a figure for each link, in MB/s in one
direction, to GPUs, NVSwitches or CPUs) and topology-rsmi.c (XGMIBandwidth, XGMIHops).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from hpckit.model.hardware import CpuLink, Gpu, GpuLink, GpuVendor, LinkKind
from hpckit.model.node_limits import MOST_BYTES_PER_S
from hpckit.model.pci import PciAddress, PciDevice
from hpckit.parse.hwloc_distances import matrix, objects_of
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


@dataclass(frozen=True, slots=True)
class _Rows:
    """A matrix, what its rows are, and the GPUs among them by row."""

    values: tuple[tuple[int, ...], ...]
    objects: tuple[HwlocObject | None, ...]
    gpus: dict[int, Gpu]

    def pairs(self) -> Iterator[tuple[int, int, Gpu, Gpu]]:
        """Row and column of each two GPUs, the one with the lower number first."""
        ordered = sorted(self.gpus.items(), key=lambda one: one[1].index)
        for (row, gpu), (column, other) in combinations(ordered, 2):
            yield row, column, gpu, other


def links(
    tree: HwlocTree, places: Places, found: tuple[FoundGpu, ...], pci: tuple[PciDevice, ...]
) -> tuple[tuple[GpuLink, ...], tuple[CpuLink, ...]]:
    """The links between GPUs by pairs of their numbers, and those to the CPUs of POWER.

    Raises ParseError.
    """
    ids = {device.address: device.device_id for device in pci}
    nvlinks = _rows(tree, found, "NVLinkBandwidth")
    xgmi = _rows(tree, found, "XGMIBandwidth")
    hops = _rows(tree, found, "XGMIHops")
    between = [
        *(_nvlinks(nvlinks, ids) if nvlinks else ()),
        *(_xgmi(xgmi, hops) if xgmi else _peers(found)),
    ]
    to_cpus = _cpu_links(nvlinks, places, ids) if nvlinks else ()
    return tuple(sorted(between, key=lambda link: (link.a, link.b))), tuple(to_cpus)


def _rows(tree: HwlocTree, found: tuple[FoundGpu, ...], name: str) -> _Rows | None:
    values = matrix(tree, name)
    if values is None:
        return None
    objects = objects_of(tree, values)
    of_device = {id(device): one.gpu for one in found for device in one.os_devices.values()}
    gpus = {at: of_device[id(one)] for at, one in enumerate(objects) if id(one) in of_device}
    firsts = {gpu.index: at for at, gpu in reversed(gpus.items())}
    return _Rows(values.rows, objects, {at: gpus[at] for at in sorted(firsts.values())})


def _rate(mbytes_per_s: int) -> float | None:
    """In bytes per second; None for what nothing has."""
    return mbytes_per_s * _MB if mbytes_per_s <= MOST_BYTES_PER_S / _MB else None


def _nvlinks(rows: _Rows, ids: dict[PciAddress, int | None]) -> Iterator[GpuLink]:
    """Direct links; else, of two GPUs at switches, what the one with less has to them.

    Which switches does not matter: those of the two boards of a DGX-2 are joined behind.
    """
    switches = [at for at, one in enumerate(rows.objects) if one and one.kind is Kind.PCI]
    to_switches = {row: sum(rows.values[row][at] for at in switches) for row in rows.gpus}
    for row, column, gpu, other in rows.pairs():
        direct = min(rows.values[row][column], rows.values[column][row])
        switched = min(to_switches[row], to_switches[column])
        if direct or switched:
            yield GpuLink(
                a=gpu.index,
                b=other.index,
                kind=LinkKind.NVLINK,
                count=_count(direct or switched, gpu, ids),
                bandwidth_bytes_per_s=_rate(direct or switched),
                is_switched=switched > 0,
            )


def _cpu_links(rows: _Rows, places: Places, ids: dict[PciAddress, int | None]) -> Iterator[CpuLink]:
    for row, gpu in rows.gpus.items():
        for at, one in enumerate(rows.objects):
            value = rows.values[row][at]
            if value and one and one.kind not in {Kind.PCI, Kind.OS}:
                yield CpuLink(
                    gpu_index=gpu.index,
                    kind=LinkKind.NVLINK,
                    numa_index=places.numa_index(one),
                    count=_count(value, gpu, ids),
                    bandwidth_bytes_per_s=_rate(value),
                )


def _xgmi(rows: _Rows, hops: _Rows | None) -> Iterator[GpuLink]:
    """Pairs joined by XGMI; figures only where they are not hwloc's constants for all pairs."""
    said = {rows.values[row][column] for row, column, _, _ in rows.pairs()}
    is_assumed = said <= {0, _ASSUMED_XGMI}
    row_of = {gpu.index: row for row, gpu in hops.gpus.items()} if hops else {}
    for row, column, gpu, other in rows.pairs():
        value = rows.values[row][column]
        far = None
        if hops and not is_assumed and {gpu.index, other.index} <= row_of.keys():
            far = hops.values[row_of[gpu.index]][row_of[other.index]] or None
        if value:
            yield GpuLink(
                a=gpu.index,
                b=other.index,
                kind=LinkKind.XGMI,
                bandwidth_bytes_per_s=None if is_assumed else _rate(value),
                hops=far,
            )


def _peers(found: tuple[FoundGpu, ...]) -> Iterator[GpuLink]:
    """Pairs of which one names the other, where a file has names and no matrix."""
    of_name = {name: one.gpu.index for one in found for name in one.os_devices}
    pairs = {
        (one.gpu.index, of_name[peer])
        for one in found
        for device in one.os_devices.values()
        for peer in (info(device.element, "XGMIPeers") or "").split()
        if peer in of_name
    }
    for a, b in {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}:
        yield GpuLink(a=a, b=b, kind=LinkKind.XGMI)


def _count(mb_per_s: int, gpu: Gpu, ids: dict[PciAddress, int | None]) -> int | None:
    device_id = ids.get(gpu.pci) if gpu.pci else None
    if device_id is None or gpu.vendor is not GpuVendor.NVIDIA:
        return None
    figure = next((figure for end, figure in _FIGURES if device_id < end), None)
    return mb_per_s // figure if figure and mb_per_s % figure == 0 else None
