from __future__ import annotations

import dataclasses

from hpckit.node.nics import with_nic_roles
from hpckit.node.pci import PciAddress, PciDevice
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import Nic, NicRole, NodeTopology
from hpckit.spec.nic_kind import NicKind
from tests.fakes.node import CONNECTX_7, SOURCE, change_nic, healthy_node, nic

CONNECTX_6 = 0x101B


def roles(topology: NodeTopology) -> list[NicRole | None]:
    """The role of each NIC."""
    return [nic.role for nic in with_nic_roles(topology).nics]


def node_of(*nics: Nic, pci: tuple[PciDevice, ...] = ()) -> NodeTopology:
    """A node of NICs alone, numbered as they come."""
    return NodeTopology(
        source=SOURCE,
        nics=tuple(dataclasses.replace(nic, index=at) for at, nic in enumerate(nics)),
        pci=pci,
    )


def card(address: str, device_id: int) -> PciDevice:
    """A NIC's function on the PCI tree."""
    return PciDevice(address=PciAddress(address), vendor_id=0x15B3, device_id=device_id)


def test_slower_ones() -> None:
    """What is slower than most NICs and not beside a GPU is for storage."""
    slow = [
        dataclasses.replace(nic(at, rate_bytes_per_s=25e9), pci=PciAddress(f"00f{at}:00:00.0"))
        for at in (8, 9)
    ]
    whole = healthy_node()
    node = with_nic_roles(dataclasses.replace(whole, nics=(*whole.nics, *slow)))
    assert [nic.role for nic in node.nics[8:]] == [NicRole.STORAGE] * 2
    assert node.nics[8].role_because == "200 Gb/s where most NICs have 400 Gb/s"
    assert node_findings(node) == ()


def test_ethernet_beside_infiniband() -> None:
    """Ethernet ports of RDMA cards beside InfiniBand are storage if fast, else something else."""
    fast, slow = (
        dataclasses.replace(
            nic(at, rate_bytes_per_s=rate), kind=NicKind.ROCE, link_layer="Ethernet"
        )
        for at, rate in ((8, 25e9), (9, 3.125e9))
    )
    whole = healthy_node()
    found = roles(dataclasses.replace(whole, nics=(*whole.nics, fast, slow)))
    assert found[8:] == [NicRole.STORAGE, NicRole.OTHER]


def test_virtual_functions() -> None:
    """A virtual function is set aside where its physical one is here, and not in a guest."""
    physical = nic(0)
    virtual = dataclasses.replace(
        nic(1), pci=PciAddress("0000:04:00.1"), is_virtual=True, physfn=physical.pci
    )
    assert roles(node_of(physical, virtual)) == [NicRole.COMPUTE, NicRole.OTHER]
    assert roles(node_of(virtual, virtual)) == [NicRole.COMPUTE] * 2


def test_bond() -> None:
    """A part of a bond is set aside where the bond is here."""
    bond = dataclasses.replace(nic(0), name="mlx5_bond_0", bond="bond0", netdevs=("bond0",))
    part = dataclasses.replace(nic(1), bond="bond0", netdevs=("ens1",))
    assert roles(node_of(bond, part)) == [NicRole.COMPUTE, NicRole.OTHER]


def test_clouds() -> None:
    """EFA and Slingshot are for jobs; of gVNICs those beside GPUs, where there are several."""
    efa = dataclasses.replace(nic(0), kind=NicKind.EFA, link_layer=None, rate_bytes_per_s=None)
    assert roles(node_of(efa)) == [NicRole.COMPUTE]
    slingshot = dataclasses.replace(efa, kind=NicKind.SLINGSHOT)
    assert roles(node_of(*[slingshot] * 4)) == [NicRole.COMPUTE] * 4
    gvnic = dataclasses.replace(efa, kind=NicKind.GVNIC)
    assert roles(node_of(gvnic)) == [NicRole.OTHER]
    assert roles(node_of(*[gvnic] * 8)) == [NicRole.COMPUTE] * 8


