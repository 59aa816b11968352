"""hwloc's XML of real machines: what each file is known to hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.hwloc import is_hwloc_xml, parse_hwloc_xml
from hpckit.node.topology import GpuVendor, LinkKind, NodeTopology
from hpckit.spec.nic_kind import NicKind
from tests.corpus import corpus_file, corpus_files


class Counts(NamedTuple):
    """What a file holds, counted in it by hand."""

    packages: int
    cores: int
    nodes: int
    gpus: int
    rdma: int
    ethernet: int
    functions: int


COUNTS = {
    "fluxcore-corona": Counts(2, 48, 2, 8, 1, 2, 62),
    "fluxcore-sierra": Counts(2, 44, 6, 4, 4, 2, 13),
    "fluxcore-tuo.CPX": Counts(4, 96, 4, 24, 4, 1, 52),
    "fluxcore-tuo.SPX": Counts(4, 96, 4, 4, 4, 1, 52),
    "fluxsched-catalyst-crayivb": Counts(2, 24, 2, 0, 1, 4, 16),
    "fluxsched-corona240-8xMI50": Counts(2, 48, 2, 8, 1, 2, 62),
    "hwloc-32em64t-2n8c+dax+nvme+mic+dimms": Counts(2, 16, 2, 0, 1, 2, 136),
    "hwloc-40intel64-2g2n4c+pcilocality": Counts(4, 40, 4, 0, 1, 4, 37),
    "hwloc-96em64t-4n4d3ca2co-pci": Counts(16, 96, 4, 0, 0, 8, 26),
    "hwloc-AMD-19h-Zen4-2xEpyc-9654": Counts(2, 192, 1, 0, 0, 0, 0),
    "hwloc-Intel-SapphireRapids-2xXeonMax9460": Counts(2, 80, 1, 0, 0, 0, 0),
    "hwloc-nvidiaDGX2": Counts(2, 4, 2, 16, 0, 0, 84),
    "mpibind-coral-butte-hwloc1": Counts(2, 44, 6, 4, 4, 2, 28),
    "mpibind-coral-ea-hwloc1": Counts(2, 20, 2, 4, 2, 2, 22),
    "mpibind-coral-lassen": Counts(2, 40, 2, 4, 4, 2, 28),
    "mpibind-cts1-pascal": Counts(2, 36, 2, 2, 1, 2, 14),
    "mpibind-cts1-quartz-smt1": Counts(2, 36, 2, 0, 1, 4, 12),
    "mpibind-epyc-corona": Counts(2, 48, 8, 4, 1, 2, 30),
    "mpibind-epyc-corona-p2": Counts(2, 48, 2, 8, 1, 2, 62),
    "mpibind-g4dnmetal": Counts(2, 48, 2, 8, 1, 1, 31),
    "prrte-test-topo": Counts(2, 176, 4, 0, 2, 1, 4),
    "prrte-turin-4gpu": Counts(2, 128, 8, 4, 6, 1, 182),
    "prrte-turin-4gpu-nvml": Counts(2, 128, 8, 4, 6, 1, 48),
}


def read(path: Path) -> NodeTopology:
    """The topology of a file."""
    document = parse_xml(path.read_bytes(), "hwloc")
    assert is_hwloc_xml(document)
    return parse_hwloc_xml(document)


def machine(name: str) -> NodeTopology:
    """The topology of a file of the corpus."""
    return read(corpus_file(f"hwloc-xml/{name}.xml"))


@pytest.mark.parametrize("path", corpus_files("hwloc-xml/*.xml"))
def test_counts(path: Path) -> None:
    """Each file gives as many packages, cores, nodes, GPUs, NICs and functions as are in it."""
    found = read(path)
    ethernet = sum(nic.kind is NicKind.ETHERNET for nic in found.nics)
    assert (
        Counts(
            len(found.cpu.packages),
            found.cpu.cores or 0,
            len(found.numa_nodes),
            len(found.gpus),
            len(found.nics) - ethernet,
            ethernet,
            len(found.pci),
        )
        == COUNTS[path.stem]
    )


@pytest.mark.parametrize("path", corpus_files("hwloc-xml/*.xml"))
def test_nothing_contradicts(path: Path) -> None:
    """Numbers are unique, parents come before children, and nodes that are named are there."""
    found = read(path)
    nodes = {node.index for node in found.numa_nodes}
    for things in (found.gpus, found.nics, found.numa_nodes, found.cpu.packages):
        numbers = [thing.index for thing in things]
        assert numbers == sorted(set(numbers))
    seen: set[str] = set()
    for device in found.pci:
        assert device.parent is None or device.parent in seen
        assert device.address not in seen
        seen.add(device.address)
    assert {gpu.numa_index for gpu in found.gpus} - {None} <= nodes
    assert {nic.numa_index for nic in found.nics} - {None} <= nodes
    assert {device.numa_index for device in found.pci} - {None} <= nodes
    assert {gpu.pci for gpu in found.gpus} - {None} <= seen
    assert {nic.pci for nic in found.nics} - {None} <= seen


@pytest.mark.parametrize("path", corpus_files("hwloc-xml/prrte-turin-4gpu*.xml"))
def test_places_of_h200(path: Path) -> None:
    """Turin's four H200 are at NUMA nodes 1, 2, 6, 7, each on a root complex with an adapter."""
    found = read(path)
    assert [gpu.numa_index for gpu in found.gpus] == [1, 2, 6, 7]
    roots = {one.address: one.host_bridge for one in found.pci}
    adapters = [nic for nic in found.nics if nic.kind is NicKind.INFINIBAND]
    assert [roots[gpu.pci] for gpu in found.gpus if gpu.pci] == [
        roots[nic.pci] for nic in adapters if nic.pci
    ]
    assert [nic.state for nic in adapters] == ["DOWN", "DOWN", "ACTIVE", "ACTIVE"]
    assert [nic.name for nic in found.nics if nic.kind is NicKind.ROCE] == ["mlx5_1", "mlx5_2"]


