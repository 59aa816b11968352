"""What lies between two devices, in NCCL's words."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.node.path import NcclPath, PathTable
from hpckit.node.paths import with_paths
from hpckit.node.pci import PciDevice, pci_address
from hpckit.node.topology import (
    CpuLink,
    Gpu,
    GpuLink,
    LinkKind,
    Nic,
    NodeTopology,
    NumaNode,
    Source,
)


def _device(address: str, parent: str | None = None, numa: int | None = None) -> PciDevice:
    above = None if parent is None else pci_address(parent)
    return PciDevice(address=pci_address(address), parent=above, numa_index=numa)


def _broadcom(address: str, parent: str | None, subsystem: int) -> PciDevice:
    return dataclasses.replace(
        _device(address, parent),
        vendor_id=0x1000,
        device_id=0xC030,
        subsystem_vendor_id=0x1000,
        subsystem_device_id=subsystem,
    )


def _node(
    *pci: PciDevice,
    gpus: tuple[str, ...],
    nics: tuple[str, ...] = (),
    links: tuple[GpuLink, ...] = (),
    cpu_links: tuple[CpuLink, ...] = (),
) -> NodeTopology:
    return NodeTopology(
        source=Source(format="test"),
        gpus=tuple(Gpu(index=at, pci=pci_address(one)) for at, one in enumerate(gpus)),
        nics=tuple(Nic(index=at, name=f"n{at}", pci=pci_address(n)) for at, n in enumerate(nics)),
        gpu_links=links,
        cpu_links=cpu_links,
        pci=pci,
    )


def _nvlink(a: int, b: int, kind: LinkKind = LinkKind.NVLINK) -> GpuLink:
    return GpuLink(a=a, b=b, kind=kind, count=4)


def _nccl(topology: NodeTopology) -> tuple[tuple[NcclPath | None, ...], ...]:
    paths = with_paths(topology).paths
    assert paths is not None
    return paths.nccl


FAR = (_device("01:00.0", numa=0), _device("02:00.0", numa=1), _device("03:00.0", numa=1))


def test_numa_minus_one_is_one_cpu_to_nccl() -> None:
    """Devices of no known NUMA node are below one CPU in NCCL's own file, far from all others."""
    pci = (_device("01:00.0"), _device("02:00.0"), _device("03:00.0", numa=0))
    words = _nccl(_node(*pci, gpus=("01:00.0", "02:00.0"), nics=("03:00.0",)))
    assert words[0][1] is NcclPath.PHB
    assert words[0][2] is NcclPath.SYS


def test_different_root_complexes_without_numa_are_unknown() -> None:
    """Of a full tree that tells no NUMA node, only one root complex or one node makes PHB."""
    pci = tuple(
        dataclasses.replace(_device(f"{bus}:00.0"), host_bridge=f"pci0000:{bus}")
        for bus in ("00", "80")
    )
    topology = _node(*pci, gpus=("00:00.0", "80:00.0"))
    assert _nccl(topology)[0][1] is None
    one = dataclasses.replace(topology, numa_nodes=(NumaNode(index=0),))
    assert _nccl(one)[0][1] is NcclPath.PHB


def test_broadcom_levels_are_one_switch_to_nccl_and_two_to_nvidia_smi() -> None:
    """Below the two virtual switches of one Broadcom switch NCCL says PIX, nvidia-smi PXB."""
    topology = _node(
        _broadcom("10:00.0", None, 0x0072),
        _broadcom("11:00.0", "10:00.0", 0x1003),
        _broadcom("12:00.0", "10:00.0", 0x1003),
        _device("13:00.0", "11:00.0"),
        _device("14:00.0", "12:00.0"),
        gpus=("13:00.0",),
        nics=("14:00.0",),
    )
    paths = with_paths(topology).paths
    assert paths is not None
    assert (paths.cells[0][1], paths.nccl[0][1]) == ("PXB", NcclPath.PIX)


def test_links_are_nvl_and_one_gpu_between_is_nvb() -> None:
    """NVLink and XGMI are NVL; two GPUs that only share a linked peer are NVB."""
    for kind in (LinkKind.NVLINK, LinkKind.XGMI):
        gpus = ("01:00.0", "02:00.0", "03:00.0")
        words = _nccl(_node(*FAR, gpus=gpus, links=(_nvlink(0, 1, kind), _nvlink(1, 2, kind))))
        assert words[0][1] is NcclPath.NVL
        assert words[0][2] is NcclPath.NVB


def _relay_node(kind: LinkKind = LinkKind.NVLINK) -> NodeTopology:
    """GPU1 shares a switch with the NIC; GPU0, far away, is linked to it."""
    return _node(
        _device("01:00.0", numa=0),
        _device("10:00.0", numa=1),
        _device("11:00.0", "10:00.0"),
        _device("12:00.0", "10:00.0"),
        gpus=("01:00.0", "11:00.0"),
        nics=("12:00.0",),
        links=(_nvlink(0, 1, kind),),
    )


def test_a_linked_peer_beside_the_nic_makes_pxn() -> None:
    """GPU0 sends through GPU1, which is beside the NIC; the NIC's row keeps what lies between."""
    words = _nccl(_relay_node())
    assert words[0][2] is NcclPath.PXN
    assert words[1][2] is NcclPath.PIX
    assert words[2][0] is NcclPath.SYS


