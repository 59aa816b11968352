"""What lies between two devices, in nvidia-smi's words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import replace

import pytest

from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.nccl_xml import parse_nccl_xml
from hpckit.node.path import NcclPath, PathTable
from hpckit.node.paths import with_paths
from hpckit.node.pci import PciDevice, PcieLink, pci_address
from hpckit.node.topology import (
    Gpu,
    GpuLink,
    Host,
    LinkKind,
    Nic,
    NodeTopology,
    NumaNode,
    Source,
)
from hpckit.spec.nic_kind import NicKind
from tests.corpus import corpus_file
from tests.fakes.machines import dgx_h100


def _device(
    address: str,
    parent: str | None = None,
    *,
    numa: int | None = None,
    host_bridge: str | None = None,
) -> PciDevice:
    return PciDevice(
        address=pci_address(address),
        parent=None if parent is None else pci_address(parent),
        numa_index=numa,
        host_bridge=host_bridge,
    )


def _pair(
    *devices: PciDevice, host: Host | None = None, numa_nodes: tuple[NumaNode, ...] = ()
) -> NodeTopology:
    """A GPU at the last device but one, a NIC at the last."""
    return NodeTopology(
        source=Source(format="test"),
        host=host or Host(),
        numa_nodes=numa_nodes,
        gpus=(Gpu(index=0, pci=devices[-2].address),),
        nics=(Nic(index=0, name="mlx5_0", pci=devices[-1].address),),
        pci=devices,
    )


def _cell(topology: NodeTopology, row: int = 0, column: int = 1) -> str | None:
    paths = with_paths(topology).paths
    assert paths is not None
    assert paths.cells[row][column] == paths.cells[column][row]
    return paths.cells[row][column]


def _reasons(topology: NodeTopology) -> list[str]:
    return [one.because for one in with_paths(topology).unknown if one.subject == "paths"]


def _two_roots(*numa: int | None) -> tuple[PciDevice, ...]:
    """A device in each of two root complexes."""
    return (
        _device("00:01.0", host_bridge="pci0000:00", numa=numa[0]),
        _device("80:01.0", host_bridge="pci0000:80", numa=numa[1]),
        _device("01:00.0", "00:01.0"),
        _device("81:00.0", "80:01.0"),
    )


def test_one_root_complex_is_phb() -> None:
    """Devices of one root complex are PHB, in a VM's flat tree too, with no NUMA node known."""
    flat = (
        _device("00:05.0", host_bridge="pci0000:00"),
        _device("00:06.0", host_bridge="pci0000:00"),
    )
    assert _cell(_pair(*flat)) == "PHB"


@pytest.mark.parametrize(("numa", "expected"), [((0, 0), "NODE"), ((0, 1), "SYS")])
def test_two_root_complexes_follow_numa(numa: tuple[int, int], expected: str) -> None:
    """Different root complexes are NODE on one NUMA node and SYS on two."""
    assert _cell(_pair(*_two_roots(*numa))) == expected


def test_unknown_numa_is_not_node() -> None:
    """Where one NUMA node is unknown the cell is None, and the reason names both words."""
    topology = _pair(*_two_roots(0, None))
    assert _cell(topology) is None
    assert any("NODE or SYS" in reason for reason in _reasons(topology))


def test_one_numa_node_of_a_real_machine_is_node() -> None:
    """With -1 everywhere one NUMA node makes NODE, unless it is, or may be, that of a VM."""
    node = (NumaNode(index=0),)
    for is_virtual, expected in ((False, "NODE"), (True, None), (None, None)):
        host = Host(is_virtual_machine=is_virtual)
        assert _cell(_pair(*_two_roots(None, None), host=host, numa_nodes=node)) == expected


def test_a_tree_without_root_complexes_cannot_tell_phb_from_node() -> None:
    """Of NCCL's file two devices beside each other below a CPU are None, with the reason."""
    topology = _pair(_device("01:00.0", numa=0), _device("02:00.0", numa=0))
    assert _cell(topology) is None
    assert any("PHB or NODE" in reason for reason in _reasons(topology))
    assert _cell(_pair(_device("01:00.0", numa=0), _device("02:00.0", numa=1))) == "SYS"
    nowhere = _pair(_device("01:00.0"), _device("02:00.0"))
    assert _cell(nowhere) is None
    assert any("neither" in reason for reason in _reasons(nowhere))


def test_links_come_before_the_tree() -> None:
    """Two linked GPUs show their links; a link of none shows what lies between without it."""
    gpus = tuple(Gpu(index=at) for at in range(2))
    topology = NodeTopology(source=Source(format="test"), gpus=gpus)
    for kind, count, expected in (
        (LinkKind.NVLINK, 18, "NV18"),
        (LinkKind.NVLINK, None, "NV"),
        (LinkKind.XGMI, 1, "XGMI"),
        (LinkKind.C2C, 1, "C2C"),
        (LinkKind.NVLINK, 0, None),
    ):
        link = GpuLink(a=0, b=1, kind=kind, count=count)
        assert _cell(dataclasses.replace(topology, gpu_links=(link,))) == expected


