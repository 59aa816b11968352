"""A node from its /sys and /proc: CPUs, memory and what the host is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.file_tree import MOST_NAMES, FileTree
from hpckit.node.capture.sysfs import MOST_FOLDERS, SysfsTree
from hpckit.node.capture.sysfs_files import parse_sysfs
from hpckit.node.topology import CpuTopology, NodeTopology, NumaKind
from tests.fakes.sysfs_records import record_tree

RECORDS = [
    ("sysfs-6.8", "synthetic-two-sockets"),
    ("sysfs-6.8", "synthetic-cloud-guest"),
    ("sysfs-6.8", "synthetic-grace"),
    ("sysfs-2.6.32", "synthetic-config-only"),
]
CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def record(case: str, version: str = "sysfs-6.8") -> NodeTopology:
    """The node of a record."""
    return parse_sysfs(record_tree(version, f"synthetic-{case}"))


def node(texts: dict[str, str], links: dict[str, str] | None = None) -> NodeTopology:
    """The node of these files, of which one says that there is a CPU."""
    return parse_sysfs(FileTree(texts={f"{CPU}/online": "0-7\n", **texts}, links=links or {}))


def test_cpus_of_two_sockets() -> None:
    """Packages, cores, caches and the first CPU's name are read."""
    cpu = record("two-sockets").cpu
    assert (cpu.arch, cpu.vendor, cpu.model) == ("x86_64", "AuthenticAMD", "AMD EPYC 9354")
    assert (cpu.family, cpu.model_number) == (25, 17)
    assert (cpu.cores, cpu.cpus) == (4, "0-7")
    assert cpu.core_cpus == ("0,4", "1,5", "2,6", "3,7")
    assert [(one.index, one.cpus, one.cores) for one in cpu.packages] == [
        (0, "0-1,4-5", 2),
        (1, "2-3,6-7", 2),
    ]
    assert [(one.cpus, one.size_bytes) for one in cpu.l3] == [
        ("0-1,4-5", 32 * 1024**2),
        ("2-3,6-7", 32 * 1024**2),
    ]


