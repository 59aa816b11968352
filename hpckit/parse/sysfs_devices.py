"""GPUs and other devices for computing, found on the PCI tree by class and ids.

Sources: pci.ids (vendors, classes); habanalabs_drv.c (Gaudi), neuron_pci.c of aws-neuronx-dkms
(Inferentia, Trainium), jax/_src/hardware_utils.py (TPU); /proc/driver/nvidia of NVIDIA's README.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hpckit.model.gpu_ids import gpu_vendor
from hpckit.model.hardware import Accelerator, Gpu, GpuUuid, GpuVendor, NumaNode, Unknown
from hpckit.model.pci import CLASS_ACCELERATOR, PciAddress, PciDevice, pci_address
from hpckit.model.pci_vendors import AMAZON, GOOGLE, HABANA
from hpckit.parse.sysfs_numa import GPUS, gpu_numa
from hpckit.parse.sysfs_pci import sort_key
from hpckit.parse.sysfs_tree import SysfsTree, printable

_ACCELERATORS: Final = {
    HABANA: {
        0x0001: "Goya",
        0x1000: "Gaudi",
        0x1001: "Gaudi",
        0x1010: "Gaudi",
        0x1011: "Gaudi",
        0x1020: "Gaudi2",
        0x1021: "Gaudi2",
        0x1060: "Gaudi3",
        0x1062: "Gaudi3",
        0x1063: "Gaudi3",
    },
    AMAZON: {
        0x7064: "Inferentia",
        0x7065: "Inferentia",
        0x7066: "Inferentia",
        0x7067: "Inferentia",
        0x7164: "Trainium",
        0x7264: "Inferentia2",
        0x7364: "Trainium2",
        0x7564: "Trainium3",
        0x7565: "Trainium3",
    },
    GOOGLE: {
        0x0027: "TPU v2 or v3",
        0x005E: "TPU v4",
        0x0062: "TPU v5p",
        0x0063: "TPU v5e",
        0x006F: "TPU v6e",
    },
}
_FAMILIES: Final = {0x1DA3: "Gaudi"}
_DRIVERS: Final = {"habanalabs": "Gaudi", "neuron": "Neuron", "neuron-driver": "Neuron"}

_INFORMATION: Final = re.compile(r"^([^:\n]{1,40}):[ \t]*([^\n]*?)[ \t\r]*$", re.MULTILINE)
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)

_ORDER: Final = "counted by PCI address here: the order of the driver is not in sysfs"
_NO_NUMA: Final = "numa_node is -1 or absent: the firmware, often a hypervisor's, does not say"


def parse_gpus(
    tree: SysfsTree, pci: Iterable[PciDevice], numa: Iterable[NumaNode]
) -> tuple[tuple[Gpu, ...], tuple[Unknown, ...]]:
    """The GPUs by PCI address, and what of them is not known.

    A virtual function of a GPU that is there itself is not counted.
    """
    devices = {device.address: device for device in pci}
    cpus = {node.index: node.cpus for node in numa}
    told = _told_by_driver(tree)
    own_numa = {_known(name): index for name, index in gpu_numa(tree).items()}
    vendors = {
        address: GpuVendor.NVIDIA if address in told else gpu_vendor(device)
        for address, device in devices.items()
        if device.physfn not in devices
    }
    found = [devices[address] for address in sorted(vendors, key=sort_key) if vendors[address]]
    gpus = tuple(
        Gpu(
            index=index,
            name=told.get(device.address, {}).get("Model"),
            vendor=vendors[device.address],
            pci=device.address,
            uuid=_uuid(told.get(device.address, {})),
            numa_index=device.numa_index,
            own_numa_index=own_numa.get(device.address),
            cpus=None if device.numa_index is None else cpus.get(device.numa_index),
        )
        for index, device in enumerate(found)
    )
    return gpus, tuple(_unknown(gpus))


def parse_accelerators(pci: Iterable[PciDevice]) -> tuple[Accelerator, ...]:
    """Devices for computing that are no GPUs, by PCI address."""
    named = [(device, name) for device in pci if (name := _accelerator_name(device))]
    named.sort(key=lambda one: sort_key(one[0].address))
    return tuple(
        Accelerator(
            index=index,
            name=name,
            pci=device.address,
            driver=device.driver,
            numa_index=device.numa_index,
        )
        for index, (device, name) in enumerate(named)
    )


def _accelerator_name(device: PciDevice) -> str | None:
    vendor, model = device.vendor_id or 0, device.device_id or 0
    known = _ACCELERATORS.get(vendor, {}).get(model) or _DRIVERS.get(device.driver or "")
    if known:
        return known
    if device.class_code != CLASS_ACCELERATOR or gpu_vendor(device):
        return None
    return _FAMILIES.get(vendor) or f"{vendor:04x}:{model:04x}"


def _told_by_driver(tree: SysfsTree) -> dict[PciAddress | None, Mapping[str, str]]:
    """What NVIDIA's driver says of each of its GPUs in /proc, by PCI address."""
    found: dict[PciAddress | None, Mapping[str, str]] = {}
    for name in tree.names(GPUS):
        text = tree.text(f"{GPUS}/{name}/information") or ""
        pairs = _INFORMATION.findall(text)
        found[_known(name)] = {key.strip(): printable(value) for key, value in pairs if value}
    return found


def _known(name: str) -> PciAddress | None:
    try:
        return pci_address(name)
    except ValueError:
        return None


def _uuid(told: Mapping[str, str]) -> GpuUuid | None:
    """Question marks stand in it until the GPU was first used."""
    uuid = told.get("GPU UUID", "")
    return GpuUuid(uuid) if _UUID.fullmatch(uuid) else None


def _unknown(gpus: tuple[Gpu, ...]) -> Iterator[Unknown]:
    if gpus:
        yield Unknown(subject="GPUs", what="index", because=_ORDER)
    if any(gpu.name is None for gpu in gpus):
        yield Unknown(subject="GPUs", what="name", because="sysfs has PCI ids, not names")
    if any(gpu.vendor is GpuVendor.NVIDIA for gpu in gpus):
        yield Unknown(subject="GPUs", what="nvlinks", because="only the driver's NVML tells them")
    for gpu in gpus:
        if gpu.numa_index is None:
            yield Unknown(subject=f"GPU{gpu.index}", what="numa_index", because=_NO_NUMA)
