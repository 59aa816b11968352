"""hwloc's XML: one machine in each schema, its CPUs, and its PCI tree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.core.index_list import IndexList
from hpckit.node.pci import PciDevice
from hpckit.node.topology import CpuPackage, Host, L3Group, NodeTopology, NumaNode
from tests.fakes.hwloc_machines import (
    NODE,
    bridge,
    function,
    host_bridge,
    info,
    machine,
    parsed,
    record,
)

SCHEMAS = ["hwloc-1.x", "hwloc-2.9.0", "hwloc-3.0"]


def device(topology: NodeTopology, address: str) -> PciDevice:
    """The PCI function at an address."""
    (found,) = (one for one in topology.pci if one.address == address)
    return found


def test_schema_three_says_what_schema_two_says() -> None:
    """The same machine in schemas 2.x and 3.x is the same topology."""
    assert record("hwloc-3.0") == record("hwloc-2.9.0")


def test_schema_one_says_all_but_the_links() -> None:
    """The same machine in schema 1.x, as lstopo writes it, lacks the links alone."""
    first, second = record("hwloc-1.x"), record("hwloc-2.9.0")
    assert not first.gpu_links
    assert "schema 1.x has no GPU links" in {one.because for one in first.unknown}
    alike = replace(first, gpu_links=second.gpu_links, unknown=second.unknown)
    assert alike == second


@pytest.mark.parametrize("schema", SCHEMAS)
def test_host(schema: str) -> None:
    """Name, product and kernel are infos of the machine, or in 3.x of the topology."""
    expected = Host(name="node01", product="Example Server 9000", os_release="6.1.0-example")
    assert record(schema).host == expected


@pytest.mark.parametrize("schema", SCHEMAS)
def test_cpus(schema: str) -> None:
    """CPUs are told with their packages, cores, L3 caches and CPUID numbers."""
    cpu = record(schema).cpu
    model = "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu.arch, cpu.vendor, cpu.model) == ("x86_64", "GenuineIntel", model)
    assert (cpu.family, cpu.model_number, cpu.cores) == (6, 143, 4)
    assert (cpu.cpus, cpu.allowed) == ("0-7", "1-7")
    assert cpu.core_cpus == ("0-1", "2-3", "4-5", "6-7")
    assert cpu.packages == (
        CpuPackage(index=0, cpus=IndexList("0-3"), model=model, cores=2),
        CpuPackage(index=1, cpus=IndexList("4-7"), model=model, cores=2),
    )
    size = 110_100_480
    assert cpu.l3 == (
        L3Group(cpus=IndexList("0-3"), size_bytes=size),
        L3Group(cpus=IndexList("4-7"), size_bytes=size),
    )


@pytest.mark.parametrize("schema", SCHEMAS)
def test_nodes(schema: str) -> None:
    """NUMA nodes have CPUs, memory, package and the firmware's distances."""
    assert record(schema).numa_nodes == (
        NumaNode(
            index=0,
            cpus=IndexList("0-3"),
            memory_bytes=549_755_813_888,
            package_index=0,
            distances=(10, 21),
        ),
        NumaNode(
            index=1,
            cpus=IndexList("4-7"),
            memory_bytes=549_755_817_984,
            package_index=1,
            distances=(21, 10),
        ),
    )


def test_pci_tree() -> None:
    """A function knows the bridge above it, its root complex, its ids and its NUMA node."""
    topology = record("hwloc-2.9.0")
    gpu = device(topology, "0000:93:00.0")
    assert (gpu.parent, gpu.host_bridge, gpu.numa_index) == ("0000:92:00.0", "pci0000:90", 1)
    assert (gpu.class_code, gpu.vendor_id, gpu.device_id) == (0x0302, 0x10DE, 0x2330)
    assert (gpu.subsystem_vendor_id, gpu.subsystem_device_id) == (0x10DE, 0x16C1)
    root_port = device(topology, "0000:90:01.0")
    assert (root_port.parent, root_port.class_code) == (None, 0x0604)
    order = [one.address for one in topology.pci]
    assert all(
        one.parent is None or order.index(one.parent) < order.index(one.address)
        for one in topology.pci
    )


def test_link_speed_is_a_bandwidth() -> None:
    """pci_link_speed is speed times width, so neither is told; 0 is none at all."""
    topology = record("hwloc-2.9.0")
    link = device(topology, "0000:13:00.0").link
    assert link is not None
    assert link.bandwidth_bytes_per_s == pytest.approx(63.015385e9)
    assert (link.speed_gt_per_s, link.width) == (None, None)
    assert device(topology, "0000:01:00.0").link is None
    assert ("PCI devices", "link.width") in {(one.subject, one.what) for one in topology.unknown}


