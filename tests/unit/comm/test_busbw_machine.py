"""What of a node decides bus bandwidth, and what it does not tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.comm.bandwidth.machine import comm_machine
from hpckit.comm.bandwidth.predict import predict
from hpckit.comm.bandwidth.values import (
    Algorithm,
    Collective,
    CommMachine,
    PcieRate,
    PcieRing,
    pcie_rate,
    shared,
    slowest_pcie,
)
from hpckit.core.errors import ParseError
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import GpuFabric, NodeTopology
from tests.corpus import corpus_file, corpus_files
from tests.fakes.machine_parts import paths_by_hand
from tests.fakes.machines import (
    dgx_1v,
    dgx_h100,
    four_gpu_box,
    gb200_tray,
    matrix_only,
    mi300x,
)
from tests.unit.node.test_captured import CAPTURES

GB_PER_S = 1e9


def busbw(machine: CommMachine, nodes: int = 1) -> float | None:
    """AllReduce in GB/s."""
    found = predict(machine, nodes)[0].busbw_bytes_per_s
    return None if found is None else round(found / GB_PER_S, 1)


def test_a_board_of_h100() -> None:
    """Links, switch, PCIe and the 8 NICs for jobs, not the 2 for storage, come from the node."""
    machine = comm_machine(dgx_h100(), nodes=2, gpus_per_node=8)
    assert machine.links is not None
    assert (machine.links.per_gpu, machine.links.is_switched) == (18, True)
    assert machine.pcie == PcieRate(speed_gt_per_s=32.0, width=16)
    assert machine.nics is not None
    assert {nic.rate_bytes_per_s for nic in machine.nics} == {50e9}
    assert (len(machine.nics), machine.has_nvls, machine.unknown) == (8, True, ())


def test_a_dead_link_narrows_the_ring() -> None:
    """A GPU with 17 of 18 links bounds all of them."""
    node = dgx_h100()
    links = tuple(
        replace(link, count=17) if 5 in {link.a, link.b} else link for link in node.gpu_links
    )
    machine = comm_machine(replace(node, gpu_links=links), nodes=1, gpus_per_node=8)
    assert machine.links is not None
    assert machine.links.per_gpu == 17


@pytest.mark.parametrize(
    ("node", "gpus", "architecture", "links", "figure"),
    [
        (dgx_1v(), 8, "sm_70", 6, 120.0),  # a cube mesh
        (mi300x(), 8, "gfx942", 7, 336.0),
        (mi300x(), 4, "gfx942", 2, 96.0),  # of 3 links rings use 2
    ],
)
def test_a_mesh_has_no_switch(
    node: NodeTopology, gpus: int, architecture: str, links: int, figure: float
) -> None:
    """Rings use what of a GPU's own links they can, at the same time."""
    machine = comm_machine(node, nodes=1, gpus_per_node=gpus, architecture=architecture)
    assert machine.links is not None
    assert (machine.links.per_gpu, machine.links.is_switched) == (links, False)
    assert busbw(machine) == figure


def test_gpus_without_links_go_by_pcie() -> None:
    """4 GPUs on 2 sockets, one with half its lanes (which NCCL reads as it could have)."""
    machine = comm_machine(four_gpu_box(), nodes=1, gpus_per_node=4)
    assert (machine.links, machine.ring) == (
        None,
        PcieRing(farthest=PathKind.SYS, has_phb=True, sides=(2, 2)),
    )


def test_a_matrix_tells_a_switch_by_the_number_of_links() -> None:
    """18 links to each of 7 others are more than a GPU has: there is a switch."""
    machine = comm_machine(matrix_only(), nodes=1, gpus_per_node=8, architecture="sm_90")
    assert predict(machine, 1)[0].algorithm is Algorithm.NVLS


def in_a_domain(node: NodeTopology) -> NodeTopology:
    """The same node whose GPUs name an NVLink domain."""
    fabric = GpuFabric(state="COMPLETED", cluster_uuid="5f1c", clique_id=1)
    gpus = tuple(replace(gpu, fabric=fabric, architecture="sm_100") for gpu in node.gpus)
    return replace(node, gpus=gpus)


TWO_KINDS = (replace(dgx_h100().gpus[0], architecture="sm_80"), *dgx_h100().gpus[1:])
WITHOUT_RATES = tuple(replace(nic, rate_bytes_per_s=None) for nic in dgx_h100().nics)
UNCOUNTED = tuple(replace(link, count=None) for link in mi300x().gpu_links)


@pytest.mark.parametrize(
    ("node", "nodes", "gpus", "lacking"),
    [
        (matrix_only(), 2, 8, "number of NICs"),
        (dgx_h100(), 1, 16, "number of GPUs"),
        (replace(mi300x(), gpu_links=UNCOUNTED), 1, 8, "links of GPUs"),
        (in_a_domain(gb200_tray()), 4, 4, "size of the NVLink domain"),
        (matrix_only(), 1, 8, "architecture of GPUs"),
        (replace(dgx_h100(), gpus=TWO_KINDS), 1, 8, "architecture of GPUs"),
        (replace(dgx_h100(), nics=WITHOUT_RATES), 2, 8, "rate of NICs"),
    ],
)
def test_what_a_source_does_not_tell_is_not_guessed(
    node: NodeTopology, nodes: int, gpus: int, lacking: str
) -> None:
    """Without a fact there is no figure, and it is named: rates, GPUs, links, a domain's size."""
    machine = comm_machine(node, nodes=nodes, gpus_per_node=gpus)
    assert lacking in [each.partition(":")[0] for each in machine.unknown]
    assert busbw(machine, nodes) is None