def test_links_of_h200() -> None:
    """Between Turin's H200 there are six direct NVLinks each, as nvidia-smi shows (NV6)."""
    found = machine("prrte-turin-4gpu-nvml")
    links = {(link.a, link.b): (link.count, link.is_switched) for link in found.gpu_links}
    assert links == {(a, b): (6, False) for a in range(4) for b in range(a + 1, 4)}
    assert {link.bandwidth_bytes_per_s for link in found.gpu_links} == {150e9}


def test_links_of_dgx2() -> None:
    """Each pair of a DGX-2 has six NVLinks through its switches, those of the two boards too."""
    found = machine("hwloc-nvidiaDGX2")
    assert len(found.gpu_links) == 16 * 15 // 2
    assert {(link.count, link.is_switched) for link in found.gpu_links} == {(6, True)}
    assert Counter(gpu.numa_index for gpu in found.gpus) == {0: 8, 1: 8}


@pytest.mark.parametrize(("mode", "parts", "links"), [("SPX", 1, 6), ("CPX", 6, 276)])
def test_mi300a(mode: str, parts: int, links: int) -> None:
    """MI300A's partitions are GPUs of one function, all joined by XGMI of unknown speed."""
    found = machine(f"fluxcore-tuo.{mode}")
    assert Counter(gpu.pci for gpu in found.gpus) == {f"000{at}:02:00.0": parts for at in range(4)}
    assert [gpu.numa_index for gpu in found.gpus] == [at for at in range(4) for _ in range(parts)]
    assert Counter(link.kind for link in found.gpu_links) == {LinkKind.XGMI: links}
    assert {link.bandwidth_bytes_per_s for link in found.gpu_links} == {None}
    assert [nic.name for nic in found.nics if nic.kind is NicKind.SLINGSHOT] == [
        *("hsi0", "hsi1", "hsi2", "hsi3")
    ]


def test_rsmi_order() -> None:
    """Corona's MI50 are numbered as ROCm SMI does, which is not by bus id."""
    found = machine("fluxcore-corona")
    assert [gpu.pci for gpu in found.gpus][:3] == ["0000:63:00.0", "0000:43:00.0", "0000:03:00.0"]
    assert {gpu.vendor for gpu in found.gpus} == {GpuVendor.AMD}
    assert {gpu.memory_bytes for gpu in found.gpus} == {33_538_048 * 1024}


def test_power9() -> None:
    """Sierra's nodes of GPU memory have no CPUs, and its left-out bridges are told."""
    found = machine("fluxcore-sierra")
    assert [(node.index, node.cpus) for node in found.numa_nodes] == [
        (0, "0-87"),
        (8, "88-175"),
        *((index, "") for index in (252, 253, 254, 255)),
    ]
    assert found.numa_nodes[0].distances == (10, 40, 80, 80, 80, 80)
    assert [gpu.numa_index for gpu in found.gpus] == [0, 0, 8, 8]
    assert ("PCI devices", "parent") in {(one.subject, one.what) for one in found.unknown}


def test_azure() -> None:
    """HBv4's virtual functions are told apart: InfiniBand, the accelerated network, and eth0."""
    found = machine("prrte-test-topo")
    assert found.host.is_virtual_machine is True
    assert [(nic.name, nic.kind, nic.is_virtual, nic.pci) for nic in found.nics] == [
        ("mlx5_an0", NicKind.ROCE, True, "8f23:00:02.0"),
        ("mlx5_ib0", NicKind.INFINIBAND, True, "0101:00:00.0"),
        ("eth0", NicKind.ETHERNET, None, None),
    ]


def test_several_nodes_beside_a_host_bridge() -> None:
    """A host bridge beside two sockets leaves the node of what is on it unknown."""
    found = machine("hwloc-40intel64-2g2n4c+pcilocality")
    assert {nic.numa_index for nic in found.nics} == {None}
    assert ("NICs", "numa_index") in {(one.subject, one.what) for one in found.unknown}


def test_knights_corner() -> None:
    """A Xeon Phi card is an accelerator, not a GPU."""
    found = machine("hwloc-32em64t-2n8c+dax+nvme+mic+dimms")
    assert [(one.pci, one.numa_index) for one in found.accelerators] == [("0000:83:00.0", 1)]
