"""The GPUs of hwloc's XML: PCI functions, and what the drivers' libraries say of them.

Sources: hwloc's documentation, "I/O Devices" (names of OS devices) and "Custom string infos";
pci.ids (what is no GPU for computing).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Final, NamedTuple

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.node.capture.hwloc_numa import Matrix, Places, matrix, numa_kind
from hpckit.node.capture.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.node.pci import CLASS_ACCELERATOR, PciAddress, PciDevice
from hpckit.node.pci_tree import GPU_VENDORS, INTEL, gpu_vendor
from hpckit.node.topology import (
    Accelerator,
    CpuLink,
    Gpu,
    GpuLink,
    GpuUuid,
    GpuVendor,
    LinkKind,
)

# The libraries that number GPUs, in the order in which their word counts, and whose GPUs they are.
_LIBRARIES: Final = {
    "nvml": GpuVendor.NVIDIA,
    "cuda": GpuVendor.NVIDIA,
    "rsmi": GpuVendor.AMD,
    "ze": GpuVendor.INTEL,
}
_NUMBERED: Final = regex(r"(nvml|cuda|rsmi|ze)(\d{1,4})", re.ASCII)

_XEON_PHI: Final = range(0x2250, 0x2260)
_MEMORY_SIZES: Final = (
    "RSMIVRAMSize",
    "CUDAGlobalMemorySize",
    "LevelZeroHBMSize",
    "LevelZeroDDRSize",
    "LevelZeroMemorySize",
    "OpenCLGlobalMemorySize",
)


class FoundGpu(NamedTuple):
    """A GPU with the OS devices that it is in the file; `is_numbered` says that a library did."""

    gpu: Gpu
    os_devices: tuple[HwlocObject, ...]
    is_numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    function: HwlocObject | None
    pci: PciDevice | None
    os_devices: tuple[HwlocObject, ...]
    partition: int | None = None

    @property
    def device(self) -> HwlocObject:
        return self.function or self.os_devices[0]

    @property
    def numbers(self) -> dict[str, int]:
        found = (_NUMBERED.fullmatch(one.name) for one in self.os_devices)
        return {match[1]: int(match[2]) for match in found if match}

    @property
    def vendor(self) -> GpuVendor | None:
        vendor = GPU_VENDORS.get(self.pci.vendor_id or 0) if self.pci else None
        return vendor or next((_LIBRARIES[library] for library in self.numbers), None)


def gpus(tree: HwlocTree, places: Places, pci: tuple[PciDevice, ...]) -> tuple[FoundGpu, ...]:
    """The GPUs, numbered as NVML, else CUDA, else ROCm SMI numbers them, else by bus id.

    Graphics for a console (ASPEED, Matrox, ES1000, Intel's integrated at 00:02.0 unless Level Zero
    lists it) is none. Of one function there are as many as ROCm SMI lists: MI300 in CPX mode has
    six. Raises ParseError.
    """
    candidates = sorted(_candidates(tree, pci), key=_order)
    libraries = {library for one in candidates for library in one.numbers}
    own_nodes = _own_nodes(tree)
    # Of the partitions of a GPU often only the first is given a name.
    names = {id(one.function): name for one in reversed(candidates) if (name := _name(one))}
    found: list[FoundGpu] = []
    for index, one in zip(_indices(candidates), candidates, strict=True):
        sizes = (device.size_bytes(*_MEMORY_SIZES) for device in one.os_devices)
        place = places.of(one.device)
        gpu = Gpu(
            index=index,
            name=_name(one) or names.get(id(one.function)),
            vendor=one.vendor,
            pci=one.pci.address if one.pci else None,
            uuid=_uuid(one.os_devices),
            serial=_said(one.os_devices, "NVIDIASerial", "AMDSerial", "LevelZeroSerialNumber"),
            memory_bytes=max(filter(None, sizes), default=None),
            numa_index=place.numa_index,
            own_numa_index=own_nodes.get(one.pci.address) if one.pci else None,
            cpus=place.cpus,
            memory_numa=place.memory,
            partition=None if one.partition is None else str(one.partition),
            is_hidden=_is_hidden(one, libraries),
        )
        found.append(FoundGpu(gpu, one.os_devices, bool(one.numbers)))
    return tuple(sorted(found, key=lambda one: one.gpu.index))


def accelerators(
    tree: HwlocTree, places: Places, pci: tuple[PciDevice, ...]
) -> tuple[Accelerator, ...]:
    """Processing accelerators (PCI class 1200) of makers of no GPUs, and Xeon Phi cards."""
    functions = zip(tree.of(Kind.PCI), pci, strict=True)
    found = [(one, device) for one, device in functions if _is_accelerator(device)]
    return tuple(
        Accelerator(
            index=index,
            name=device.name or f"{device.vendor_id:04x}:{device.device_id:04x}",
            pci=device.address,
            numa_index=places.of(one).numa_index,
        )
        for index, (one, device) in enumerate(found)
    )


def _is_accelerator(device: PciDevice) -> bool:
    if device.vendor_id == INTEL and device.device_id in _XEON_PHI:
        return True
    return device.class_code == CLASS_ACCELERATOR and gpu_vendor(device) is None


def _candidates(tree: HwlocTree, pci: tuple[PciDevice, ...]) -> Iterator[_Candidate]:
    below: dict[int, list[HwlocObject]] = {}
    for one in tree.of(Kind.OS):
        below.setdefault(id(one.card), []).append(one)
    for function, device in zip(tree.of(Kind.PCI), pci, strict=True):
        os_devices = tuple(below.get(id(function), ()))
        if _is_gpu(device, os_devices):
            yield from _of_function(function, device, os_devices)
    yield from _without_function(below.get(id(None), []))


def _of_function(
    function: HwlocObject, device: PciDevice, os_devices: tuple[HwlocObject, ...]
) -> Iterator[_Candidate]:
    whole = _Candidate(function=function, pci=device, os_devices=os_devices)
    numbers = ((_NUMBERED.fullmatch(one.name), one) for one in os_devices)
    parts = {int(match[2]): one for match, one in numbers if match and match[1] == "rsmi"}
    if len(parts) <= 1:
        yield whole
        return
    for at, number in enumerate(sorted(parts)):
        yield replace(whole, os_devices=(parts[number],), partition=at)


def _without_function(os_devices: Iterable[HwlocObject]) -> Iterator[_Candidate]:
    """GPUs of a file that leaves PCI out: those of one library a vendor, as names match no more."""
    numbered = [one for one in os_devices if _NUMBERED.fullmatch(one.name)]
    has_nvml = any(one.name.startswith("nvml") for one in numbered)
    for one in numbered:
        if not (has_nvml and one.name.startswith("cuda")):
            yield _Candidate(function=None, pci=None, os_devices=(one,))


def _is_gpu(device: PciDevice, os_devices: tuple[HwlocObject, ...]) -> bool:
    is_numbered = any(_NUMBERED.fullmatch(one.name) for one in os_devices)
    return is_numbered or gpu_vendor(device) is not None


def _order(one: _Candidate) -> tuple[int, int, str, int]:
    for rank, library in enumerate(_LIBRARIES):
        if library in one.numbers:
            return (rank, one.numbers[library], "", 0)
    address = one.pci.address if one.pci else ""
    return (len(_LIBRARIES), 0, address.rjust(16, "0"), one.partition or 0)


def _indices(candidates: list[_Candidate]) -> list[int]:
    """The libraries' numbers where no two are alike, the next free ones for the rest."""
    taken: set[int] = set()
    after = 0
    found: list[int] = []
    for one in candidates:
        own = next((one.numbers[library] for library in _LIBRARIES if library in one.numbers), None)
        index = after if own is None or own in taken else own
        taken.add(index)
        after = max(after, index + 1)
        found.append(index)
    return found


