"""What differs between nodes that should be alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.node.answers import differences, shape
from hpckit.node.path import PathTable
from hpckit.node.topology import Accelerator, GpuHealth, GpuUuid, Host, NodeTopology
from tests.fakes.answers import grouped
from tests.fakes.machine_parts import GIB, with_dead_link, with_nic_down
from tests.fakes.machines import dgx_1v, dgx_h100, four_gpu_box, mi300x
from tests.fakes.odd_machines import MACHINES, hidden_gpus


def _with_gpu(topology: NodeTopology, at: int, **changes: object) -> NodeTopology:
    gpus = list(topology.gpus)
    gpus[at] = replace(gpus[at], **changes)  # type: ignore[arg-type]
    return replace(topology, gpus=tuple(gpus))


def _with_nic(topology: NodeTopology, at: int, **changes: object) -> NodeTopology:
    nics = list(topology.nics)
    nics[at] = replace(nics[at], **changes)  # type: ignore[arg-type]
    return replace(topology, nics=tuple(nics))


@pytest.mark.parametrize("machine", MACHINES)
def test_twins_have_one_shape(machine: object) -> None:
    """The same machine built twice is alike."""
    assert callable(machine)
    assert shape(machine()) == shape(machine())
    assert differences(machine(), machine()) == ()


@pytest.mark.parametrize(
    "other",
    [
        replace(dgx_h100(), host=replace(dgx_h100().host, name="node013")),
        _with_gpu(dgx_h100(), 3, uuid=GpuUuid("GPU-1"), serial="2"),
        _with_gpu(dgx_h100(), 3, health=GpuHealth(temperature_c=80, power_w=600.0)),
        _with_nic(dgx_h100(), 3, guid="0011:2233"),
    ],
)
def test_what_must_differ_is_no_difference(other: NodeTopology) -> None:
    """Names, serial numbers, GUIDs and temperatures are each node's own."""
    assert differences(dgx_h100(), other) == ()
    assert shape(dgx_h100()) == shape(other)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (with_dead_link(dgx_h100(), 5), "GPU5: active NVLinks 17, not 18"),
        (with_nic_down(dgx_h100(), "mlx5_3"), "mlx5_3: state DOWN, not ACTIVE"),
        (_with_nic(dgx_h100(), 2, rate_bytes_per_s=25e9), "mlx5_2: rate 200 Gb/s, not 400 Gb/s"),
        (replace(dgx_h100(), nics=dgx_h100().nics[:-1]), "mlx5_9 missing"),
        (replace(dgx_h100(), gpus=dgx_h100().gpus[:7]), "GPU7 missing"),
        (hidden_gpus(), "GPU2-7: hidden yes, not no"),
        (_with_gpu(dgx_h100(), 1, memory_bytes=40 * GIB), "GPU1: memory 40 GiB, not 80 GiB"),
        (_with_gpu(dgx_h100(), 1, name=None), "GPU1: name unknown, not NVIDIA H100 80GB HBM3"),
        (
            replace(dgx_h100(), host=Host(driver_version="535.1")),
            "node: driver 535.1, not 570.124.06",
        ),
        (
            replace(dgx_h100(), accelerators=(Accelerator(index=0, name="HL-225"),)),
            "accelerator 0 extra",
        ),
    ],
)
def test_one_thing_is_told_once(other: NodeTopology, told: str) -> None:
    """Each difference is one line that names where, what it is and what it should be."""
    assert differences(dgx_h100(), other) == (told,)
    assert shape(dgx_h100()) != shape(other)


def test_lanes_are_compared_and_rates_are_not() -> None:
    """A slot with fewer lanes differs; a link that idles at gen1 does not."""
    box = four_gpu_box()
    gpu = box.gpus[0].pci

    def changed(width: int, speed: float) -> NodeTopology:
        pci = tuple(
            replace(
                one,
                effective=replace(one.effective, width=width, speed_gt_per_s=speed),
            )
            if one.address == gpu and one.effective is not None
            else one
            for one in box.pci
        )
        return replace(box, pci=pci)

    assert differences(box, changed(16, 2.5)) == ()
    assert differences(box, changed(4, 16.0)) == ("GPU0: PCIe width 4, not 16",)


def test_memory_that_is_nearly_the_same_is() -> None:
    """A few MiB that firmware keeps for itself make no node odd."""
    other = dgx_h100()
    numa = tuple(
        replace(one, memory_bytes=(one.memory_bytes or 0) - 100_000_000) for one in other.numa_nodes
    )
    other = replace(other, numa_nodes=numa)
    assert differences(dgx_h100(), other) == ()
    assert len(grouped((("a", dgx_h100()), ("b", other)))) == 1


def test_paths_that_differ_are_told() -> None:
    """A NIC in another slot changes its paths; many such changes are counted."""
    node = dgx_1v()
    assert node.paths is not None
    rows = [list(row) for row in node.paths.cells]
    rows[0][8] = "NODE"
    table = PathTable(devices=node.paths.devices, cells=tuple(map(tuple, rows)))
    assert differences(node, replace(node, paths=table)) == ("GPU0–mlx5_0: path NODE, not PIX",)
    upset = tuple(tuple("SYS" for _ in row) for row in rows)
    told = differences(node, replace(node, paths=PathTable(devices=table.devices, cells=upset)))
    assert told[-1] == "32 more paths differ"  # of 16 NVLinks, 18 pairs of one package


def test_links_of_a_mesh_are_added_up() -> None:
    """Without a count of its own, a GPU has the links to all its peers."""
    node = dgx_1v()
    less = replace(node, gpu_links=node.gpu_links[1:])
    assert "GPU0-1: active NVLinks 5, not 6" in differences(node, less)


def test_groups_begin_with_most_hosts() -> None:
    """The largest group is the measure; the odd ones say what differs from it."""
    odd = with_dead_link(dgx_h100(), 5)
    nodes = (("c2", odd), ("c1", dgx_h100()), ("c3", dgx_h100()), ("c4", mi300x()))
    groups = grouped(nodes)
    assert [group.nodes for group in groups] == [("c1", "c3"), ("c2",), ("c4",)]
    assert groups[0].differs == ()
    assert groups[1].differs == ("GPU5: active NVLinks 17, not 18",)
    assert "GPU0-7: name AMD Instinct MI300X OAM, not NVIDIA H100 80GB HBM3" in groups[2].differs
    assert grouped(()) == ()
