"""One node from what the kernel shows of it and what a driver says of its GPUs."""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from hpckit.decide.merge_pci import GpuPlaces, filled, merged_pci
from hpckit.model.hardware import (
    CpuLink,
    Disagreement,
    Gpu,
    GpuLink,
    GpuVendor,
    NodeTopology,
    Source,
    Unknown,
)


class _Driver(NamedTuple):
    """A driver's interface: the word that is in its sources' formats, and whose GPUs it shows."""

    word: str
    vendor: GpuVendor


_DRIVERS: Final = (
    _Driver("NVML", GpuVendor.NVIDIA),
    _Driver("KFD", GpuVendor.AMD),
    _Driver("amd-smi", GpuVendor.AMD),
    _Driver("rocm-smi", GpuVendor.AMD),
)

_GUESSES_NUMA: Final = "KFD"
"""Counts nodes with CPUs alone, and puts a GPU of none into the first (parse/kfd)."""

_ALL_GPUS: Final = "GPUs"

WHOLE: Final = "gpus"
"""`Unknown.what` of a driver that could not be asked of any GPU."""


class _Union(NamedTuple):
    """The GPUs of both, and what became of each side's indices."""

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
    `paths` are the driver's, between GPUs; `paths.with_paths` adds the NICs. Nothing unknown is
    kept that either side knows.
    """
    union = _united(sysfs, driver)
    merged = dataclasses.replace(
        sysfs,
        source=_source(sysfs.source, driver.source),
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


# --- GPUs ----------------------------------------------------------------------------------------


def _united(sysfs: NodeTopology, driver: NodeTopology) -> _Union:
    places = GpuPlaces(sysfs)
    seen = {gpu.index: place for gpu in driver.gpus if (place := places.gpu_at(gpu)) is not None}
    is_guess = _word(driver) == _GUESSES_NUMA
    said = tuple(
        dataclasses.replace(gpu, numa_index=None) if is_guess and gpu.index in seen else gpu
        for gpu in driver.gpus
    )
    shown = tuple(gpu if gpu.index not in seen else _joined(gpu, seen[gpu.index]) for gpu in said)
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


def _joined(gpu: Gpu, place: Gpu) -> Gpu:
    return dataclasses.replace(filled(gpu, place), index=gpu.index, is_hidden=False)


def _vendors(driver: NodeTopology) -> set[GpuVendor | None]:
    """Whose GPUs the driver would show; nobody's where it could not be asked."""
    vendors: set[GpuVendor | None] = {gpu.vendor for gpu in driver.gpus} - {None}
    known = _driver(driver)
    if known is not None and not is_silent(driver):
        vendors.add(known.vendor)
    return vendors


def _driver(driver: NodeTopology) -> _Driver | None:
    """By its source, where it shows no GPU that would tell."""
    format_ = driver.source.format.lower()
    return next((one for one in _DRIVERS if one.word.lower() in format_), None)


def _word(driver: NodeTopology) -> str:
    known = _driver(driver)
    return driver.source.format if known is None else known.word


def is_silent(driver: NodeTopology) -> bool:
    """Whether a driver could not be asked: the one thing not known is `gpus` as such."""
    return not driver.gpus and any(one.what == WHOLE for one in driver.unknown)


# --- what hangs on the indices -------------------------------------------------------------------


def _links(links: tuple[GpuLink, ...], indices: dict[int, int]) -> list[GpuLink]:
    found: list[GpuLink] = []
    for link in links:
        if link.a in indices and link.b in indices:
            a, b = sorted((indices[link.a], indices[link.b]))
            found.append(dataclasses.replace(link, a=a, b=b))
    return found


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
        _ALL_GPUS: tuple(gpu for gpu in merged.gpus if not gpu.is_hidden),
        **{f"GPU{gpu.index}": (gpu,) for gpu in merged.gpus},
        **{nic.name: (nic,) for nic in merged.nics},
    }
    kept = (one for one in unknown if not _is_known(subjects.get(one.subject, ()), one.what))
    return tuple(dict.fromkeys(kept))


def _is_known(subjects: tuple[object, ...], what: str) -> bool:
    """Whether the field of this name says something of each; other words name no field."""
    return bool(subjects) and all(getattr(one, what, None) is not None for one in subjects)


def _source(sysfs: Source, driver: Source) -> Source:
    return Source(
        format=f"{sysfs.format}+{driver.format}",
        is_synthetic=sysfs.is_synthetic or driver.is_synthetic,
        is_live=sysfs.is_live or driver.is_live,
    )