def _is_hidden(one: _Candidate, libraries: set[str]) -> bool:
    lists = {library for library in libraries if _LIBRARIES[library] is one.vendor}
    return bool(lists) and not one.numbers


def _name(one: _Candidate) -> str | None:
    said = _said(one.os_devices, "GPUModel", "LevelZeroModel")
    return said or (one.pci.name if one.pci else None)


def _said(os_devices: tuple[HwlocObject, ...], *names: str) -> str | None:
    ordered = sorted(os_devices, key=lambda one: _rank(one.name))
    return next((text for one in ordered if (text := one.info(*names))), None)


def _uuid(os_devices: tuple[HwlocObject, ...]) -> GpuUuid | None:
    text = _said(os_devices, "NVIDIAUUID", "AMDUUID", "LevelZeroUUID")
    return GpuUuid(text) if text and text.strip("0x") else None


def _own_nodes(tree: HwlocTree) -> dict[PciAddress, int]:
    """The NUMA nodes that hold a GPU's memory, by its address."""
    return {
        node.address("PCIBusID"): node.node_index
        for node in tree.of(Kind.NUMA)
        if node.info("PCIBusID") and numa_kind(node)
    }


def _rank(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return list(_LIBRARIES).index(match[1]) if match else len(_LIBRARIES)


# Sources: hwloc, topology-nvml.c (NVLinkBandwidth: the sum of a figure for each link, in MB/s in
# one direction, to GPUs, NVSwitches or CPUs) and topology-rsmi.c (XGMIBandwidth, XGMIHops).
_MB: Final = 1e6

# hwloc's figure for a link of a GPU, by the first PCI device id that no longer has it: NVLink 1 of
# Pascal, 2 to 4 of Volta to Hopper, 5 of Blackwell (pci.ids: ids ascend with the generations).
_FIGURES: Final = ((0x1D80, 20_000), (0x2900, 25_000), (0x3400, 50_000))

# What hwloc writes for each pair that ROCm SMI calls XGMI, whatever the links are.
_ASSUMED_XGMI: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Rows:
    """A matrix, and the GPUs among its rows by their number."""

    matrix: Matrix
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
    of_device = {id(device): one.gpu for one in found for device in one.os_devices}
    gpus = {at: of_device[id(one)] for at, one in enumerate(values.objects) if id(one) in of_device}
    firsts = {gpu.index: at for at, gpu in reversed(gpus.items())}
    return _Rows(values, {at: gpus[at] for at in sorted(firsts.values())})


def _nvlinks(rows: _Rows, ids: dict[PciAddress, int | None]) -> Iterator[GpuLink]:
    """Direct links; else, of two GPUs at switches, what the one with less has to them.

    Which switches does not matter: those of the two boards of a DGX-2 are joined behind.
    """
    switches = [at for at, one in enumerate(rows.matrix.objects) if one and one.kind is Kind.PCI]
    to_switches = {row: sum(rows.matrix.rows[row][at] for at in switches) for row in rows.gpus}
    for row, column, gpu, other in rows.pairs():
        direct = min(rows.matrix.rows[row][column], rows.matrix.rows[column][row])
        switched = min(to_switches[row], to_switches[column])
        if direct or switched:
            yield GpuLink(
                a=gpu.index,
                b=other.index,
                kind=LinkKind.NVLINK,
                count=_count(direct or switched, gpu, ids),
                bandwidth_bytes_per_s=(direct or switched) * _MB,
                is_switched=switched > 0,
            )


def _cpu_links(rows: _Rows, places: Places, ids: dict[PciAddress, int | None]) -> Iterator[CpuLink]:
    for row, gpu in rows.gpus.items():
        for at, one in enumerate(rows.matrix.objects):
            value = rows.matrix.rows[row][at]
            if value and one and one.kind not in {Kind.PCI, Kind.OS}:
                yield CpuLink(
                    gpu_index=gpu.index,
                    kind=LinkKind.NVLINK,
                    numa_index=places.of(one).numa_index,
                    count=_count(value, gpu, ids),
                    bandwidth_bytes_per_s=value * _MB,
                )


def _xgmi(rows: _Rows, hops: _Rows | None) -> Iterator[GpuLink]:
    """Pairs joined by XGMI; figures only where they are not hwloc's constants for all pairs."""
    said = {rows.matrix.rows[row][column] for row, column, _, _ in rows.pairs()}
    is_assumed = said <= {0, _ASSUMED_XGMI}
    told = hops.pairs() if hops and not is_assumed else ()
    far = {(a.index, b.index): hops.matrix.rows[at][to] for at, to, a, b in told} if hops else {}
    for row, column, gpu, other in rows.pairs():
        value = rows.matrix.rows[row][column]
        if value:
            yield GpuLink(
                a=gpu.index,
                b=other.index,
                kind=LinkKind.XGMI,
                bandwidth_bytes_per_s=None if is_assumed else value * _MB,
                hops=far.get((gpu.index, other.index)) or None,
            )


def _peers(found: tuple[FoundGpu, ...]) -> Iterator[GpuLink]:
    """Pairs of which one names the other, where a file has names and no matrix."""
    of_name = {device.name: one.gpu.index for one in found for device in one.os_devices}
    pairs = {
        (one.gpu.index, of_name[peer])
        for one in found
        for device in one.os_devices
        for peer in (device.info("XGMIPeers") or "").split()
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