def test_cores_that_are_not_all_told_are_not_known() -> None:
    """Where one CPU's core is not told, no core's CPUs are."""
    folder = f"{CPU}/cpu"
    told = {f"{folder}{at}/topology/core_id": str(at // 2) for at in range(8)}
    assert node(told).cpu.core_cpus == ("0-1", "2-3", "4-5", "6-7")
    del told[f"{folder}5/topology/core_id"]
    assert node(told).cpu.core_cpus == ()


def test_allowed_cpus() -> None:
    """What the process may use is of /proc/self/status, else of the nearest cpuset above it."""
    assert record("two-sockets").cpu.allowed == "0-2,4"
    assert record("config-only", "sysfs-2.6.32").cpu.allowed == "0-1"
    told = {"proc/self/status": "Cpus_allowed_list:\t6-9\n"}
    assert node(told).cpu.allowed == "6-7"
    v2 = {
        "proc/self/cgroup": "0::/system.slice/slurmd/job_1\n",
        "sys/fs/cgroup/system.slice/cpuset.cpus.effective": "2-3\n",
    }
    assert node(v2).cpu.allowed == "2-3"
    assert node({}).cpu.allowed is None


def test_masks_instead_of_lists() -> None:
    """An old kernel's masks give the same as lists, and a cache of level 3 may be index2."""
    topology = record("config-only", "sysfs-2.6.32")
    assert topology.cpu.cpus == "0-2"
    assert topology.cpu.cores == 2
    assert [one.cpus for one in topology.cpu.l3] == ["0-1"]
    assert [one.cpus for one in topology.numa_nodes] == ["0-1", "2"]


def test_cores_of_all_packages_have_the_same_numbers() -> None:
    """Two packages whose cores are numbered from 0 have the cores of both."""
    texts = {}
    for cpu in range(4):
        texts[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = str(cpu // 2)
        texts[f"{CPU}/cpu{cpu}/topology/core_id"] = str(cpu % 2)
    assert node(texts).cpu.cores == 4


def test_memory_of_two_sockets() -> None:
    """A NUMA node has its CPUs, memory, package and distances."""
    first, second = record("two-sockets").numa_nodes
    assert (first.cpus, first.memory_bytes) == ("0-1,4-5", 263716512 * 1024)
    assert (first.distances, second.distances) == ((10, 32), (32, 10))
    assert (first.package_index, second.package_index) == (0, 1)
    assert first.kind is NumaKind.DRAM


def test_memory_of_gpus_on_grace() -> None:
    """Nodes without CPUs are GPU memory there, in numeric order; an empty one is of no kind."""
    topology = record("grace")
    assert [(one.index, one.cpus, one.kind) for one in topology.numa_nodes] == [
        (0, "0-1", NumaKind.DRAM),
        (1, "2-3", NumaKind.DRAM),
        (2, "", NumaKind.GPU),
        (3, "", None),
        (10, "", NumaKind.GPU),
    ]
    assert topology.numa_nodes[3].memory_bytes == 0
    assert topology.numa_nodes[4].package_index == 0
    assert topology.numa_nodes[2].package_index is None
    (gpu,) = topology.gpus
    assert (gpu.numa_index, gpu.own_numa_index) == (0, 2)


@pytest.mark.parametrize(
    ("extra", "kind"),
    [
        ({}, None),
        ({f"{NODE}/node1/access0/initiators/read_bandwidth": "400000"}, NumaKind.HBM),
        ({f"{NODE}/node1/access0/initiators/read_bandwidth": "100"}, None),
        ({"sys/bus/dax/devices/dax0.0/target_node": "1"}, NumaKind.OTHER),
        (
            {"proc/cpuinfo": "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 87\n"},
            NumaKind.HBM,
        ),
    ],
)
def test_memory_without_cpus(extra: dict[str, str], kind: NumaKind | None) -> None:
    """HBM is told by more bandwidth or by the CPU, CXL and NVDIMM by dax; else it is unknown."""
    told = {
        f"{NODE}/node0/cpulist": "0-7",
        f"{NODE}/node0/access0/initiators/read_bandwidth": "200000",
        f"{NODE}/node1/cpulist": "\n",
        f"{NODE}/node1/meminfo": "Node 1 MemTotal: 1024 kB",
    }
    topology = node(told | extra)
    assert topology.numa_nodes[1].kind is kind
    reasons = {one.subject for one in topology.unknown if one.what == "kind"}
    assert reasons == (set() if kind else {"NUMA node 1"})


def test_distances_to_other_nodes_are_unknown() -> None:
    """Distances that are not as many as there are nodes are told as unknown."""
    topology = node({f"{NODE}/node0/cpulist": "0-7", f"{NODE}/node0/distance": "10 20"})
    assert topology.numa_nodes[0].distances is None
    assert "distances" in {one.what for one in topology.unknown}


def test_the_host() -> None:
    """Name, kernel, product, driver and whether it is a guest are told."""
    host = record("two-sockets").host
    assert (host.name, host.product) == ("node7", "SYS-821GE")
    assert (host.os_release, host.driver_version) == ("6.8.0-45-generic", "560.35.03")
    assert host.is_virtual_machine is False
    assert record("cloud-guest").host.is_virtual_machine is True
    assert record("grace").host.product == "NVIDIA Grace"
    assert record("grace").host.is_virtual_machine is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Virtual Machine\n"),
        ("sys/hypervisor/type", "xen\n"),
    ],
)
def test_a_guest_without_a_flag(path: str, text: str) -> None:
    """Where CPUID has no word of it, the firmware's names tell of a guest."""
    assert node({path: text}).host.is_virtual_machine is True


def test_a_power_cpu() -> None:
    """POWER's cpuinfo has other fields."""
    cpu = node({"proc/cpuinfo": "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"}).cpu
    assert (cpu.vendor, cpu.model) == ("IBM", "POWER9")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (f"{CPU}/online", "0-x\n", "a list of indices"),
        (f"{CPU}/cpu0/topology/physical_package_id", "٣", "an integer"),
        (f"{CPU}/cpu0/cache/index3/shared_cpu_map", "zz", "a mask"),
        (f"{CPU}/cpu0/topology/core_id", "9" * 5000, "an integer"),
        (f"{NODE}/node0/distance", "10 far", "distances"),
        ("sys/bus/pci/devices/0000:01:00.0/numa_node", "0x1", "an integer"),
        ("sys/bus/pci/devices/0000:01:00.0/class", "bridge", "a hexadecimal number"),
        ("sys/bus/pci/devices/0000:01:00.0/uevent", "PCI_ID=10DE", "a hexadecimal number"),
        ("proc/self/status", "Cpus_allowed_list:\t-\n", "a list of CPUs"),
    ],
)
def test_what_is_not_understood_is_shown(path: str, text: str, expected: str) -> None:
    """A file that is not in its format is refused by its path, with what it holds."""
    with pytest.raises(ParseError, match=expected) as caught:
        node({path: text})
    assert path in str(caught.value)


def test_a_size_is_in_its_format() -> None:
    """A cache's size in other units than K and M is refused."""
    folder = f"{CPU}/cpu0/cache/index3"
    with pytest.raises(ParseError, match="30720K"):
        node({f"{folder}/shared_cpu_list": "0", f"{folder}/size": "3 cups"})


