"""One node from what the kernel shows of it and what a driver says of its GPUs.

Only the standard library and the pure core are used: the probe of other nodes runs this as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from hpckit.core.errors import InvalidValue
from hpckit.core.excerpt import refuse_node
from hpckit.node.capture.kfd import KFD_PATTERNS, KFD_ROOT, parse_kfd
from hpckit.node.capture.sysfs_files import SYSFS_PATTERNS, parse_sysfs
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

if TYPE_CHECKING:
    from hpckit.core.file_tree import FileTree
    from hpckit.node.capture.nvml import NvmlDriver
    from hpckit.node.capture.sysfs import SysfsFiles

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
    return dataclasses.replace(first, **lacking) if lacking else first


def merged_pci(
    sysfs: tuple[PciDevice, ...], driver: tuple[PciDevice, ...]
) -> tuple[PciDevice, ...]:
    """The kernel's tree, what it does not say filled by the driver.

    Devices that the driver alone has stand at the end.
    """
    said = {device.address: device for device in driver}
    merged = []
    for device in sysfs:
        other = said.pop(device.address, None)
        if other is None:
            merged.append(device)
            continue
        link = filled(device.link, other.link) if device.link and other.link else None
        whole = filled(device, other)
        merged.append(dataclasses.replace(whole, link=link or whole.link))
    return (*merged, *said.values())


def _place(gpu: Gpu, at: Mapping[PciAddress, Gpu]) -> Gpu | None:
    """The same GPU; for a partition that is a function of its own, the card that it is of."""
    if gpu.pci is None:
        return None
    return at.get(gpu.pci) or at.get(PciAddress(f"{gpu.pci.rpartition('.')[0]}.0"))


def _disagreements(
    said: Iterable[Gpu], seen: Mapping[int, Gpu], sysfs: NodeTopology, driver: NodeTopology
) -> Iterator[Disagreement]:
    """What driver and kernel say of the same GPU and do not agree on.

    Only the current width is held against the other: NVML's greatest one is that of card and
    slot together, the kernel's that of the card.
    """
    widths, own = (
        {device.address: device.link.width for device in side.pci if device.link}
        for side in (sysfs, driver)
    )
    for gpu in said:
        place = seen.get(gpu.index)
        if place is None or place.pci is None or gpu.pci is None:
            continue
        claims = {
            "numa_index": (gpu.numa_index, place.numa_index),
            "PCIe width": (own.get(gpu.pci) or None, widths.get(place.pci) or None),
        }
        for what, (first, second) in claims.items():
            if first is not None and second is not None and first != second:
                words = (f"{_word(driver)} says {first}", f"sysfs says {second}")
                yield Disagreement(subject=f"GPU{gpu.index}", what=what, said=words)


_DRIVERS: Final = {
    "NVML": GpuVendor.NVIDIA,
    "KFD": GpuVendor.AMD,
    "amd-smi": GpuVendor.AMD,
    "rocm-smi": GpuVendor.AMD,
}
"""Drivers' interfaces by the word that is in their sources' formats, and whose GPUs they show."""

_GUESSES_NUMA: Final = "KFD"
"""Counts nodes with CPUs alone, and puts a GPU of none into the first (capture/kfd)."""


def merge(sysfs: NodeTopology, driver: NodeTopology) -> NodeTopology:
    """The node that both show: the kernel's tree, and the driver's GPUs joined to it by address.

    The driver's GPUs keep their order and what it says of them; the kernel fills what it does not
    say, and knows NUMA nodes better than KFD. After them stand GPUs of other vendors, then, with
    `is_hidden`, those of the driver's vendor that the kernel has and the driver does not show.
    Where the two contradict each other the driver's word stands, and `disagreements` has both.
    `paths` are the driver's, between GPUs; `with_paths` adds the NICs. Nothing unknown is
    kept that either side knows.
    """
    gpus, of_sysfs, odd = _united(sysfs, driver)
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
        gpus=gpus,
        gpu_links=(*driver.gpu_links, *_links(sysfs.gpu_links, of_sysfs)),
        cpu_links=(*driver.cpu_links, *_cpu_links(sysfs.cpu_links, of_sysfs)),
        nics=sysfs.nics or driver.nics,
        accelerators=sysfs.accelerators or driver.accelerators,
        pci=merged_pci(sysfs.pci, driver.pci),
        paths=sysfs.paths if driver.paths is None else driver.paths,
        disagreements=(*sysfs.disagreements, *driver.disagreements, *odd),
    )
    unknown = (*_renamed(sysfs.unknown, of_sysfs), *driver.unknown)
    return dataclasses.replace(merged, unknown=_still_unknown(unknown, merged))


def _united(
    sysfs: NodeTopology, driver: NodeTopology
) -> tuple[tuple[Gpu, ...], dict[int, int], Iterator[Disagreement]]:
    """The GPUs of both, the new number of each of the kernel's, and what is told of them twice."""
    at = {gpu.pci: gpu for gpu in reversed(sysfs.gpus) if gpu.pci is not None}
    seen = {gpu.index: place for gpu in driver.gpus if (place := _place(gpu, at)) is not None}
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
    gpus = (
        *shown,
        *(dataclasses.replace(gpu, index=of_sysfs[gpu.index]) for gpu in others),
        *(dataclasses.replace(gpu, index=of_sysfs[gpu.index], is_hidden=True) for gpu in hidden),
    )
    return gpus, of_sysfs, _disagreements(said, seen, sysfs, driver)


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


def inspect_here(
    files: SysfsFiles, driver: NvmlDriver | None, *, stands_in: str | None = None
) -> NodeTopology:
    """The node whose files and GPU driver these are; None is not asked. Raises ParseError.

    `stands_in` is the name of a node that shows a machine which it is not: all of it is made up.
    """
    tree = files.read((*SYSFS_PATTERNS, *KFD_PATTERNS))
    try:
        topology = _topology(tree, driver)
    except InvalidValue as error:
        raise refuse_node(error, "/sys") from error
    if stands_in is None:
        return topology
    return dataclasses.replace(
        topology,
        host=dataclasses.replace(topology.host, name=stands_in),
        source=dataclasses.replace(topology.source, is_synthetic=True),
    )


def _topology(tree: FileTree, driver: NvmlDriver | None) -> NodeTopology:
    topology = parse_sysfs(tree)
    if any(path.startswith(f"{KFD_ROOT}/nodes/") for path in tree.texts):
        topology = merge(topology, parse_kfd(tree))
    said = None if driver is None else driver.read()
    if said is not None and (not is_silent(said) or _may_be_nvidia(topology)):
        topology = merge(topology, said)
    source = dataclasses.replace(topology.source, format="live", is_live=True)
    return complete(dataclasses.replace(topology, source=source))


def _may_be_nvidia(topology: NodeTopology) -> bool:
    """Whether NVML's silence is worth a word: not where all GPUs are of other makers."""
    makers = {gpu.vendor for gpu in topology.gpus}
    return not makers or bool(makers & {GpuVendor.NVIDIA, None})