def test_bridges_that_are_left_out() -> None:
    """Below a missing bridge the root complex is not told: what shares the bridge is not known."""
    topology = parsed(
        machine(
            NODE,
            host_bridge("0004:[00-0a]", function("0004:04:00.0", "0302 [10de:1db1]")),
            host_bridge("0005:[00-01]", function("0005:00:02.0", "0200 [15b3:1017]")),
        )
    )
    assert device(topology, "0004:04:00.0").host_bridge is None
    assert device(topology, "0005:00:02.0").host_bridge == "pci0005:00"
    assert "the file leaves out bridges above 1 of 2 devices" in {
        one.because for one in topology.unknown
    }


def test_ids_that_were_not_read() -> None:
    """A function whose ids are all 0000 has none."""
    unread = host_bridge("0000:[66-66]", function("0000:66:00.0", "0000 [0000:0000]"))
    found = device(parsed(machine(NODE, unread)), "0000:66:00.0")
    assert (found.class_code, found.vendor_id, found.subsystem_vendor_id) == (None, None, None)


def test_bridges_without_a_type() -> None:
    """A bridge without a type is PCI if it has an address, else a host bridge."""
    text = machine(NODE, host_bridge("0000:[10-11]", bridge("0000:10:01.0", "0000:[11-11]")))
    plain = text.replace('bridge_type="0-1"', "").replace('bridge_type="1-1"', "")
    assert parsed(plain).pci == parsed(text).pci


def test_locality_beside_the_whole_machine() -> None:
    """A device under a Machine of several nodes has no NUMA node and no CPUs, and that is said."""
    nodes = "".join(
        f'<object type="NUMANode" os_index="{at}" cpuset="{cpus}" nodeset="{nodes}"/>'
        for at, (cpus, nodes) in enumerate([("0x3", "0x1"), ("0xc", "0x2")])
    )
    gpu = host_bridge("0000:[10-10]", function("0000:10:00.0", "0302 [10de:2330]"))
    topology = parsed(machine(nodes, gpu, sets='cpuset="0xf" nodeset="0x3"'))
    (found,) = topology.gpus
    assert (found.numa_index, found.cpus, found.memory_numa) == (None, None, None)
    assert ("GPUs", "numa_index") in {(one.subject, one.what) for one in topology.unknown}


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        ([("DMIProductName", "Virtual Machine")], True),
        ([("DMISysVendor", "QEMU"), ("DMIProductName", "Standard PC (Q35 + ICH9, 2009)")], True),
        ([("DMISysVendor", "Amazon EC2"), ("DMIProductName", "p5.48xlarge")], True),
        ([("DMISysVendor", "Amazon EC2"), ("DMIProductName", "g4dn.metal")], None),
        ([("DMIProductName", "ProLiant XL675d Gen10 Plus")], None),
    ],
)
def test_virtual_machines(infos: list[tuple[str, str]], expected: bool | None) -> None:
    """DMI names of hypervisors tell a virtual machine; others tell nothing."""
    texts = [info(name, value) for name, value in infos]
    assert parsed(machine(*texts, NODE)).host.is_virtual_machine is expected


def test_synthetic_description() -> None:
    """A machine that hwloc made from a description is marked so."""
    text = machine(info("Backend", "Synthetic"), NODE)
    assert parsed(text).source.is_synthetic
    assert not record("hwloc-2.9.0").source.is_synthetic


def test_packages_without_numbers() -> None:
    """Packages that have no number of their own are counted in the order of the file."""
    packages = "".join(
        f'<object type="Package" cpuset="{cpus}" nodeset="0x1"/>' for cpus in ("0x3", "0xc")
    )
    found = parsed(machine(NODE, packages)).cpu.packages
    assert [(one.index, one.cpus) for one in found] == [(0, "0-1"), (1, "2-3")]


def test_caches_of_schema_one() -> None:
    """In 1.x an L3 is a Cache of depth 3 that holds not only instructions."""
    caches = "".join(
        f'<object type="Cache" cpuset="{cpus}" depth="{depth}" cache_type="{holds}"'
        ' cache_size="8"/>'
        for cpus, depth, holds in [("0x3", 3, 0), ("0xc", 2, 0), ("0xc", 3, 2)]
    )
    found = parsed(machine(NODE, caches, version=None)).cpu.l3
    assert found == (L3Group(cpus=IndexList("0-1"), size_bytes=8),)


def test_machine_without_nodes() -> None:
    """A file without NUMA nodes (1.x of a machine with uniform memory) gives none, and says so."""
    topology = parsed(machine(version=None))
    assert topology.numa_nodes == ()
    assert [(one.subject, one.what) for one in topology.unknown] == [
        ("NUMA nodes", "index"),
        ("node", "PCI devices"),
    ]