def test_a_relay_is_linked_and_near() -> None:
    """A GPU without a link to the relay does not use it, and one across the CPU is no relay."""
    topology = _relay_node()
    unlinked = Gpu(index=2, pci=pci_address("02:00.0"))
    pci = (*topology.pci, _device("02:00.0", numa=0))
    three = dataclasses.replace(topology, gpus=(*topology.gpus, unlinked), pci=pci)
    assert _nccl(three)[2][3] is NcclPath.SYS
    far = _node(*FAR, gpus=("01:00.0", "02:00.0"), nics=("03:00.0",), links=(_nvlink(0, 1),))
    assert _nccl(far)[0][2] is NcclPath.SYS


def test_no_pxn_over_xgmi_or_without_gpudirect() -> None:
    """RCCL does not relay by itself, and nothing relays where GPUDirect RDMA is not there."""
    assert _nccl(_relay_node(LinkKind.XGMI))[0][2] is NcclPath.SYS
    topology = _relay_node()
    deaf = (topology.gpus[0], dataclasses.replace(topology.gpus[1], is_gdr=False))
    assert _nccl(dataclasses.replace(topology, gpus=deaf))[0][2] is NcclPath.SYS
    nics = (dataclasses.replace(topology.nics[0], is_gdr=False),)
    assert _nccl(dataclasses.replace(topology, nics=nics))[0][2] is NcclPath.SYS


def test_no_gpudirect_makes_a_near_nic_go_through_memory() -> None:
    """A NIC on the GPU's own switch is PHB where one of the two has no GPUDirect RDMA."""
    topology = _relay_node()
    nics = (dataclasses.replace(topology.nics[0], is_gdr=False),)
    words = _nccl(dataclasses.replace(topology, nics=nics))
    assert (words[1][2], words[2][1]) == (NcclPath.PHB, NcclPath.PHB)


def test_a_nic_without_address_hangs_on_its_cpu() -> None:
    """NCCL attaches such a NIC to a CPU: PHB or SYS by NUMA node, unless a tool printed better."""
    topology = _node(*FAR, gpus=("01:00.0", "02:00.0"))
    nic = Nic(index=0, name="net0", numa_index=1)
    words = _nccl(dataclasses.replace(topology, nics=(nic,)))
    assert [words[at][2] for at in range(2)] == [NcclPath.SYS, NcclPath.PHB]
    table = PathTable(
        devices=("GPU1", "net0"), cells=(("X", "PIX"), ("PIX", "X")), is_recorded=True
    )
    recorded = dataclasses.replace(topology, nics=(nic,), paths=table)
    assert _nccl(recorded)[1][2] is NcclPath.PIX


def test_c2c_to_the_cpu_of_the_nearest_nic_is_p2c() -> None:
    """A GPU with C2C reaches a NIC of its CPU by P2C, unless a nearer NIC is there."""
    c2c = (CpuLink(gpu_index=0, kind=LinkKind.C2C, numa_index=1),)
    alone = _node(*FAR, gpus=("02:00.0",), nics=("03:00.0", "01:00.0"), cpu_links=c2c)
    assert _nccl(alone)[0][1:] == (NcclPath.P2C, NcclPath.SYS)
    near = (
        _device("10:00.0", numa=1),
        _device("11:00.0", "10:00.0"),
        _device("12:00.0", "10:00.0"),
    )
    nics = ("12:00.0", "03:00.0")
    both = _node(*near, *FAR, gpus=("11:00.0",), nics=nics, cpu_links=c2c)
    assert _nccl(both)[0][1:] == (NcclPath.PIX, NcclPath.PHB)


@pytest.mark.parametrize(
    ("kind", "expected"), [(LinkKind.C2C, NcclPath.C2C), (LinkKind.NVLINK, NcclPath.NVL)]
)
def test_links_to_one_cpu_join_its_gpus(kind: LinkKind, expected: NcclPath) -> None:
    """Two GPUs linked to the same CPU reach each other through it; to two CPUs they do not."""
    gpus = ("02:00.0", "03:00.0")
    links = tuple(CpuLink(gpu_index=at, kind=kind, numa_index=1) for at in range(2))
    assert _nccl(_node(*FAR, gpus=gpus, cpu_links=links))[0][1] is expected
    apart = (links[0], dataclasses.replace(links[1], numa_index=0))
    assert _nccl(_node(*FAR, gpus=gpus, cpu_links=apart))[0][1] is NcclPath.PHB


def _recorded(cells: tuple[tuple[str | None, ...], ...]) -> NodeTopology:
    devices = tuple(f"GPU{at}" for at in range(len(cells)))
    return NodeTopology(
        source=Source(format="test"),
        gpus=tuple(Gpu(index=at) for at in range(len(cells))),
        paths=PathTable(devices=devices, cells=cells, is_recorded=True),
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("NV18", NcclPath.NVL),
        ("XGMI", NcclPath.NVL),
        ("C2C", NcclPath.C2C),
        ("PIX", NcclPath.PIX),
        ("PXB", NcclPath.PXB),
        ("PHB", NcclPath.PHB),
        ("NODE", NcclPath.PHB),
        ("SYS", NcclPath.SYS),
        (None, None),
    ],
)
def test_recorded_cells_have_ncclss_word(cell: str | None, expected: NcclPath | None) -> None:
    """Without a PCI tree NCCL's word follows from the cell that a tool printed."""
    assert _nccl(_recorded((("X", cell), (cell, "X"))))[0][1] is expected
