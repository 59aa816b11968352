"""One node from what the kernel shows of it and what a driver says of its GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from hpckit.node.nics import with_nic_roles
from hpckit.node.paths import with_paths
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import (
    CpuLink,
    CpuTopology,
    Disagreement,
    Gpu,
    GpuLink,
    GpuVendor,
    Host,
    NodeTopology,
    Source,
    Unknown,
)

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
    merged = []
    for device in sysfs:
        other = said.pop(device.address, device)
        link = filled(device.link, other.link) if device.link and other.link else None
        whole = filled(device, other)
        merged.append(dataclasses.replace(whole, link=link or whole.link))
    return (*merged, *said.values())


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


def _width(device: PciDevice | None) -> int | None:
    return None if device is None or device.link is None else device.link.width or None


_DRIVERS: Final = {
    "NVML": GpuVendor.NVIDIA,
    "KFD": GpuVendor.AMD,
    "amd-smi": GpuVendor.AMD,
    "rocm-smi": GpuVendor.AMD,
}
"""Drivers' interfaces by the word that is in their sources' formats, and whose GPUs they show."""

_GUESSES_NUMA: Final = "KFD"
"""Counts nodes with CPUs alone, and puts a GPU of none into the first (capture/kfd)."""


class _Union(NamedTuple):
    gpus: tuple[Gpu, ...]
    of_sysfs: dict[int, int]
    of_driver: dict[int, int]
    disagreements: tuple[Disagreement, ...]


def merge(sysfs: NodeTopology, driver: NodeTopology) -> NodeTopology:
    """The node that both show: the kernel's tree, and the driver's GPUs joined to it by address.

    The driver's GPUs keep their order and what it says of them; the kernel fills what it does not
    say, and knows NUMA nodes better than KFD. After them stand GPUs of other vendors, then, with
    `is_hidden`, those of the driver's vendor that the kernel has and the driver does not show.
    Where the two contradict each other the driver's word stands, and `disagreements` has both.
    `paths` are the driver's, between GPUs; `with_paths` adds the NICs. Nothing unknown is
    kept that either side knows.
    """
    union = _united(sysfs, driver)
    merged = dataclasses.replace(
        sysfs,
        source=Source(
            format=f"{sysfs.source.format}+{driver.source.format}",
            is_synthetic=sysfs.source.is_synthetic or driver.source.is_synthetic,
            is_live=sysfs.source.is_live or driver.source.is_live,
        ),
        host=filled(driver.host, sysfs.host),
        cpu=filled(sysfs.cpu, driver.cpu),
        numa_nodes=sysfs.numa_nodes or driver.numa_nodes,
        gpus=union.gpus,
        gpu_links=(
            *_links(driver.gpu_links, union.of_driver),
            *_links(sysfs.gpu_links, union.of_sysfs),
        ),
        cpu_links=(
            *_cpu_links(driver.cpu_links, union.of_driver),
            *_cpu_links(sysfs.cpu_links, union.of_sysfs),
        ),
        nics=sysfs.nics or driver.nics,
        accelerators=sysfs.accelerators or driver.accelerators,
        pci=merged_pci(sysfs.pci, driver.pci),
        paths=sysfs.paths if driver.paths is None else driver.paths,
        disagreements=(
            *sysfs.disagreements,
            *driver.disagreements,
            *union.disagreements,
        ),
    )
    unknown = (*_renamed(sysfs.unknown, union.of_sysfs), *_renamed(driver.unknown, union.of_driver))
    return dataclasses.replace(merged, unknown=_still_unknown(unknown, merged))


def _united(sysfs: NodeTopology, driver: NodeTopology) -> _Union:
    places = GpuPlaces(sysfs)
    seen = {gpu.index: place for gpu in driver.gpus if (place := places.gpu_at(gpu)) is not None}
    is_guess = _word(driver) == _GUESSES_NUMA
    said = tuple(
        dataclasses.replace(gpu, numa_index=None) if is_guess and gpu.index in seen else gpu
        for gpu in driver.gpus
    )
    shown = tuple(
        dataclasses.replace(filled(gpu, seen[gpu.index]), index=gpu.index, is_hidden=False)
        if gpu.index in seen
        else gpu
        for gpu in said
    )
    vendors = _vendors(driver)
    met = {gpu.index for gpu in seen.values()}
    rest = [gpu for gpu in sysfs.gpus if gpu.index not in met]
    others = [gpu for gpu in rest if gpu.vendor not in vendors and not gpu.is_hidden]
    hidden = [gpu for gpu in rest if gpu.vendor in vendors or gpu.is_hidden]
    free = max((gpu.index for gpu in driver.gpus), default=-1) + 1
    of_sysfs = {gpu.index: at for at, gpu in enumerate((*others, *hidden), start=free)}
    of_sysfs |= {place.index: index for index, place in reversed(seen.items())}
    return _Union(
        gpus=(
            *shown,
            *(dataclasses.replace(gpu, index=of_sysfs[gpu.index]) for gpu in others),
            *(
                dataclasses.replace(gpu, index=of_sysfs[gpu.index], is_hidden=True)
                for gpu in hidden
            ),
        ),
        of_sysfs=of_sysfs,
        of_driver={gpu.index: gpu.index for gpu in driver.gpus},
        disagreements=tuple(
            one for gpu in said for one in places.against(gpu, driver, _word(driver))
        ),
    )


def _vendors(driver: NodeTopology) -> set[GpuVendor | None]:
    """Whose GPUs the driver would show; nobody's where it could not be asked."""
    vendors: set[GpuVendor | None] = {gpu.vendor for gpu in driver.gpus} - {None}
    known = _DRIVERS.get(_word(driver))
    return vendors | ({known} if known is not None and not is_silent(driver) else set())


