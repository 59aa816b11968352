"""Channels that the search finds, beside lines of NCCL's own logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.comm.bandwidth.facts import NEWEST, capability_of, speeds_of
from hpckit.comm.bandwidth.machine import Room, room_of
from hpckit.comm.bandwidth.model import Graph, nvls_graph, ring_graph, tree_graph
from hpckit.comm.bandwidth.values import CommMachine
from hpckit.node.topology import LinkKind
from hpckit.spec.platform import NcclVersion
from tests.fakes.busbw_machines import dgx_a100, meshed, nics, switched

Found = tuple[int, float, float]


def searched(
    machine: CommMachine, nodes: int = 1, nccl: NcclVersion = NEWEST
) -> tuple[Graph, Graph, Graph | None]:
    """The rings, trees and channels through the switch."""
    room = room_of(machine, nodes, nccl)
    assert isinstance(room, Room)
    capability = capability_of(machine.architecture or "") or 0
    speeds = speeds_of(capability, nccl)
    ring = ring_graph(room, speeds, capability)
    assert ring is not None
    return ring, tree_graph(room, speeds, ring, capability), nvls_graph(room, speeds)


def shown(graph: Graph | None) -> Found:
    """A graph as NCCL logs it: `nChannels 12, bw 30/30`, bandwidth within and between nodes."""
    assert graph is not None
    return graph.channels, graph.intra, graph.inter


TWO_H20 = replace(switched(gpus=2), nics=nics(2, 50e9))
SLOW = replace(switched(), nics=nics(1, 1.25e9))


@pytest.mark.parametrize(
    ("machine", "nodes", "nccl", "found"),
    [
        (TWO_H20, 2, NEWEST, (4, 24.0, 24.0)),  # NVIDIA/nccl#1189: 2 NICs of 50 on PCIe of 48
        (dgx_a100(), 1, NEWEST, (12, 20.0, 20.0)),  # a speed is kept where it fills the links
        (switched("sm_100"), 1, NEWEST, (16, 45.0, 45.0)),  # 8 rings of 90 GB/s, doubled
        (switched("sm_100"), 1, NcclVersion(2, 25, 1), (16, 45.0, 45.0)),
        (SLOW, 4, NEWEST, (1, 1.2, 1.2)),  # 10 Gb/s
    ],
)
def test_rings(machine: CommMachine, nodes: int, nccl: NcclVersion, found: Found) -> None:
    """As many channels as the links have room for, of the speed that makes most of them."""
    assert shown(searched(machine, nodes, nccl)[0]) == found


def test_the_log_of_a_board_of_h100() -> None:
    """NVIDIA/nccl#1197 (2.19.4): rings and trees 12 of 30, NVLS 8 of 40/60."""
    ring, tree, nvls = searched(switched(), nccl=NcclVersion(2, 19, 4))
    assert shown(ring) == (12, 30.0, 30.0)
    assert shown(tree)[:2] == (12, 30.0)
    assert shown(nvls) == (8, 40.0, 60.0)


def test_the_log_of_four_v100_in_a_mesh() -> None:
    """NVIDIA/nccl#713 (two links between each pair): 6 rings."""
    machine = meshed("sm_70", LinkKind.NVLINK, gpus=4, count=2)
    assert shown(searched(machine)[0])[:2] == (6, 20.0)


def test_one_channel_a_nic_between_nodes() -> None:
    """400 Gb/s on PCIe 5 are one channel of 48, not doubled beyond four."""
    ring, tree, nvls = searched(switched(), 4)
    assert shown(ring) == (8, 48.0, 48.0)
    assert shown(nvls) == (8, 40.0, 48.0)
    assert tree.is_simple


def test_two_gpus_at_a_nic_share_a_tree() -> None:
    """With fewer NICs than GPUs the tree leaves through two of them."""
    machine = replace(switched(), nics=nics(4, 50e9))
    assert not searched(machine, 4)[1].is_simple


def test_a_head_of_nvls_takes_twice_what_a_channel_does() -> None:
    """7 heads of 50 GB/s would need 8 × 50 of 370.8 GB/s, so they have 40."""
    assert shown(searched(switched(gpus=7))[2]) == (7, 40.0, 60.0)


def test_nvls_needs_two_heads() -> None:
    """A node with one NIC has one head between nodes, which is none."""
    machine = replace(switched(), nics=nics(1, 50e9))
    assert searched(machine, 4)[2] is None


def test_gpus_with_four_nics_each_are_bounded_by_their_pcie() -> None:
    """32 NICs of 100 Gb/s are 400 GB/s, of which 8 GPUs on PCIe 5 take 384."""
    machine = replace(switched(), nics=nics(32, 12.5e9))
    ring = searched(machine, 4)[0]
    assert ring.channels * ring.inter == pytest.approx(384.0)
    room = room_of(machine, 4, NEWEST)
    assert isinstance(room, Room)
    assert room.nic is not None
    assert room.nic.words == "PCIe of 8 GPUs, 48 GB/s each"
