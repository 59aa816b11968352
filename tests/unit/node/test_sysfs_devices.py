"""PCI devices, GPUs, accelerators and NICs from /sys."""

from __future__ import annotations

from hpckit.core.file_tree import FileTree
from hpckit.node.capture.sysfs import SysfsTree
from hpckit.node.capture.sysfs_files import parse_sysfs
from hpckit.node.capture.sysfs_net import infiniband_nics
from hpckit.node.capture.sysfs_pci import address_in, parse_pci_config
from hpckit.node.merge import complete
from hpckit.node.pci import PciDevice, PcieLink
from hpckit.node.topology import GpuVendor, Nic, NodeTopology
from hpckit.spec.nic_kind import NicKind
from tests.fakes.sysfs_records import record_tree

DEVICES = "sys/bus/pci/devices"


def record(case: str, version: str = "sysfs-6.8") -> NodeTopology:
    """The node of a record."""
    return parse_sysfs(record_tree(version, f"synthetic-{case}"))


def device(topology: NodeTopology, address: str) -> PciDevice:
    """The one device of that address."""
    (found,) = (one for one in topology.pci if one.address == address)
    return found


def nic(topology: NodeTopology, name: str) -> Nic:
    """The one NIC of that name."""
    (found,) = (one for one in topology.nics if one.name == name)
    return found


def test_the_way_to_a_gpu() -> None:
    """A GPU's parents are the bridges up to its root complex, each before what is below it."""
    topology = record("two-sockets")
    way, address = [], "0000:1b:00.0"
    while (one := device(topology, address)).parent:
        way.append(one.parent)
        address = one.parent
    assert way == ["0000:1a:00.0", "0000:19:00.0", "0000:18:01.0"]
    assert device(topology, "0000:1b:00.0").host_bridge == "pci0000:18"
    order = [one.address for one in topology.pci]
    assert all(
        order.index(one.parent) < order.index(one.address) for one in topology.pci if one.parent
    )


def test_the_narrowest_link_counts() -> None:
    """Half of a root port's lanes are missing, so a GPU with all of its own has half."""
    gpu = device(complete(record("two-sockets")), "0000:1b:00.0")
    assert gpu.link == PcieLink(speed_gt_per_s=2.5, width=16, max_speed_gt_per_s=32.0, max_width=16)
    assert gpu.effective is not None
    assert (gpu.effective.width, gpu.effective.max_width) == (8, 16)


def test_bridges_that_are_not_listed() -> None:
    """A bridge that only the way to a device names is there, with nothing else known."""
    bridge = device(record("two-sockets"), "0000:a0:01.0")
    assert (bridge.host_bridge, bridge.class_code) == ("pci0000:a0", None)


def test_a_tree_without_a_list_of_devices() -> None:
    """Where sys/bus is not recorded, the folders below sys/devices are the devices."""
    place = "sys/devices/pci0000:3a/0000:3a:00.0"
    texts = {f"{place}/class": "0x060400", f"{place}/0000:3b:00.0/class": "0x030200\n"}
    found = parse_sysfs(FileTree(texts=texts)).pci
    assert [(one.address, one.parent, one.class_code) for one in found] == [
        ("0000:3a:00.0", None, 0x0604),
        ("0000:3b:00.0", "0000:3a:00.0", 0x0302),
    ]


def test_config_space_alone() -> None:
    """Ids, links and the bridge above are read from bytes where there is nothing else."""
    topology = record("config-only", "sysfs-2.6.32")
    bridge, gpu = topology.pci
    assert (bridge.class_code, gpu.class_code) == (0x0604, 0x0302)
    assert gpu.parent == bridge.address
    assert bridge.link == PcieLink(
        speed_gt_per_s=5.0, width=8, max_speed_gt_per_s=8.0, max_width=16
    )
    assert (gpu.vendor_id, gpu.subsystem_device_id) == (0x10DE, 0x1234)
    assert gpu.numa_index == 1