def test_a_domain_of_known_size() -> None:
    """Trays of one domain need no NICs, which are then not asked for."""
    node = in_a_domain(gb200_tray())
    machine = comm_machine(node, nodes=4, gpus_per_node=4, domain_nodes=18)
    assert (machine.nics, machine.has_c2c, machine.unknown) == (None, True, ())
    assert busbw(machine, 4) is not None


def test_one_gpu_a_node_needs_no_links() -> None:
    """A ring of single GPUs passes NICs alone."""
    machine = comm_machine(dgx_h100(), nodes=4, gpus_per_node=1)
    assert (machine.links, machine.ring) == (None, None)
    assert busbw(machine, 4) is not None


def test_pairs_of_linked_gpus_go_by_pcie_between_them() -> None:
    """Bridges that join two GPUs each leave the ring to PCIe."""
    node = dgx_h100()
    links = tuple(link for link in node.gpu_links if link.b == link.a + 1 and link.a % 2 == 0)
    bridged = paths_by_hand(replace(node, gpu_links=links))
    machine = comm_machine(bridged, nodes=1, gpus_per_node=8)
    assert machine.links is None
    assert machine.ring == PcieRing(farthest=PathKind.SYS, has_phb=True, sides=(4, 4))


@pytest.mark.parametrize("path", corpus_files(*CAPTURES))
def test_every_capture_has_a_prediction_or_a_reason(path: Path) -> None:
    """No capture ends in an exception; without a figure there are words."""
    try:
        nodes = inspect_capture(path.read_bytes(), path.name)
    except ParseError:
        return
    for node in nodes:
        used = sum(not gpu.is_hidden for gpu in node.gpus) or 1
        for count in (1, 2, 16):
            for architecture in (None, "sm_90"):
                machine = comm_machine(
                    node, nodes=count, gpus_per_node=used, architecture=architecture
                )
                for one in predict(machine, count):
                    assert one.because
                    assert one.busbw_bytes_per_s is None or 0 < one.busbw_bytes_per_s < 5e12


# --- Which PCIe links traffic passes between GPUs and NICs.

ROOT, TIER, GPU_PORT, NIC_PORT, GPU, NIC, FAR = (
    PciAddress(f"0000:0{at}:00.0") for at in range(1, 8)
)


def device(address: PciAddress, parent: PciAddress | None, gt_per_s: float) -> PciDevice:
    """A device on a link of 16 lanes."""
    return PciDevice(
        address=address, parent=parent, link=PcieLink(max_speed_gt_per_s=gt_per_s, max_width=16)
    )


DEVICES = (
    device(ROOT, None, 32.0),
    device(TIER, ROOT, 5.0),
    device(GPU_PORT, TIER, 32.0),
    device(NIC_PORT, TIER, 16.0),
    device(GPU, GPU_PORT, 32.0),
    device(NIC, NIC_PORT, 32.0),
    device(FAR, None, 32.0),
)
TREE = {one.address: one for one in DEVICES}


def speed(address: PciAddress, *ends: PciAddress, by_all: bool = False) -> float | None:
    """The slowest link of a device's way to the ends, in GT/s."""
    rate = pcie_rate(TREE, address, shared(TREE, ends, by_all=by_all))
    return None if rate is None else rate.speed_gt_per_s


def test_traffic_turns_at_the_switch_that_both_hang_on() -> None:
    """What lies above it is not passed, whatever speed it tells."""
    assert (speed(GPU, NIC), speed(NIC, GPU)) == (32.0, 16.0)


def test_traffic_to_another_part_of_the_tree_goes_up_to_the_cpu() -> None:
    """The slowest link of the whole way counts."""
    assert (speed(GPU, FAR), speed(GPU)) == (5.0, 5.0)


def test_where_some_ends_are_elsewhere_it_depends_on_which_are_meant() -> None:
    """To the nearest of them the way is short, to all of them it is not."""
    assert speed(GPU, NIC, FAR) == 32.0
    assert speed(GPU, NIC, FAR, by_all=True) == 5.0


def test_a_device_that_is_not_in_the_tree_has_no_rate() -> None:
    """Nor have several of which one is not."""
    assert pcie_rate(TREE, None, set()) is None
    assert slowest_pcie(TREE, [GPU, None], set()) is None
    assert slowest_pcie(TREE, [GPU, NIC], {TIER}) == PcieRate(speed_gt_per_s=16.0, width=16)


def test_switches_of_oci_s_h100_do_not_bound_its_nics() -> None:
    """Their upper tier tells 5 GT/s, which would be 6 GB/s of each GPU; 16 NICs have 22.5 each."""
    path = corpus_file("nccl-topo-xml/oci/H100-topology.xml")
    (node,) = inspect_capture(path.read_bytes(), path.name)
    found = predict(comm_machine(node, nodes=2, gpus_per_node=8), 2)
    ring = next(one for one in found if one.collective is Collective.ALL_GATHER)
    assert ring.limited_by == "16 NICs of 22.5 GB/s"


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_a_gpu_of_oci_s_h100_has_the_same_way_to_its_nics_beside_others_and_alone(
    gpus: int,
) -> None:
    """A single one turns at the switch that its NICs hang on too."""
    path = corpus_file("nccl-topo-xml/oci/H100-topology.xml")
    (node,) = inspect_capture(path.read_bytes(), path.name)
    machine = comm_machine(node, nodes=2, gpus_per_node=gpus)
    assert machine.pcie == PcieRate(speed_gt_per_s=32.0, width=16)
