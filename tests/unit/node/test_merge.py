from __future__ import annotations

import dataclasses

import pytest

from hpckit.core.index_list import index_list
from hpckit.node.merge import merge
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import (
    CpuLink,
    CpuTopology,
    Disagreement,
    Gpu,
    GpuLink,
    GpuVendor,
    Host,
    LinkKind,
    NodeTopology,
    NumaNode,
    Source,
    Unknown,
)
from tests.fakes.node import gpu_address, healthy_node

NVML = Source(format="nvml", is_live=True)


def kernel(count: int = 8) -> NodeTopology:
    """What sysfs shows: GPUs by address, without names or links."""
    whole = healthy_node(count)
    return dataclasses.replace(
        whole,
        source=Source(format="sysfs", is_live=True),
        cpu=CpuTopology(arch="x86_64", cpus=index_list(range(8))),
        numa_nodes=(NumaNode(index=0), NumaNode(index=1)),
        gpus=tuple(
            Gpu(
                index=gpu.index,
                vendor=gpu.vendor,
                pci=gpu.pci,
                numa_index=gpu.numa_index,
                cpus=index_list(range(gpu.index, gpu.index + 1)),
            )
            for gpu in whole.gpus
        ),
        paths=None,
    )


def driver(*shown: int) -> NodeTopology:
    """What NVML shows: these of the board's GPUs, counted from 0."""
    board = healthy_node()
    gpus = tuple(
        dataclasses.replace(board.gpus[at], index=index, numa_index=None)
        for index, at in enumerate(shown)
    )
    names = tuple(f"GPU{gpu.index}" for gpu in gpus)
    return NodeTopology(
        source=NVML,
        host=Host(driver_version="570.86"),
        gpus=gpus,
        gpu_links=tuple(
            GpuLink(a=a, b=b, kind=LinkKind.NVLINK, count=18)
            for a in range(len(shown))
            for b in range(a + 1, len(shown))
        ),
        paths=PathTable(
            devices=names,
            cells=tuple(tuple("X" if a == b else "NV18" for b in names) for a in names),
            is_recorded=True,
        ),
    )


def test_joined_by_address() -> None:
    """The driver's facts of a GPU stand, and the kernel's fill what it does not say."""
    merged = merge(kernel(), driver(*range(8)))
    assert [gpu.index for gpu in merged.gpus] == list(range(8))
    assert merged.gpus[5].name == "NVIDIA H100 80GB HBM3"
    assert merged.gpus[5].numa_index == 1
    assert merged.gpus[5].cpus == "5"
    assert (merged.source.format, merged.source.is_live) == ("sysfs+nvml", True)
    assert merged.host.driver_version == "570.86"
    assert merged.cpu.arch == "x86_64"
    assert len(merged.nics) == 8


def test_hidden_by_a_container() -> None:
    """GPUs that a container hides stand after those it shows, under numbers of their own."""
    merged = merge(kernel(), driver(4, 6))
    assert [(gpu.index, gpu.is_hidden) for gpu in merged.gpus[:3]] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert [gpu.pci for gpu in merged.gpus if gpu.is_hidden] == [
        gpu_address(at) for at in (0, 1, 2, 3, 5, 7)
    ]
    assert len({gpu.index for gpu in merged.gpus}) == 8
    assert merged.paths is not None
    assert merged.paths.devices == ("GPU0", "GPU1")
    assert "gpus-hidden" in {one.rule for one in node_findings(merged)}


def test_nothing_shown() -> None:
    """A driver that answers and shows no GPU hides all of its vendor."""
    merged = merge(kernel(2), NodeTopology(source=NVML))
    assert [gpu.is_hidden for gpu in merged.gpus] == [True, True]


@pytest.mark.parametrize("told", [None, 3])
def test_numa_of_kfd(told: int | None) -> None:
    """KFD has a GPU of no node in its first, and counts past nodes without CPUs; sysfs knows."""
    amd = Gpu(index=0, vendor=GpuVendor.AMD, pci=gpu_address(0), numa_index=told)
    because = Unknown(subject="GPU0", what="numa_index", because="numa_node is -1")
    unknown = () if told is not None else (because,)
    base = NodeTopology(source=Source(format="sysfs"), gpus=(amd,), unknown=unknown)
    said = dataclasses.replace(amd, numa_index=0)
    merged = merge(base, NodeTopology(source=Source(format="/sys/class/kfd"), gpus=(said,)))
    assert merged.gpus[0].numa_index == told
    assert (merged.disagreements, merged.unknown) == ((), unknown)


def test_driver_that_cannot_be_asked() -> None:
    """Without the driver's library the kernel's GPUs stand as they are, and the reason is kept."""
    silence = Unknown(subject="GPUs", what="gpus", because="NVML: LibraryNotFound")
    merged = merge(kernel(2), NodeTopology(source=NVML, unknown=(silence,)))
    assert [gpu.is_hidden for gpu in merged.gpus] == [False, False]
    assert merged.unknown == (silence,)