def test_rows_are_those_of_nvidia_smi() -> None:
    """Hidden GPUs and plain Ethernet have no row, and NICs are numbered in their order."""
    topology = NodeTopology(
        source=Source(format="test"),
        gpus=(Gpu(index=0), Gpu(index=1, is_hidden=True)),
        nics=(
            Nic(index=0, name="eth0", kind=NicKind.ETHERNET),
            Nic(index=1, name="mlx5_0", kind=NicKind.ROCE),
            Nic(index=2, name="mlx5_1", label="NIC7"),
        ),
    )
    found = with_paths(topology)
    assert found.paths is not None
    assert found.paths.devices == ("GPU0", "NIC0", "NIC7")
    assert [nic.label for nic in found.nics] == [None, "NIC0", "NIC7"]
    assert not found.paths.is_recorded


def test_a_recorded_table_keeps_its_cells() -> None:
    """What a tool printed stands, whatever the tree says, and NIC labels are left alone."""
    table = PathTable(
        devices=("GPU0", "mlx5_0"), cells=(("X", "SYS"), ("SYS", "X")), is_recorded=True
    )
    switch = (
        _device("01:00.0", host_bridge="pci0000:00"),
        _device("02:00.0", "01:00.0"),
        _device("02:01.0", "01:00.0"),
    )
    found = with_paths(dataclasses.replace(_pair(*switch), paths=table))
    assert found.paths is not None
    assert found.paths.cells == table.cells
    assert found.paths.is_recorded
    assert found.nics[0].label is None


def test_pci_devices_get_their_effective_link() -> None:
    """The tree comes back with the least of each way up."""
    wide = dataclasses.replace(_device("02:00.0", "01:00.0"), link=PcieLink(width=16))
    narrow = dataclasses.replace(_device("01:00.0"), link=PcieLink(width=4))
    found = with_paths(NodeTopology(source=Source(format="test"), pci=(narrow, wide)))
    assert found.pci[1].effective == PcieLink(width=4)


GPUS = tuple(f"GPU{index}" for index in range(8))
SAID = PathTable(
    devices=GPUS,
    cells=tuple(tuple("X" if a == b else "NV7" for b in GPUS) for a in GPUS),
    is_recorded=True,
)


def test_what_the_driver_said_stands() -> None:
    """The cells between GPUs are the driver's, whatever the links would give."""
    node = with_paths(replace(dgx_h100(), paths=SAID))
    assert node.paths is not None
    assert [row[:8] for row in node.paths.cells[:8]] == list(SAID.cells)


def test_nics_are_added() -> None:
    """The NICs have rows as they would have without a driver, and the table is recorded no more."""
    whole = with_paths(replace(dgx_h100(), paths=None)).paths
    table = with_paths(replace(dgx_h100(), paths=SAID)).paths
    assert whole is not None
    assert table is not None
    assert table.devices == whole.devices
    assert [row[8:] for row in table.cells] == [row[8:] for row in whole.cells]
    assert not table.is_recorded


def test_a_cell_that_the_driver_could_not_tell_follows_from_the_tree() -> None:
    """A gap in the driver's table is filled."""
    gap = replace(SAID, cells=(("X", None, *SAID.cells[0][2:]), *SAID.cells[1:]))
    table = with_paths(replace(dgx_h100(), paths=gap)).paths
    assert table is not None
    assert table.cells[0][1] == "NV18"


def test_more_devices_than_a_table_has_room_for_have_none() -> None:
    """Where a card shows a thousand functions there is no table, and the reason is told."""
    nics = tuple(Nic(index=at, name=f"mlx5_{at}", kind=NicKind.INFINIBAND) for at in range(1000))
    node = with_paths(replace(dgx_h100(), paths=None, nics=nics))
    assert node.paths is None
    assert "a matrix has at most" in node.unknown[-1].because


def test_an_h100_node_has_the_paths_that_nccl_finds() -> None:
    """Of this dump libnccl 2.32.3 itself finds NVL, PIX for the own card and PXN for the others."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    for gpu in range(8):
        row = paths.nccl[gpu]
        assert Counter(row[:8]) == {NcclPath.LOC: 1, NcclPath.NVL: 7}
        assert Counter(row[8:]) == {NcclPath.PIX: 2, NcclPath.PXN: 14}
        assert {row[8 + 2 * gpu], row[9 + 2 * gpu]} == {NcclPath.PIX}
    assert Counter(paths.nccl[8]) == {
        NcclPath.LOC: 2,
        NcclPath.PIX: 1,
        NcclPath.PHB: 3 + 6,
        NcclPath.SYS: 4 + 8,
    }


def test_nvidia_smi_counts_the_levels_that_nccl_merges() -> None:
    """On the same dump nvidia-smi's word for the own card is PXB: it counts virtual switches."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    assert paths.cells[0][8] == "PXB"
