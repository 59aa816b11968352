"""Which PCIe links traffic passes between GPUs and NICs."""

from __future__ import annotations

import pytest

from hpckit.comm.bandwidth.machine import comm_machine
from hpckit.comm.bandwidth.predict import predict
from hpckit.comm.bandwidth.values import Collective, PcieRate, pcie_rate, shared, slowest_pcie
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from tests.corpus import corpus_file

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
