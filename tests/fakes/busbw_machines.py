"""Machines of which NCCL's model says something, by what decides it."""

from __future__ import annotations

from dataclasses import replace

from hpckit.comm.bandwidth.values import (
    CommMachine,
    CommNic,
    PcieRate,
    PcieRing,
    RingLinks,
)
from hpckit.node.path import PathKind
from hpckit.node.topology import CpuTopology, LinkKind

GEN4 = PcieRate(speed_gt_per_s=16.0, width=16)
GEN5 = PcieRate(speed_gt_per_s=32.0, width=16)
INTEL = CpuTopology(arch="x86_64", vendor="GenuineIntel", family=6, model_number=0x8F)
EPYC = CpuTopology(arch="x86_64", vendor="AuthenticAMD", family=25, model_number=1)


def nics(count: int, rate_bytes_per_s: float, pcie: PcieRate | None = GEN5) -> tuple[CommNic, ...]:
    """NICs alike."""
    return (CommNic(rate_bytes_per_s=rate_bytes_per_s, pcie=pcie),) * count


def switched(architecture: str = "sm_90", links: int = 18, gpus: int = 8) -> CommMachine:
    """GPUs at NVSwitches, each with a NIC of 400 Gb/s."""
    return CommMachine(
        gpus=gpus,
        architecture=architecture,
        links=RingLinks(kind=LinkKind.NVLINK, per_gpu=links, is_switched=True),
        pcie=GEN5,
        cpu=INTEL,
        nics=nics(gpus, 50e9),
        has_nvls=architecture != "sm_80",
    )


def dgx_a100() -> CommMachine:
    """8 GPUs of 12 links at switches, 8 NICs of 200 Gb/s, PCIe of generation 4."""
    return replace(switched("sm_80", 12), pcie=GEN4, nics=nics(8, 25e9, GEN4), cpu=EPYC)


def meshed(architecture: str, kind: LinkKind, *, gpus: int, count: int) -> CommMachine:
    """GPUs of which each has so many links to each other."""
    peers = gpus - 1
    links = RingLinks(kind=kind, per_gpu=count * peers, per_pair=count, pairs=peers)
    return CommMachine(gpus=gpus, architecture=architecture, links=links, cpu=EPYC)


def over_pcie(ring: PcieRing | None = None, cpu: CpuTopology = EPYC) -> CommMachine:
    """8 GPUs without links, on PCIe of generation 4."""
    found = PcieRing(farthest=PathKind.PXB) if ring is None else ring
    return CommMachine(gpus=8, architecture="sm_86", ring=found, pcie=GEN4, cpu=cpu)