def _word(driver: NodeTopology) -> str:
    format_ = driver.source.format
    return next((word for word in _DRIVERS if word.lower() in format_.lower()), format_)


def is_silent(driver: NodeTopology) -> bool:
    """Whether a driver could not be asked: the one thing not known is `gpus` as such."""
    return not driver.gpus and any(one.what == "gpus" for one in driver.unknown)


def _links(links: tuple[GpuLink, ...], indices: dict[int, int]) -> list[GpuLink]:
    ends = (
        (link, sorted((indices[link.a], indices[link.b])))
        for link in links
        if link.a in indices and link.b in indices
    )
    return [dataclasses.replace(link, a=a, b=b) for link, (a, b) in ends]


def _cpu_links(links: tuple[CpuLink, ...], indices: dict[int, int]) -> list[CpuLink]:
    return [
        dataclasses.replace(link, gpu_index=indices[link.gpu_index])
        for link in links
        if link.gpu_index in indices
    ]


def _renamed(unknown: tuple[Unknown, ...], indices: dict[int, int]) -> list[Unknown]:
    names = {f"GPU{old}": f"GPU{new}" for old, new in indices.items()}
    return [
        dataclasses.replace(one, subject=names.get(one.subject, one.subject)) for one in unknown
    ]


def _still_unknown(unknown: tuple[Unknown, ...], merged: NodeTopology) -> tuple[Unknown, ...]:
    subjects: dict[str, tuple[object, ...]] = {
        "host": (merged.host,),
        "cpu": (merged.cpu,),
        "GPUs": tuple(gpu for gpu in merged.gpus if not gpu.is_hidden),
        **{f"GPU{gpu.index}": (gpu,) for gpu in merged.gpus},
        **{nic.name: (nic,) for nic in merged.nics},
    }

    def is_known(one: Unknown) -> bool:
        """Whether the field of this name says something of each; other words name no field."""
        parts = subjects.get(one.subject, ())
        return bool(parts) and all(getattr(part, one.what, None) is not None for part in parts)

    return tuple(dict.fromkeys(one for one in unknown if not is_known(one)))


def complete(topology: NodeTopology) -> NodeTopology:
    """The same node with effective PCIe links, what lies between its devices, and NIC roles."""
    return with_nic_roles(with_paths(topology))
