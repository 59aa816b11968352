"""Where devices sit, from a PCI tree or from a matrix."""

from __future__ import annotations

from dataclasses import replace

from hpckit.core.index_list import IndexList
from hpckit.node.links import nearest_nics
from hpckit.node.path import PathKind, PathTable
from hpckit.node.pci import CLASS_3D, PciAddress
from hpckit.node.places import Branch, places
from hpckit.node.topology import Gpu, Nic, NodeTopology, NumaNode, Source
from tests.fakes.machine_parts import GEN5, bridge, end_point, lanes
from tests.fakes.machines import cpu_only, dgx_h100, matrix_only

X16 = lanes(GEN5, 16)


def _gpus(branch: Branch) -> list[int]:
    return [gpu.index for gpu in branch.gpus]


def _bare(**parts: object) -> NodeTopology:
    return replace(NodeTopology(source=Source(format="fake")), **parts)  # type: ignore[arg-type]


def test_switches_are_bridges_with_more_than_one_card() -> None:
    """A switch holds its cards; root ports and downstream ports are left out."""
    first, second = places(dgx_h100())
    assert [_gpus(branch) for branch in first.root.branches] == [[0, 1], [2, 3]]
    assert [branch.bridge and branch.bridge.address for branch in second.root.branches] == [
        "0000:31:00.0",
        "0000:41:00.0",
    ]
    assert [nic.name for nic in first.root.nics] == ["mlx5_8"]


def test_switches_below_switches_stay_so() -> None:
    """A tree of two levels of switches is one of two levels here."""
    pci = [bridge("0000:10:00.0", None, X16, 0)]
    for at in range(2):
        inner = f"0000:2{at}:00.0"
        pci.append(bridge(inner, "0000:10:00.0", X16, 0))
        pci += [end_point(f"0000:3{at}:0{n}.0", inner, CLASS_3D, X16, 0) for n in range(2)]
        pci[-1] = replace(pci[-1], address=PciAddress(f"0000:4{at}:00.0"))
    cards = [one for one in pci if one.class_code == CLASS_3D]
    gpus = tuple(Gpu(index=at, pci=one.address) for at, one in enumerate(cards))
    (place,) = places(_bare(pci=tuple(pci), gpus=gpus))
    (outer,) = place.root.branches
    assert [_gpus(inner) for inner in outer.branches] == [[0, 1], [2, 3]]


def test_matrix_groups_what_shares_a_switch() -> None:
    """Without a tree, PIX and PXB tell which GPUs and NICs share one, and GPUs where it is."""
    first, second = places(matrix_only())
    assert [(_gpus(one), one.is_inferred) for one in first.root.branches] == [
        ([0, 1], True),
        ([2, 3], True),
    ]
    assert [nic.name for nic in first.root.nics] == ["mlx5_8"]
    assert (first.numa_index, second.numa_index) == (0, 1)


def test_gpus_without_a_numa_node_stand_beside_their_cpus() -> None:
    """Where only CPU affinity is known, GPUs of one affinity are together, in the CPUs' order."""
    gpus = (
        Gpu(index=0, cpus=IndexList("64-127")),
        Gpu(index=1, cpus=IndexList("0-63")),
        Gpu(index=2),
    )
    found = places(_bare(gpus=gpus))
    assert [(one.numa_index, one.cpus, _gpus(one.root)) for one in found] == [
        (None, "0-63", [1]),
        (None, "64-127", [0]),
        (None, None, [2]),
    ]


def test_numa_nodes_find_their_package_by_cpus() -> None:
    """A NUMA node whose package is not named is in the one that has its CPUs."""
    topology = cpu_only()
    nameless = tuple(replace(numa, package_index=None) for numa in topology.numa_nodes)
    found = places(replace(topology, numa_nodes=nameless))
    assert [place.package_index for place in found] == [0, 0, 0, 0, 1, 1, 1, 1]


def _with_paths(*rows: tuple[str | None, ...]) -> NodeTopology:
    nics = (Nic(index=0, name="mlx5_0", label="NIC0"), Nic(index=1, name="mlx5_1"))
    table = PathTable(devices=("GPU0", "NIC0", "mlx5_1"), cells=rows)
    return _bare(gpus=(Gpu(index=0),), nics=nics, paths=table)


def test_half_a_matrix_is_enough() -> None:
    """A cell that is not known is taken from the other direction's."""
    rows = (("X", None, None), ("SYS", "X", None), (None, None, "X"))
    near = nearest_nics(_with_paths(*rows))
    assert (near[0].kind, [nic.name for nic in near[0].nics]) == (PathKind.SYS, ["mlx5_0"])


def test_devices_of_unknown_numa_node_stand_in_the_only_one() -> None:
    """Where there is one NUMA node, a device whose firmware names none is beside it."""
    numa = NumaNode(index=0, cpus=IndexList("0-7"))
    gpu = Gpu(index=0)
    (place,) = places(_bare(numa_nodes=(numa,), gpus=(gpu,)))
    assert (place.numa_index, place.root.gpus) == (0, (gpu,))
    two = (numa, NumaNode(index=1, cpus=IndexList("8-15")))
    found = places(_bare(numa_nodes=two, gpus=(gpu,)))
    assert [one.numa_index for one in found] == [0, 1, None]