def test_capabilities_in_a_circle_end() -> None:
    """A capability that points to itself is read once too often and no more."""
    data = bytearray(256)
    data[6], data[0x34], data[0x40], data[0x41] = 0x10, 0x40, 5, 0x40
    found = parse_pci_config(data.decode("utf-8", "surrogateescape"))
    assert found is not None
    assert found.link is None


def test_numa_of_minus_one_is_unknown() -> None:
    """A guest's -1 is None with its reason, and one node of memory makes it no less so."""
    topology = record("cloud-guest")
    assert topology.gpus[0].numa_index is None
    assert ("GPU0", "numa_index") in {(one.subject, one.what) for one in topology.unknown}


def test_local_cpus_tell_the_node() -> None:
    """Where numa_node is -1 and the local CPUs are those of one of the nodes, it is that one."""
    place = f"{DEVICES}/0000:01:00.0"
    texts = {
        "sys/devices/system/cpu/online": "0-3",
        "sys/devices/system/node/node0/cpulist": "0-1",
        "sys/devices/system/node/node1/cpulist": "2-3",
        f"{place}/numa_node": "-1",
    }
    near = parse_sysfs(FileTree(texts={**texts, f"{place}/local_cpulist": "2-3"}))
    both = parse_sysfs(FileTree(texts={**texts, f"{place}/local_cpulist": "0-3"}))
    assert near.pci[0].numa_index == 1
    assert both.pci[0].numa_index is None


def test_which_displays_are_gpus() -> None:
    """A BMC's display, an NVSwitch and Intel's graphics within a CPU are none."""
    (gpu,) = record("two-sockets").gpus
    assert gpu.pci == "0000:1b:00.0"
    assert [(one.vendor, one.pci) for one in record("cloud-guest").gpus] == [
        (GpuVendor.NVIDIA, "0000:00:04.0"),
        (GpuVendor.AMD, "0000:00:0b.0"),
        (GpuVendor.INTEL, "0000:00:0c.0"),
    ]


def test_what_the_driver_says_of_a_gpu() -> None:
    """NVIDIA's /proc has its name and uuid, the uuid once the GPU was used."""
    (gpu,) = record("two-sockets").gpus
    assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert gpu.uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert gpu.cpus == "0-1,4-5"
    assert record("grace").gpus[0].uuid is None


def test_virtual_functions_of_a_gpu_are_not_counted() -> None:
    """A GPU's virtual functions are in the tree and not among the GPUs."""
    event = "PCI_CLASS=30200\nPCI_ID=10DE:2330\n"
    texts = {f"{DEVICES}/0000:01:00.{at}/uevent": event for at in range(3)}
    links = {f"{DEVICES}/0000:01:00.{at}/physfn": "../0000:01:00.0" for at in (1, 2)}
    topology = parse_sysfs(FileTree(texts=texts, links=links))
    assert len(topology.gpus) == 1
    assert [one.physfn for one in topology.pci] == [None, "0000:01:00.0", "0000:01:00.0"]


def test_other_accelerators() -> None:
    """They are named by their ids, or by class and ids alone."""
    assert [(one.name, one.pci) for one in record("cloud-guest").accelerators] == [
        ("Trainium", "0000:00:07.0"),
        ("TPU v5e", "0000:00:08.0"),
        ("Gaudi2", "0000:00:09.0"),
        ("10ee:500c", "0000:00:0a.0"),
    ]


def test_a_nic_on_infiniband() -> None:
    """It has its place, rate in bytes, port, guid, firmware, driver and network device."""
    found = nic(record("two-sockets"), "mlx5_2")
    assert (found.kind, found.state) == (NicKind.INFINIBAND, "ACTIVE")
    assert (found.pci, found.numa_index) == ("0000:1c:00.0", 0)
    assert found.rate_bytes_per_s == 50e9
    assert (found.ports[0].phys_state, found.ports[0].index) == ("LinkUp", 1)
    assert (found.guid, found.firmware) == ("946d:ae03:00f3:8bf8", "28.39.1002")
    assert (found.driver, found.netdevs) == ("mlx5_core", ("ibs2",))
    assert found.is_virtual is False