def test_other_vendor() -> None:
    """A GPU of another vendor is not hidden, and keeps its links under its new number."""
    base = kernel(2)
    amd = tuple(
        Gpu(index=at, vendor=GpuVendor.AMD, pci=PciAddress(f"00e{at}:00:00.0")) for at in (0, 1)
    )
    base = dataclasses.replace(
        base,
        gpus=(*amd, *(dataclasses.replace(gpu, index=gpu.index + 2) for gpu in base.gpus)),
        gpu_links=(GpuLink(a=0, b=1, kind=LinkKind.XGMI, count=1),),
        cpu_links=(CpuLink(gpu_index=1, kind=LinkKind.C2C),),
    )
    merged = merge(base, driver(0, 1))
    assert [gpu.vendor for gpu in merged.gpus] == [GpuVendor.NVIDIA] * 2 + [GpuVendor.AMD] * 2
    assert [gpu.is_hidden for gpu in merged.gpus] == [False] * 4
    xgmi = [link for link in merged.gpu_links if link.kind is LinkKind.XGMI]
    assert [(link.a, link.b) for link in xgmi] == [(2, 3)]
    assert [link.gpu_index for link in merged.cpu_links] == [3]


def test_disagreement_on_numa() -> None:
    """Where driver and kernel name another NUMA node, the driver's stands and both are kept."""
    said = driver(0, 1)
    gpus = (dataclasses.replace(said.gpus[0], numa_index=1), said.gpus[1])
    merged = merge(kernel(2), dataclasses.replace(said, gpus=gpus))
    assert merged.gpus[0].numa_index == 1
    assert merged.disagreements == (
        Disagreement(subject="GPU0", what="numa_index", said=("NVML says 1", "sysfs says 0")),
    )
    assert [one.subject for one in node_findings(merged) if one.severity == "warning"] == ["GPU0"]


def test_disagreement_on_width() -> None:
    """Another current width is a disagreement; another greatest one is a slot's, and none."""

    def with_width(width: int, most: int) -> NodeTopology:
        link = PcieLink(width=width, max_width=most)
        device = PciDevice(address=gpu_address(0), link=link)
        return dataclasses.replace(driver(0), pci=(device,))

    assert [one.what for one in merge(kernel(1), with_width(8, 16)).disagreements] == ["PCIe width"]
    assert merge(kernel(1), with_width(16, 8)).disagreements == ()


def test_pci() -> None:
    """The kernel's tree keeps its order, what it does not say is the driver's, the rest follows."""
    base = kernel(1)
    bare = dataclasses.replace(
        base,
        pci=tuple(dataclasses.replace(one, name=None, link=PcieLink(width=16)) for one in base.pci),
    )
    told = (
        PciDevice(address=gpu_address(0), name="H100", link=PcieLink(width=16, max_width=16)),
        PciDevice(address=PciAddress("00aa:00:00.0")),
    )
    merged = merge(bare, dataclasses.replace(driver(0), pci=told))
    assert [one.address for one in merged.pci] == [
        *(one.address for one in base.pci),
        "00aa:00:00.0",
    ]
    (gpu,) = (one for one in merged.pci if one.address == gpu_address(0))
    assert (gpu.name, gpu.parent) == ("H100", "0000:02:00.0")
    assert gpu.link == PcieLink(width=16, max_width=16)


def test_unknown_that_the_other_knows() -> None:
    """What one side does not know and the other says is dropped, also under another number."""
    base = dataclasses.replace(
        kernel(3),
        unknown=(
            Unknown(subject="GPU2", what="name", because="sysfs has no names"),
            Unknown(subject="GPU1", what="name", because="sysfs has no names"),
            Unknown(subject="paths", what="GPU0–NIC0", because="a reason"),
        ),
    )
    said = dataclasses.replace(
        driver(2), unknown=(Unknown(subject="GPUs", what="numa_index", because="NVML: none"),)
    )
    merged = merge(base, said)
    assert merged.unknown == (
        Unknown(subject="GPU2", what="name", because="sysfs has no names"),
        Unknown(subject="paths", what="GPU0–NIC0", because="a reason"),
    )


def test_partition() -> None:
    """A partition that is a function of its own is joined to the card that it is of."""
    base = kernel(1)
    said = driver(0)
    partition = dataclasses.replace(said.gpus[0], index=1, pci=PciAddress("0000:03:00.1"))
    merged = merge(base, dataclasses.replace(said, gpus=(*said.gpus, partition)))
    assert [(gpu.index, gpu.numa_index, gpu.is_hidden) for gpu in merged.gpus] == [
        (0, 0, False),
        (1, 0, False),
    ]
    assert merged.gpus[1].pci == "0000:03:00.1"


def test_no_nvlinks_stay_none() -> None:
    """A GPU of which the driver says that it has no NVLinks keeps that word."""
    said = driver(0)
    gpus = (dataclasses.replace(said.gpus[0], nvlinks=()),)
    assert merge(kernel(1), dataclasses.replace(said, gpus=gpus)).gpus[0].nvlinks == ()


@pytest.mark.parametrize("count", [0, 1, 8])
def test_nothing_of_the_driver(count: int) -> None:
    """A driver of another vendor that shows nothing leaves the kernel's GPUs as they are."""
    base = kernel(count)
    assert merge(base, NodeTopology(source=Source(format="/sys/class/kfd"))).gpus == base.gpus
