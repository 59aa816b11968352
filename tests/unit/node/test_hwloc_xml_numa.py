"""NUMA nodes of hwloc's XML: kinds of memory, nodes without CPUs, distances."""

from __future__ import annotations

import pytest

from hpckit.node.topology import NumaKind
from tests.fakes.hwloc_machines import (
    function,
    host_bridge,
    info,
    machine,
    parsed,
)


def node(number: int, cpus: str, *within: str, says: str = "") -> str:
    """A NUMA node."""
    body = "".join(within)
    return (
        f'<object type="NUMANode" os_index="{number}" cpuset="{cpus}" nodeset="{1 << number:#x}"'
        f" {says}>{body}</object>"
    )


def package(number: int, cpus: str, nodes: str, *within: str) -> str:
    """A package with what is in it."""
    body = "".join(within)
    return (
        f'<object type="Package" os_index="{number}" cpuset="{cpus}" nodeset="{nodes}">'
        f"{body}</object>"
    )


@pytest.mark.parametrize(
    ("subtype", "expected"),
    [
        ("DRAM", NumaKind.DRAM),
        ("HBM", NumaKind.HBM),
        ("MCDRAM", NumaKind.HBM),
        ("GPUMemory", NumaKind.GPU),
        ("SPM", NumaKind.OTHER),
        ("CXL-DRAM", NumaKind.OTHER),
    ],
)
def test_kind(subtype: str, expected: NumaKind) -> None:
    """The subtype of a node is its kind of memory."""
    text = machine(node(0, "0xf", says=f'subtype="{subtype}"'))
    assert parsed(text).numa_nodes[0].kind is expected


def test_memory_without_cpus() -> None:
    """Of nodes that hwloc puts beside the same CPUs only the DRAM has them (Xeon Max, KNL)."""
    socket = package(
        0, "0xf", "0x5", node(2, "0xf", says='subtype="HBM"'), node(0, "0xf", says='subtype="DRAM"')
    )
    other = package(1, "0xf0", "0xa", node(1, "0xf0"), node(3, "0xf0"))
    found = parsed(machine(socket, other, sets='cpuset="0xff" nodeset="0xf"')).numa_nodes
    assert [(one.index, one.cpus, one.package_index) for one in found] == [
        (0, "0-3", 0),
        (1, "4-7", 1),
        (2, "", 0),
        (3, "", 1),
    ]


def test_memory_of_a_gpu() -> None:
    """A node with the bus id of a GPU is that GPU's memory; the GPU is beside the CPUs' node."""
    gpu = host_bridge("0009:[00-01]", function("0009:00:00.0", "0302 [10de:2342]"))
    memory = node(1, "0xf", info("PCIBusID", "0009:00:00.0"), says='subtype="GPUMemory"')
    text = machine(package(0, "0xf", "0x3", node(0, "0xf"), memory, gpu))
    (found,) = parsed(text).gpus
    assert (found.numa_index, found.own_numa_index, found.memory_numa) == (0, 1, "0-1")


def test_nodes_above_packages() -> None:
    """In 1.x a node is above its package, and one without CPUs beside all (POWER9)."""
    near = node(8, "0xf", package(8, "0xf", "0x100"))
    far = node(252, "0x0")
    found = parsed(machine(near, far, version=None)).numa_nodes
    assert [(one.index, one.cpus, one.package_index) for one in found] == [
        (8, "0-3", 8),
        (252, "", None),
    ]


def latencies(values: list[str], base: str = "10.0", count: int = 2) -> str:
    """A matrix of 1.x."""
    cells = "".join(f'<latency value="{value}"/>' for value in values)
    return (
        f'<distances nbobjs="{count}" relative_depth="1" latency_base="{base}">{cells}</distances>'
    )


def test_relative_latencies() -> None:
    """Latencies of 1.x are relative to a base."""
    text = machine(
        latencies(["1.0", "2.1", "3.2", "1.0"]), node(0, "0x3"), node(1, "0xc"), version=None
    )
    assert [one.distances for one in parsed(text).numa_nodes] == [(10, 21), (32, 10)]


def test_latencies_of_others_than_nodes() -> None:
    """A matrix of 1.x between other objects is not the nodes'."""
    text = machine(latencies(["1.0"] * 9, count=3), node(0, "0x3"), node(1, "0xc"), version=None)
    topology = parsed(text)
    assert [one.distances for one in topology.numa_nodes] == [None, None]
    assert ("NUMA nodes", "distances") in {(one.subject, one.what) for one in topology.unknown}


def distances(says: str, keys: str, values: str, count: int = 2) -> str:
    """A matrix of 2.x between nodes."""
    return (
        f'<distances2 type="NUMANode" nbobjs="{count}" {says}>'
        f"<indexes>{keys}</indexes><u64values>{values}</u64values></distances2>"
    )


def test_matrix_of_objects_that_the_file_lacks() -> None:
    """A matrix by gp_index of nodes that are not in the file gives no distances."""
    says = 'kind="5" indexing="gp" name="NUMALatency"'
    text = machine(
        node(0, "0x3", says='gp_index="11"'),
        node(1, "0xc"),
        after=distances(says, "11 12", "10 21 21 10"),
    )
    assert [one.distances for one in parsed(text).numa_nodes] == [None, None]


@pytest.mark.parametrize(
    ("says", "keys"),
    [
        ('kind="5" indexing="os" name="NUMALatency"', "1 0"),
        ('kind="5" indexing="gp" name="NUMALatency"', "12 11"),
        ('kind="5" indexing="os"', "1 0"),
    ],
)
def test_rows_are_by_index(says: str, keys: str) -> None:
    """Rows are in the order of the indexes, by os_index or gp_index; hwloc 2.0 wrote no name."""
    text = machine(
        node(0, "0x3", says='gp_index="11"'),
        node(1, "0xc", says='gp_index="12"'),
        after=distances(says, keys, "10 31 32 10"),
        sets='cpuset="0xf" nodeset="0x3"',
    )
    assert [one.distances for one in parsed(text).numa_nodes] == [(10, 32), (31, 10)]


def test_ids_of_schema_three() -> None:
    """An object of 3.x may be known by its id alone."""
    text = machine(
        node(0, "0x3", says='id="obj11"'),
        node(1, "0xc", says='id="obj12"'),
        after=distances('kind="5" indexing="gp" name="NUMALatency"', "11 12", "10 21 21 10"),
        version="3.0",
    )
    assert [one.distances for one in parsed(text).numa_nodes] == [(10, 21), (21, 10)]