def test_second_ports() -> None:
    """The second ports of cards, none of them cabled, are not for jobs."""
    nics, pci = list[Nic](), list[PciDevice]()
    for at in range(4):
        for port, state in enumerate(("ACTIVE", "DOWN")):
            address = f"{at:04x}:04:00.{port}"
            one = dataclasses.replace(nic(2 * at + port, state=state), pci=PciAddress(address))
            nics.append(one)
            pci.append(card(address, CONNECTX_6))
    node = node_of(*nics, pci=tuple(pci))
    assert roles(node) == [NicRole.COMPUTE, NicRole.OTHER] * 4
    assert {one.rule for one in node_findings(with_nic_roles(node))} == {"nic-unused"}


def test_all_down() -> None:
    """InfiniBand that is down everywhere is still for jobs; Ethernet may never have been cabled."""
    down = [nic(at, state="DOWN") for at in range(2)]
    assert roles(node_of(*down)) == [NicRole.COMPUTE] * 2
    uncabled = [
        dataclasses.replace(each, kind=NicKind.ROCE, link_layer="Ethernet") for each in down
    ]
    assert roles(node_of(*uncabled)) == [None] * 2


def test_rails_that_are_down() -> None:
    """A fabric that is down to the last port or to all is still for jobs, whatever else is up."""
    other = dataclasses.replace(
        nic(8, rate_bytes_per_s=25e9), kind=NicKind.ROCE, link_layer="Ethernet"
    )
    others = [
        dataclasses.replace(other, index=at, name=f"mlx5_{at}", pci=PciAddress(f"00f{at}:00:00.0"))
        for at in (8, 9)
    ]
    for down in (7, 8):
        node = healthy_node()
        nics = (*(nic(at, state="DOWN") for at in range(down)), *node.nics[down:], *others)
        node = with_nic_roles(dataclasses.replace(node, nics=nics))
        assert {one.role for one in node.nics[:8]} == {NicRole.COMPUTE}
        found = {(one.rule, str(one.severity)) for one in node_findings(node)}
        assert found == {("nic-down", "warning")}


def test_cards_beside_gpus_that_nobody_has_cabled() -> None:
    """Two of them do not take the role of the one NIC that is up, though it is beside no GPU."""
    node = healthy_node()
    uncabled = [nic(at, state="DOWN") for at in range(2)]
    apart = PciAddress("00f9:00:00.0")
    main = dataclasses.replace(nic(9), pci=apart)
    node = dataclasses.replace(
        node,
        gpus=node.gpus[:2],
        gpu_links=(),
        nics=(*uncabled, main),
        pci=(*node.pci, card(apart, CONNECTX_6)),
    )
    assert roles(node) == [NicRole.OTHER, NicRole.OTHER, NicRole.COMPUTE]


def test_slow_card_of_the_rails() -> None:
    """A NIC beside a GPU, of the card that the others are, is for jobs however slow it runs."""
    node = change_nic(healthy_node(), 2, rate_bytes_per_s=12.5e9)
    assert roles(node)[2] is NicRole.COMPUTE
    other = tuple(
        dataclasses.replace(one, device_id=CONNECTX_6)
        if one.device_id == CONNECTX_7 and str(one.address).startswith("0002")
        else one
        for one in node.pci
    )
    assert roles(dataclasses.replace(node, pci=other))[2] is NicRole.STORAGE


def test_as_fast_elsewhere() -> None:
    """What is as fast as those for jobs, another card and beside no GPU, may be for storage."""
    whole = healthy_node()
    far = dataclasses.replace(nic(8), pci=PciAddress("00f0:00:00.0"))
    other = dataclasses.replace(card("00f0:00:00.0", CONNECTX_6), numa_index=0)
    node = dataclasses.replace(whole, nics=(*whole.nics, far), pci=(*whole.pci, other))
    assert roles(node)[8] is None
    assert roles(dataclasses.replace(node, pci=whole.pci))[8] is NicRole.COMPUTE
