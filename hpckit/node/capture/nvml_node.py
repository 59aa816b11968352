"""NVML's answers as a topology: GPUs, their links, and the paths between them.

Sources: nvml.h (enums, units); NCCL src/graph/xml.cc (what a link's hidden end is taken for).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.node.capture.nvml import NvmlDeviceReading, NvmlPairReading, NvmlReading, NvmlRefusal
from hpckit.node.capture.nvml_gpus import (
    ALL_GPUS,
    ANCESTORS,
    Doubts,
    LinkEnds,
    c2c_of,
    gpu_of,
    pci_device_of,
    shared,
)
from hpckit.node.path import PathKind, PathTable
from hpckit.node.topology import CpuLink, GpuLink, Host, NodeTopology, Source, Unknown

# nvmlGpuVirtualizationMode_t: passed through, and a part of one, to a virtual machine.
_GUEST_MODES: Final = (1, 2)


def parse_nvml(reading: NvmlReading) -> NodeTopology:
    """What NVML shows of a node: its GPUs by NVML's index, in the order of their PCI addresses.

    Where NVML told nothing, the reason is the one entry of `unknown`. A driver that calls itself
    synthetic makes the source so. Never raises: what a reading cannot tell is None.
    """
    host, host_doubts = _host(reading)
    # The fake library of docker/fake-nvml says so where a driver says its version.
    is_synthetic = "synthetic" in str(reading.driver_version)
    source = Source(format="nvml", is_live=True, is_synthetic=is_synthetic)
    if reading.refused is not None and not reading.devices:
        reason = Unknown(ALL_GPUS, "gpus", f"NVML: {reading.refused.reason}")
        return NodeTopology(source=source, host=host, unknown=(reason,))
    doubts = [Doubts(f"GPU{device.index}") for device in reading.devices]
    each = list(zip(reading.devices, doubts, strict=True))
    gpus = tuple(gpu_of(device, one) for device, one in each)
    pci = [
        pci_device_of(gpu, device.pcie, one) for gpu, (device, one) in zip(gpus, each, strict=True)
    ]
    ends = LinkEnds(gpus, reading.devices)
    links = tuple(link for pair in reading.pairs if (link := ends.between(pair)))
    cpu_links = tuple(
        link
        for gpu, (device, one) in zip(gpus, each, strict=True)
        for link in (ends.to_cpu(gpu.index), c2c_of(gpu, device.c2c, one))
        if isinstance(link, CpuLink)
    )
    paths, path_doubts = _paths(reading.devices, reading.pairs, links)
    return NodeTopology(
        source=source,
        host=host,
        gpus=gpus,
        gpu_links=links,
        cpu_links=cpu_links,
        pci=tuple(device for device in pci if device is not None),
        paths=paths,
        unknown=(*host_doubts, *shared(doubts), *path_doubts),
    )


def _host(reading: NvmlReading) -> tuple[Host, tuple[Unknown, ...]]:
    doubts = Doubts("host")
    modes = {device.virtualization for device in reading.devices}
    told = [mode for mode in modes if not isinstance(mode, NvmlRefusal)]
    host = Host(
        driver_version=doubts.text("driver_version", reading.driver_version),
        nvml_version=doubts.text("nvml_version", reading.nvml_version),
        is_virtual_machine=any(mode in _GUEST_MODES for mode in told) if told else None,
    )
    return host, doubts.found()


def _paths(
    devices: Sequence[NvmlDeviceReading],
    pairs: Sequence[NvmlPairReading],
    links: Sequence[GpuLink],
) -> tuple[PathTable | None, tuple[Unknown, ...]]:
    """What `nvidia-smi topo -m` prints between GPUs: NVLinks before the nearest common ancestor."""
    if not devices:
        return None, ()
    counts = {(link.a, link.b): link.count for link in links}
    cells: dict[tuple[int, int], str] = {}
    unknown: list[Unknown] = []
    for pair in pairs:
        cell = _cell(pair, counts)
        if cell is None:
            told = pair.ancestor
            reason = told.reason if isinstance(told, NvmlRefusal) else f"ancestor {told}"
            what, because = f"path to GPU{pair.b}", f"NVML: {reason}"
            unknown.append(Unknown(f"GPU{pair.a}", what, because))
        else:
            cells[pair.a, pair.b] = cells[pair.b, pair.a] = cell
    indices = [device.index for device in devices]
    table = PathTable(
        devices=tuple(f"GPU{index}" for index in indices),
        cells=tuple(
            tuple(PathKind.SELF if a == b else cells.get((a, b)) for b in indices) for a in indices
        ),
        is_recorded=True,
    )
    return table, tuple(unknown)


def _cell(pair: NvmlPairReading, counts: Mapping[tuple[int, int], int | None]) -> str | None:
    count = counts.get((pair.a, pair.b))
    if count:
        return f"{PathKind.NV}{count}"
    return None if isinstance(pair.ancestor, NvmlRefusal) else ANCESTORS.get(pair.ancestor)