def test_a_virtual_function() -> None:
    """It names its physical function; in a guest its id alone tells."""
    found = nic(record("two-sockets"), "mlx5_10")
    assert (found.is_virtual, found.physfn) == (True, "0000:1c:00.0")
    guest = nic(record("cloud-guest"), "mlx5_ib0")
    assert (guest.is_virtual, guest.physfn) == (True, None)


def test_a_bond() -> None:
    """A bond's NIC has the network devices of all its members."""
    found = nic(record("two-sockets"), "mlx5_bond_0")
    assert (found.kind, found.bond) == (NicKind.ROCE, "bond0")
    assert found.netdevs == ("ens1f0np0", "ens1f1np1")


def test_subfunctions_have_network_devices_of_their_own() -> None:
    """A part of a PCI function and the function itself do not claim each other's."""
    place = "sys/devices/pci0000:10/0000:11:00.0"
    part = f"{place}/mlx5_core.sf.4"
    links, texts = {}, {"sys/devices/system/cpu/online": "0"}
    for name, netdev, folder, device in (
        ("mlx5_0", "ens1np0", place, "../../../0000:11:00.0"),
        ("mlx5_2", "ens1np0s88", part, "../../../mlx5_core.sf.4"),
    ):
        for kind, it in (("infiniband", name), ("net", netdev)):
            links[f"sys/class/{kind}/{it}"] = f"../../../{folder}/{kind}/{it}"
            links[f"{folder}/{kind}/{it}/device"] = device
        texts[f"{folder}/infiniband/{name}/ports/1/link_layer"] = "Ethernet"
    nics = parse_sysfs(FileTree(texts=texts, links=links)).nics
    assert [(one.name, one.netdevs) for one in nics] == [
        ("mlx5_0", ("ens1np0",)),
        ("mlx5_2", ("ens1np0s88",)),
    ]


def test_a_device_on_usb() -> None:
    """It hangs on no PCI device of its own."""
    found = nic(record("two-sockets"), "enx0")
    assert (found.pci, found.driver, found.state) == (None, "cdc_ether", None)


def test_nics_of_clouds() -> None:
    """EFA, Slingshot and gVNIC are told by their drivers and folders."""
    topology = record("cloud-guest")
    assert [(one.name, one.kind) for one in topology.nics] == [
        ("mlx5_ib0", NicKind.INFINIBAND),
        ("rdmap0s6", NicKind.EFA),
        ("cxi0", NicKind.SLINGSHOT),
        ("eth0", NicKind.GVNIC),
    ]
    assert nic(topology, "cxi0").rate_bytes_per_s == 25e9
    assert (nic(topology, "cxi0").netdevs, nic(topology, "cxi0").state) == (("hsn0",), "ACTIVE")
    assert nic(topology, "eth0").rate_bytes_per_s is None


def test_a_root_below_a_hypervisors_bus() -> None:
    """A root complex that hangs on VMBus is found, with its long domain."""
    assert device(record("cloud-guest"), "8d0d:00:02.0").host_bridge == "pci8d0d:00"
    assert address_in("devices/pci0000:00/0000:00:01.0/pci10000:e0/10000:e0:06.0/x") == (
        "10000:e0:06.0"
    )


def test_a_folder_of_devices_alone() -> None:
    """Names, states and rates are there, and the place on the tree is None."""
    texts = {"x/mlx5_0/ports/2/state": "2: INIT", "x/mlx5_0/ports/1/state": "4: ACTIVE"}
    (found,) = infiniband_nics(SysfsTree(FileTree(texts=texts)), "x")
    assert (found.state, found.pci, found.kind) == ("ACTIVE", None, None)
    assert [port.index for port in found.ports] == [1, 2]
