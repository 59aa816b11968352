"""Nodes made up for tests: an HGX board with a NIC a GPU, and parts of other machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import (
    Gpu,
    GpuHealth,
    GpuVendor,
    Nic,
    NicPort,
    NodeTopology,
    NvLink,
    NvLinkRemote,
    Source,
)
from hpckit.spec.nic_kind import NicKind

SOURCE = Source(format="synthetic", is_synthetic=True)
X16 = PcieLink(speed_gt_per_s=32.0, width=16, max_speed_gt_per_s=32.0, max_width=16)
CONNECTX_7 = 0x1021
H100 = 0x2330

Part = TypeVar("Part", Gpu, Nic)


def healthy_node(gpus: int = 8) -> NodeTopology:
    """An HGX board: each GPU with 18 NVLinks to switches, and a NIC below its PCIe switch."""
    return with_cells(
        NodeTopology(
            source=SOURCE,
            gpus=tuple(gpu(index) for index in range(gpus)),
            nics=tuple(nic(index) for index in range(gpus)),
            pci=tuple(device for index in range(gpus) for device in branch(index)),
        )
    )


def gpu(index: int, *, links: int = 18, inactive: Sequence[int] = ()) -> Gpu:
    """A GPU of the board, all its links at switches."""
    return Gpu(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        vendor=GpuVendor.NVIDIA,
        pci=gpu_address(index),
        numa_index=index // 4,
        is_mig=False,
        nvlinks=tuple(
            NvLink(index=at, is_active=at not in inactive, remote=NvLinkRemote.SWITCH)
            for at in range(links)
        ),
        health=GpuHealth(clocks_event_reasons=("GpuIdle",), ecc_enabled=True),
    )


def nic(index: int, *, state: str = "ACTIVE", rate_bytes_per_s: float = 50e9) -> Nic:
    """The NIC beside the GPU of that number, 400 Gb/s."""
    return Nic(
        index=index,
        name=f"mlx5_{index}",
        kind=NicKind.INFINIBAND,
        pci=PciAddress(f"{index:04x}:04:00.0"),
        state=state,
        rate_bytes_per_s=rate_bytes_per_s,
        link_layer="InfiniBand",
        ports=(NicPort(index=1, state=state, rate_bytes_per_s=rate_bytes_per_s),),
    )


def gpu_address(index: int) -> PciAddress:
    """Where a GPU of the board is."""
    return PciAddress(f"{index:04x}:03:00.0")


def branch(index: int) -> list[PciDevice]:
    """A root port, a switch's upstream port, two downstream ports, a GPU and a NIC."""

    def at(
        place: str, above: str | None, vendor_id: int | None = None, device_id: int | None = None
    ) -> PciDevice:
        return PciDevice(
            address=PciAddress(f"{index:04x}:{place}"),
            parent=None if above is None else PciAddress(f"{index:04x}:{above}"),
            host_bridge=f"pci{index:04x}:00",
            numa_index=index // 4,
            link=X16,
            vendor_id=vendor_id,
            device_id=device_id,
        )

    return [
        at("00:01.0", None),
        at("01:00.0", "00:01.0"),
        at("02:00.0", "01:00.0"),
        at("03:00.0", "02:00.0", vendor_id=0x10DE, device_id=H100),
        at("02:01.0", "01:00.0"),
        at("04:00.0", "02:01.0", vendor_id=0x15B3, device_id=CONNECTX_7),
    ]


def with_cells(topology: NodeTopology) -> NodeTopology:
    """The paths of a node in which GPU and NIC of one number share a switch; not recorded."""
    names = [f"GPU{gpu.index}" for gpu in topology.gpus] + [nic.name for nic in topology.nics]

    def between(a: str, b: str) -> str:
        if a == b:
            return "X"
        if a.startswith("GPU") and b.startswith("GPU"):
            return "NV18"
        return "PIX" if a.lstrip("GPUmlx5_") == b.lstrip("GPUmlx5_") else "NODE"

    cells = tuple(tuple(between(a, b) for b in names) for a in names)
    return dataclasses.replace(topology, paths=PathTable(devices=tuple(names), cells=cells))


def matrix(text: str, *, is_recorded: bool = True) -> NodeTopology:
    """A node of which only a matrix is known: a row a line, GPUs first, NICs called `NIC0` …."""
    rows = [tuple(line.split()) for line in text.strip().splitlines()]
    names = tuple(row[0] for row in rows)
    return NodeTopology(
        source=SOURCE,
        gpus=tuple(Gpu(index=int(name[3:])) for name in names if name.startswith("GPU")),
        nics=tuple(
            Nic(index=at, name=name)
            for at, name in enumerate(name for name in names if not name.startswith("GPU"))
        ),
        paths=PathTable(
            devices=names, cells=tuple(row[1:] for row in rows), is_recorded=is_recorded
        ),
    )


def even_matrix(count: int, word: str, unlike: Mapping[tuple[int, int], str]) -> NodeTopology:
    """A matrix of GPUs alone with one word in each cell but those named, (row, column)."""
    rows = (
        " ".join(
            [f"GPU{row}"]
            + ["X" if row == at else unlike.get((row, at), word) for at in range(count)]
        )
        for row in range(count)
    )
    return matrix("\n".join(rows))


def both_ways(*pairs: tuple[int, int], word: str) -> dict[tuple[int, int], str]:
    """Cells for `even_matrix`, in both directions."""
    return {pair: word for a, b in pairs for pair in ((a, b), (b, a))}


def change_gpu(topology: NodeTopology, index: int, **changes: object) -> NodeTopology:
    """The node with one GPU changed."""
    return dataclasses.replace(topology, gpus=_changed(topology.gpus, index, changes))


def change_nic(topology: NodeTopology, index: int, **changes: object) -> NodeTopology:
    """The node with one NIC changed."""
    return dataclasses.replace(topology, nics=_changed(topology.nics, index, changes))


def _changed(parts: tuple[Part, ...], index: int, changes: Mapping[str, Any]) -> tuple[Part, ...]:
    return tuple(
        dataclasses.replace(part, **changes) if part.index == index else part for part in parts
    )


def change_device(topology: NodeTopology, address: str, **changes: Any) -> NodeTopology:
    """The node with one PCI device changed."""
    pci = tuple(
        dataclasses.replace(one, **changes) if one.address == address else one
        for one in topology.pci
    )
    return dataclasses.replace(topology, pci=pci)


def lanes(width: int, **changes: Any) -> PcieLink:
    """A link that runs fewer lanes than it can."""
    return dataclasses.replace(X16, width=width, **changes)
