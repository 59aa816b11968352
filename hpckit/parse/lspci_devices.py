"""The GPUs and NICs among lspci's devices, known by class and vendor, else by name.

Sources: pci.ids; the drivers' names in Linux, drivers/net/ethernet and drivers/infiniband/hw.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hpckit.model.gpu_ids import GPU_VENDORS, gpu_vendor
from hpckit.model.hardware import Gpu, GpuVendor, Nic, Unknown
from hpckit.model.nic_ids import CXI_DRIVERS, is_efa, is_virtual_nic
from hpckit.model.nic_kind import NicKind
from hpckit.model.pci import (
    CLASS_FABRIC,
    CLASS_INFINIBAND,
    NIC_CLASSES,
    PciDevice,
)
from hpckit.model.pci_vendors import AMD, CRAY, MELLANOX, PENSANDO
from hpckit.parse.lspci_words import (
    CLASS_SERIAL_INFINIBAND,
    SERVER_GRAPHICS,
    is_named_gpu,
    is_named_nic,
)
from hpckit.parse.sysfs_pci import sort_key

_INFINIBAND: Final = frozenset({CLASS_INFINIBAND, CLASS_SERIAL_INFINIBAND})
_KIND_WORDS: Final = (
    (re.compile(r"elastic fabric adapter|\befa\b", re.IGNORECASE), NicKind.EFA),
    (re.compile(r"\bgvnic\b", re.IGNORECASE), NicKind.GVNIC),
    (re.compile(r"slingshot|\bcassini\b", re.IGNORECASE), NicKind.SLINGSHOT),
    (re.compile(r"infiniband|omni-path", re.IGNORECASE), NicKind.INFINIBAND),
)
_MAY_BE_RDMA: Final = re.compile(r"BCM57[56]|BCM576|\bE810\b|\bE82[0-9]\b", re.ASCII)
_VIRTUAL: Final = re.compile(r"virtual function|\bVF\b", re.IGNORECASE)

_ORDER: Final = "counted by PCI address here: lspci does not know the order of the driver"
_NO_NAME: Final = "the pci.ids that lspci read has no name for it"
_NO_NUMA: Final = "lspci prints no NUMA node of it: that takes -v, and firmware that says it"
_NO_LINKS: Final = "lspci shows PCIe alone: GPUs may have NVLink or XGMI between them as well"
_NO_NIC_NAMES: Final = "lspci has addresses and no names of devices"
_NO_STATE: Final = "lspci does not print it"
_NO_KIND: Final = "an Ethernet function may be an RDMA device (RoCE) or none: lspci does not say"


def find_gpus(pci: Iterable[PciDevice]) -> tuple[Gpu, ...]:
    """The GPUs by PCI address; a virtual function of a GPU that is there itself is not counted."""
    devices = {device.address: device for device in pci}
    vendors = {
        address: vendor
        for address, device in devices.items()
        if device.physfn not in devices and (vendor := _gpu_vendor(device))
    }
    return tuple(
        Gpu(
            index=index,
            name=devices[address].name,
            vendor=vendors[address],
            pci=address,
            numa_index=devices[address].numa_index,
        )
        for index, address in enumerate(sorted(vendors, key=sort_key))
    )


def _gpu_vendor(device: PciDevice) -> GpuVendor | None:
    if device.class_code is None:
        return GPU_VENDORS.get(device.vendor_id or 0) if is_named_gpu(device) else None
    if device.vendor_id == AMD and SERVER_GRAPHICS.search(device.name or ""):
        return None
    return gpu_vendor(device)


def find_nics(pci: Iterable[PciDevice]) -> tuple[Nic, ...]:
    """The NICs by PCI address, one a network function, called by its address."""
    found = sorted((one for one in pci if _is_nic(one)), key=lambda one: sort_key(one.address))
    return tuple(
        Nic(
            index=index,
            name=device.address,
            kind=_nic_kind(device),
            pci=device.address,
            numa_index=device.numa_index,
            driver=device.driver,
            is_virtual=_is_virtual(device),
            physfn=device.physfn,
        )
        for index, device in enumerate(found)
    )


def _is_nic(device: PciDevice) -> bool:
    if device.class_code is None:
        return is_named_nic(device)
    return device.class_code in NIC_CLASSES | {CLASS_SERIAL_INFINIBAND}


def _nic_kind(device: PciDevice) -> NicKind | None:
    """The kind; None for an Ethernet function of a maker of RDMA devices, which may be RoCE."""
    if device.driver == "efa" or is_efa(device):
        return NicKind.EFA
    if device.driver in CXI_DRIVERS or device.vendor_id == CRAY:
        return NicKind.SLINGSHOT
    if device.class_code in _INFINIBAND:
        return NicKind.INFINIBAND
    name = device.name or ""
    for pattern, kind in _KIND_WORDS:
        # An Ethernet function of an InfiniBand card may have the word in its name.
        counts = kind is not NicKind.INFINIBAND or device.class_code in {None, CLASS_FABRIC}
        if counts and pattern.search(name):
            return kind
    may_be_rdma = device.vendor_id in {MELLANOX, PENSANDO} or _MAY_BE_RDMA.search(name)
    return None if may_be_rdma else NicKind.ETHERNET


def _is_virtual(device: PciDevice) -> bool | None:
    is_named = device.name is not None and _VIRTUAL.search(device.name)
    if device.physfn or is_virtual_nic(device) or is_named:
        return True
    return None if device.name is None else False


def unknown_of(gpus: tuple[Gpu, ...], nics: tuple[Nic, ...]) -> Iterator[Unknown]:
    """What of the GPUs and NICs is not known."""
    yield from _of_gpus(gpus)
    yield from _of_nics(nics)


def _of_gpus(gpus: tuple[Gpu, ...]) -> Iterator[Unknown]:
    if gpus:
        yield Unknown(subject="GPUs", what="index", because=_ORDER)
        yield Unknown(subject="NVLinks", what="count", because=_NO_LINKS)
    for gpu in gpus:
        if gpu.name is None:
            yield Unknown(subject=f"GPU{gpu.index}", what="name", because=_NO_NAME)
        if gpu.numa_index is None:
            yield Unknown(subject=f"GPU{gpu.index}", what="numa_index", because=_NO_NUMA)


def _of_nics(nics: tuple[Nic, ...]) -> Iterator[Unknown]:
    if nics:
        yield Unknown(subject="NICs", what="name", because=_NO_NIC_NAMES)
        for what in ("state", "rate_bytes_per_s"):
            yield Unknown(subject="NICs", what=what, because=_NO_STATE)
    for nic in nics:
        if nic.kind is None:
            yield Unknown(subject=nic.name, what="kind", because=_NO_KIND)
        if nic.numa_index is None:
            yield Unknown(subject=nic.name, what="numa_index", because=_NO_NUMA)
