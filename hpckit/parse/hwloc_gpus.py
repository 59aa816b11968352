"""The GPUs of hwloc's XML: PCI functions, and what the drivers' libraries say of them.

Sources: hwloc's documentation, "I/O Devices" (names of OS devices) and "Custom string infos";
pci.ids (what is no GPU for computing).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from hpckit.model.gpu_ids import GPU_VENDORS, gpu_vendor
from hpckit.model.hardware import Accelerator, Gpu, GpuUuid, GpuVendor
from hpckit.model.pci import CLASS_ACCELERATOR, PciAddress, PciDevice, pci_address
from hpckit.model.pci_vendors import INTEL
from hpckit.parse.hwloc_numa import Places, numa_kind
from hpckit.parse.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.parse.hwloc_values import info, node_index, size_bytes

# The libraries that number GPUs, in the order in which their word counts, and whose GPUs they are.
_LIBRARIES: Final = {
    "nvml": GpuVendor.NVIDIA,
    "cuda": GpuVendor.NVIDIA,
    "rsmi": GpuVendor.AMD,
    "ze": GpuVendor.INTEL,
}
_NUMBERED: Final = re.compile(r"(nvml|cuda|rsmi|ze)(\d{1,4})", re.ASCII)

_XEON_PHI: Final = range(0x2250, 0x2260)
_MEMORY_SIZES: Final = (
    "RSMIVRAMSize",
    "CUDAGlobalMemorySize",
    "LevelZeroHBMSize",
    "LevelZeroDDRSize",
    "LevelZeroMemorySize",
    "OpenCLGlobalMemorySize",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGpu:
    """A GPU with the OS devices that it is in the file; `is_numbered` says that a library did."""

    gpu: Gpu
    os_devices: dict[str, HwlocObject]
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
        gpu = Gpu(
            index=index,
            name=_name(one) or names.get(id(one.function)),
            vendor=one.vendor,
            pci=one.pci.address if one.pci else None,
            uuid=_uuid(one.os_devices),
            serial=_said(one.os_devices, "NVIDIASerial", "AMDSerial", "LevelZeroSerialNumber"),
            memory_bytes=_memory(tree, one.os_devices),
            numa_index=places.numa_index(one.device),
            own_numa_index=own_nodes.get(one.pci.address) if one.pci else None,
            cpus=places.cpus(one.device),
            memory_numa=places.memory(one.device),
            partition=None if one.partition is None else str(one.partition),
            is_hidden=_is_hidden(one, libraries),
        )
        devices = {device.name: device for device in one.os_devices}
        found.append(FoundGpu(gpu=gpu, os_devices=devices, is_numbered=bool(one.numbers)))
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
            numa_index=places.numa_index(one),
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
    whole_one = _Candidate(function=function, pci=device, os_devices=os_devices)
    parts = {
        int(match[2]): one
        for one in os_devices
        if (match := _NUMBERED.fullmatch(one.name)) and match[1] == "rsmi"
    }
    if len(parts) <= 1:
        yield whole_one
        return
    for at, number in enumerate(sorted(parts)):
        yield replace(whole_one, os_devices=(parts[number],), partition=at)


def _without_function(os_devices: Iterable[HwlocObject]) -> Iterator[_Candidate]:
    """GPUs of a file that leaves PCI out: those of one library a vendor, as names match no more."""
    numbered = [one for one in os_devices if _NUMBERED.fullmatch(one.name)]
    libraries = {match[1] for one in numbered if (match := _NUMBERED.fullmatch(one.name))}
    for one in numbered:
        is_second = one.name.startswith("cuda") and "nvml" in libraries
        if not is_second:
            yield _Candidate(function=None, pci=None, os_devices=(one,))


def _is_gpu(device: PciDevice, os_devices: tuple[HwlocObject, ...]) -> bool:
    if any(_NUMBERED.fullmatch(one.name) for one in os_devices):
        return True
    return gpu_vendor(device) is not None


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
    return next((text for one in ordered if (text := info(one.element, *names))), None)


def _uuid(os_devices: tuple[HwlocObject, ...]) -> GpuUuid | None:
    text = _said(os_devices, "NVIDIAUUID", "AMDUUID", "LevelZeroUUID")
    return GpuUuid(text) if text and text.strip("0x") else None


def _memory(tree: HwlocTree, os_devices: tuple[HwlocObject, ...]) -> int | None:
    sizes = (size_bytes(tree.document, one.element, *_MEMORY_SIZES) for one in os_devices)
    return max((size for size in sizes if size), default=None)


def _own_nodes(tree: HwlocTree) -> dict[PciAddress, int]:
    found: dict[PciAddress, int] = {}
    for node in tree.of(Kind.NUMA):
        text = info(node.element, "PCIBusID")
        if text and numa_kind(node):
            try:
                found[pci_address(text)] = node_index(tree.document, node.element)
            except ValueError as error:
                message = f"PCIBusID is {text[:40]!r}"
                raise tree.document.refuse(node.element, message, "a PCI address") from error
    return found


def _rank(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return list(_LIBRARIES).index(match[1]) if match else len(_LIBRARIES)
