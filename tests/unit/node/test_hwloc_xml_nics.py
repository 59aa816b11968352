"""Network devices of hwloc's XML: kinds, ports, netdevs, virtual functions."""

from __future__ import annotations

import pytest

from hpckit.node.topology import Nic, NicPort
from hpckit.spec.nic_kind import NicKind
from tests.fakes.hwloc_machines import (
    NODE,
    function,
    host_bridge,
    info,
    machine,
    os_device,
    parsed,
    record,
)

CX7_IB = "0207 [15b3:1021]"
CX7_ETHERNET = "0200 [15b3:1021]"
NETWORK, OPENFABRICS = 2, 3


def nics(*functions: str, version: str = "2.0") -> tuple[Nic, ...]:
    """The NICs of a machine with these functions."""
    return parsed(machine(NODE, host_bridge("0000:[10-10]", *functions), version=version)).nics


def kind(says: str, *devices: str) -> NicKind | None:
    """The kind of the one NIC of a function."""
    (nic,) = nics(function("0000:10:00.0", says, *devices))
    return nic.kind


def rdma(name: str = "mlx5_0", *within: str) -> str:
    """An RDMA device."""
    return os_device(name, OPENFABRICS, *within)


def netdev(name: str, address: str = "00:00:5e:00:53:01", subtype: str = "") -> str:
    """A network interface."""
    return os_device(name, NETWORK, info("Address", address), subtype=subtype)


def test_what_is_said_of_a_nic() -> None:
    """A NIC has its port's state, its netdevs, its GUID and its place; hwloc records no rate."""
    topology = record("hwloc-2.9.0")
    assert topology.nics[1] == Nic(
        index=1,
        name="mlx5_1",
        kind=NicKind.INFINIBAND,
        pci=topology.nics[1].pci,
        numa_index=1,
        state="DOWN",
        link_layer="InfiniBand",
        ports=(NicPort(index=1, state="DOWN"),),
        netdevs=("ib1",),
        guid="0000:5e00:5300:0001",
    )
    assert topology.nics[1].pci == "0000:94:00.0"
    assert ("NICs", "rate_bytes_per_s") in {(one.subject, one.what) for one in topology.unknown}


@pytest.mark.parametrize(
    ("says", "devices", "expected"),
    [
        (CX7_IB, [rdma()], NicKind.INFINIBAND),
        ("0280 [15b3:1003]", [rdma("mlx4_0", info("Port1LID", "0x3a4"))], NicKind.INFINIBAND),
        (
            "0280 [15b3:1003]",
            [rdma("mlx4_0"), netdev("ib0", ":".join(["00"] * 20))],
            NicKind.INFINIBAND,
        ),
        ("0280 [15b3:1003]", [rdma("mlx4_0", info("Port1LID", "0x0"))], None),
        ("0208 [8086:24f0]", [rdma("hfi1_0")], NicKind.INFINIBAND),
        (CX7_ETHERNET, [rdma("mlx5_0", info("Port1LID", "0x0"))], NicKind.ROCE),
        ("0200 [14e4:1760]", [rdma("bnxt_re0"), netdev("eth0")], NicKind.ROCE),
        ("0200 [1425:6401]", [rdma("cxgb4_0")], None),
        ("0200 [1d0f:efa1]", [rdma("rdmap16s0")], NicKind.EFA),
        ("0200 [1d0f:ec20]", [netdev("eth0")], NicKind.ETHERNET),
        ("0200 [17db:0501]", [netdev("hsn0")], NicKind.SLINGSHOT),
        ("0200 [1590:0371]", [netdev("hsi0", subtype="Slingshot")], NicKind.SLINGSHOT),
        ("0200 [1ae0:0042]", [netdev("eth0")], NicKind.GVNIC),
        ("0207 [15b3:1017]", [netdev("ib0")], NicKind.INFINIBAND),
    ],
)
def test_kinds(says: str, devices: list[str], expected: NicKind | None) -> None:
    """The kind follows from maker, PCI class, LID and hardware address."""
    assert kind(says, *devices) is expected


def test_netdevs_belong_to_the_device_of_their_function() -> None:
    """Netdevs of a function are its RDMA device's; those of the next function are not."""
    found = nics(
        function("0000:10:00.0", CX7_ETHERNET, netdev("eth10"), netdev("eth9"), rdma("mlx5_0")),
        function("0000:10:00.1", CX7_ETHERNET, netdev("eth11")),
    )
    assert [(nic.name, nic.netdevs) for nic in found] == [
        ("mlx5_0", ("eth9", "eth10")),
        ("eth11", ("eth11",)),
    ]


def test_slingshot_with_its_own_class() -> None:
    """Hwloc 3 lists cxi0 beside hsn0: one NIC."""
    card = function(
        "0000:10:00.0",
        "0200 [17db:0501]",
        os_device("hsn0", 16, subtype="Slingshot"),
        os_device("cxi0", 16, subtype="Slingshot"),
    )
    (nic,) = nics(card, version="3.0")
    assert (nic.name, nic.kind, nic.netdevs) == ("cxi0", NicKind.SLINGSHOT, ("hsn0",))


def test_types_of_schema_three_are_bits() -> None:
    """In 3.x a network device has bit 4, an RDMA device bit 5 too, and a disk or GPU neither."""
    card = function(
        "0000:10:00.0",
        CX7_IB,
        os_device("mlx5_0", 48),
        os_device("ib0", 16),
        os_device("card0", 4),
        os_device("sda", 1),
        os_device("dax0.0", 3),
    )
    (nic,) = nics(card, version="3.0")
    assert (nic.name, nic.netdevs) == ("mlx5_0", ("ib0",))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["1", "4"], "ACTIVE"),
        (["2", "1"], "INIT"),
        (["3"], "ARMED"),
        (["5"], "ACTIVE_DEFER"),
    ],
)
def test_states(states: list[str], expected: str) -> None:
    """Ports are told by ibverbs' numbers; a NIC is active if one of them is."""
    infos = [info(f"Port{at}State", state) for at, state in enumerate(states, 1)]
    (nic,) = nics(function("0000:10:00.0", CX7_IB, rdma("mlx5_0", *infos)))
    assert nic.state == expected
    assert [port.index for port in nic.ports] == list(range(1, len(states) + 1))


@pytest.mark.parametrize(
    ("says", "name", "expected"),
    [
        ("0207 [15b3:101e]", "", True),
        ("0200 [1590:0001]", "Ethernet Virtual Function 700 Series", True),
        (CX7_IB, "MT2910 Family [ConnectX-7]", None),
    ],
)
def test_virtual_functions(says: str, name: str, expected: bool | None) -> None:
    """A virtual function is known by its id or its name in pci.ids, a physical one by nothing."""
    (nic,) = nics(function("0000:10:00.1", says, info("PCIDevice", name), netdev("eth0")))
    assert nic.is_virtual is expected


def test_bond() -> None:
    """A bonded RDMA device is its bond; a GUID of zeros is none."""
    guid = info("NodeGUID", "0000:0000:0000:0000")
    (nic,) = nics(function("0000:10:00.0", CX7_ETHERNET, rdma("mlx5_bond_0", guid)))
    assert (nic.bond, nic.guid) == ("mlx5_bond_0", None)