def test_nothing_of_a_node() -> None:
    """A tree that holds nothing of a node is refused."""
    with pytest.raises(ParseError, match="CPUs, PCI devices or NICs"):
        parse_sysfs(FileTree(texts={"etc/passwd": "root"}))


@pytest.mark.parametrize(("version", "case"), RECORDS)
def test_numbers_of_devices_count_up(version: str, case: str) -> None:
    """GPUs, NICs and accelerators are numbered from 0 in every record."""
    topology = parse_sysfs(record_tree(version, case))
    for devices in (topology.gpus, topology.nics, topology.accelerators):
        assert [one.index for one in devices] == list(range(len(devices)))


def test_more_folders_than_a_node_has_are_refused() -> None:
    """Deep paths that share nothing would take memory by the gigabyte."""
    texts = {f"{at}/" * 40 + "class": "" for at in range(MOST_FOLDERS // 40 + 1)}
    with pytest.raises(ParseError, match="folders"):
        SysfsTree(FileTree(texts=texts))


def test_a_circle_of_bridges_is_refused() -> None:
    """Two devices that are each below the other are no tree."""
    devices = "sys/bus/pci/devices"
    links = {
        f"{devices}/0000:01:00.0": "../../../devices/0000:02:00.0/0000:01:00.0",
        f"{devices}/0000:02:00.0": "../../../devices/0000:01:00.0/0000:02:00.0",
    }
    with pytest.raises(ParseError, match="not below itself"):
        node({}, links)


def test_an_empty_cpu_is_no_topology() -> None:
    """Without any CPU the topology says so."""
    topology = parse_sysfs(FileTree(texts={f"{NODE}/node0/cpulist": "0"}))
    assert topology.cpu == CpuTopology()
    assert {"cpus", "packages", "allowed"} <= {one.what for one in topology.unknown}


ONLINE = {"sys/devices/system/cpu/online": "0-3\n"}
NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
PLACE = "sys/devices/pci0000:00/0000:00:01.0"


def address(at: int) -> str:
    """The address of the n-th PCI function."""
    return f"{at >> 16:04x}:{at >> 8 & 255:02x}:{at >> 3 & 31:02x}.{at & 7:x}"


def deep_group() -> FileTree:
    """A control group of 131,000 levels."""
    return FileTree(texts={**ONLINE, "proc/self/cgroup": "0::" + "/a" * 131_000})


def long_events() -> FileTree:
    """Devices whose uevent is a quarter of a megabyte."""
    event = "a=b\n" * 65_536
    return FileTree(texts=ONLINE | {f"{PCI}/{address(at)}/uevent": event for at in range(2000)})


def many_members() -> FileTree:
    """Bonds of thousands of network devices."""
    net, links = "sys/class/net", {}
    for at in range(6000):
        links[f"{net}/e{at}"] = f"../../devices/pci0000:00/0000:00:01.0/net/e{at}"
        links[f"{PLACE}/net/e{at}/device"] = "../../../0000:00:01.0"
        links[f"{PLACE}/net/e{at}/master"] = "../bond0"
    for at in range(20):
        name = f"mlx5_bond_{at}"
        links[f"sys/class/infiniband/{name}"] = f"../../devices/pci0000:00/{address(8)}/x/{name}"
        links[f"sys/devices/pci0000:00/{address(8)}/x/{name}/device"] = "../.."
    return FileTree(texts={**ONLINE, f"{net}/bonding_masters": "bond0\n"}, links=links)


def many_packages() -> FileTree:
    """A package for each CPU, and a NUMA node for many."""
    cpus = "sys/devices/system/cpu"
    texts = {f"{cpus}/cpu{at}/topology/physical_package_id": f"{at}" for at in range(8000)}
    texts |= {f"{NODES}/node{at}/cpulist": f"{at}" for at in range(1024)}
    return FileTree(texts={**texts, f"{cpus}/online": "0-7999"})


def many_nodes_without_cpus() -> FileTree:
    """As many NUMA nodes as there may be, of which each may be faster than any other."""
    file = "access0/initiators/read_bandwidth"
    texts = {f"{NODES}/node{at}/{file}": "1" for at in range(1024)}
    return FileTree(texts={**ONLINE, **texts, f"{NODES}/node0/cpulist": "0-3"})


def long_links() -> FileTree:
    """Links that lead through as many names as one may."""
    way = "a/" * (MOST_NAMES - 5)
    links = {f"{PCI}/{address(at)}": f"../../../x{at}/{way}{address(at)}" for at in range(1000)}
    return FileTree(texts=ONLINE, links=links)


@pytest.mark.parametrize(
    "tree",
    [deep_group, long_events, many_members, many_packages, many_nodes_without_cpus, long_links],
)
def test_absurd_trees_are_read(tree: Callable[[], FileTree]) -> None:
    """Whatever is there by the thousand."""
    given = tree()
    parse_sysfs(given)
