"""The PCI trees of two sources as one, and where a driver's GPUs are on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeVar

from hpckit.model.hardware import CpuTopology, Disagreement, Gpu, Host, NodeTopology
from hpckit.model.pci import PciAddress, PciDevice, PcieLink

Whole = TypeVar("Whole", Gpu, Host, CpuTopology, PciDevice, PcieLink)


def filled(first: Whole, second: Whole) -> Whole:
    """A record with the first one's fields, and the second one's where those say nothing.

    An empty tuple says that there are none, unless the second one has some.
    """
    lacking = {
        field.name: other
        for field in dataclasses.fields(first)
        if (other := getattr(second, field.name)) is not None
        and getattr(first, field.name) in (None, ())
    }
    return dataclasses.replace(first, **lacking)


def merged_pci(
    sysfs: tuple[PciDevice, ...], driver: tuple[PciDevice, ...]
) -> tuple[PciDevice, ...]:
    """The kernel's tree, what it does not say filled by the driver.

    Devices that the driver alone has stand at the end.
    """
    said = {device.address: device for device in driver}
    known = {device.address for device in sysfs}
    return (
        *(_filled(device, said.get(device.address)) for device in sysfs),
        *(device for device in driver if device.address not in known),
    )


class GpuPlaces:
    """The GPUs of the kernel's view, found by a driver's addresses."""

    def __init__(self, sysfs: NodeTopology) -> None:
        self._gpus = {gpu.pci: gpu for gpu in reversed(sysfs.gpus) if gpu.pci is not None}
        self._devices = {device.address: device for device in sysfs.pci}

    def gpu_at(self, gpu: Gpu) -> Gpu | None:
        """The same GPU; for a partition that is a function of its own, the card that it is of."""
        address = self._address(gpu)
        return None if address is None else self._gpus[address]

    def against(self, gpu: Gpu, driver: NodeTopology, word: str) -> Iterator[Disagreement]:
        """What driver and kernel say of one GPU and do not agree on.

        Only the current width is held against the other: NVML's greatest one is that of card and
        slot together, the kernel's that of the card.
        """
        address = self._address(gpu)
        if address is None:
            return
        device = self._devices.get(address)
        own = next((one for one in driver.pci if one.address == gpu.pci), None)
        numa = self._gpus[address].numa_index
        if numa is None and device is not None:
            numa = device.numa_index
        claims = {
            "numa_index": (gpu.numa_index, numa),
            "PCIe width": (_width(own), _width(device)),
        }
        for what, (first, second) in claims.items():
            if first is not None and second is not None and first != second:
                said = (f"{word} says {first}", f"sysfs says {second}")
                yield Disagreement(subject=f"GPU{gpu.index}", what=what, said=said)

    def _address(self, gpu: Gpu) -> PciAddress | None:
        if gpu.pci is None:
            return None
        card = PciAddress(f"{gpu.pci.rpartition('.')[0]}.0")
        return next((address for address in (gpu.pci, card) if address in self._gpus), None)


def _filled(device: PciDevice, said: PciDevice | None) -> PciDevice:
    if said is None:
        return device
    whole = filled(device, said)
    if device.link is None or said.link is None:
        return whole
    return dataclasses.replace(whole, link=filled(device.link, said.link))


def _width(device: PciDevice | None) -> int | None:
    return None if device is None or device.link is None else device.link.width or None
