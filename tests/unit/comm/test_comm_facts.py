"""What a node, a network and a value say of communication."""

from __future__ import annotations

import dataclasses

import pytest

from hpckit.comm.environment import CommChoice, comm_env
from hpckit.comm.facts import (
    CommQuestion,
    Trait,
    are_rails_isolated,
    comm_facts,
    says_the_same,
)
from hpckit.comm.seen import seen_node
from hpckit.fabric.rails import with_rails
from hpckit.fabric.topology import ClusterTopology, FabricSource, HostPort, Switch, SwitchLink
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import GpuFabric, NicPort, NicRole, NodeTopology
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommLibrary, NcclVersion, Platform
from hpckit.spec.site import generic_site
from tests.fakes.machine_parts import with_nic_down
from tests.fakes.machines import dgx_h100, gb200_tray, matrix_only, mi300x


def needs(topology: NodeTopology, nccl: str | None = "2.27") -> dict[str, str]:
    """What two such nodes need."""
    version = None if nccl is None else NcclVersion.of(nccl)
    facts = comm_facts(CommQuestion(nodes=2, version=version), Platform(), seen_node(topology))
    env = comm_env(facts, generic_site(), CommChoice())
    return {one.name: one.value for one in env.settings}


def renamed(topology: NodeTopology, names: dict[str, str]) -> NodeTopology:
    """The same machine with other names of NICs."""
    nics = tuple(
        dataclasses.replace(nic, name=names.get(nic.name, nic.name)) for nic in topology.nics
    )
    return dataclasses.replace(topology, nics=nics)


@pytest.mark.parametrize(
    ("gpu", "is_other"), [("h100", False), ("h200", False), ("a100", True), ("mi250x", True)]
)
def test_gpus_of_another_generation_are_another_machine(gpu: str, is_other: bool) -> None:
    """A site of A100 says nothing about an H100 node, and one of GPUs of its kind does."""
    platform = Platform(gpu=gpu, interconnect=NicKind.INFINIBAND)
    facts = comm_facts(CommQuestion(nodes=2), platform, seen_node(dgx_h100()))
    assert bool(facts.contradiction) is is_other


@pytest.mark.parametrize(
    ("name", "is_other"), [("mlx5_99", True), ("NIC0", False), ("0000:1a:00.0", False)]
)
def test_a_matrix_without_the_site_s_devices_is_of_another_machine(
    name: str, is_other: bool
) -> None:
    """A source may name devices without their kind; its ordinals and addresses are no names."""
    matrix = renamed(matrix_only(), {matrix_only().nics[0].name: name})
    hcas = tuple(nic.name for nic in matrix_only().nics)
    facts = comm_facts(
        CommQuestion(nodes=2), Platform(interconnect=NicKind.ROCE, hcas=hcas), seen_node(matrix)
    )
    assert bool(facts.contradiction) is is_other


def test_storage_nics_are_left_out_by_exact_names() -> None:
    """Beside two NICs for storage the eight for jobs are named, each exactly."""
    seen = seen_node(dgx_h100())
    assert seen.hcas == tuple(f"mlx5_{index}" for index in range(8))
    assert needs(dgx_h100()) == {"NCCL_IB_HCA": "=" + ",".join(seen.hcas)}


def test_a_nic_that_is_down_is_no_device_for_jobs() -> None:
    """The one NIC beside GPU3 that is down is not listed, and a finding names it."""
    topology = with_nic_down(dgx_h100(), "mlx5_3")
    assert "mlx5_3" not in needs(topology)["NCCL_IB_HCA"].removeprefix("=").split(",")
    found = {(one.rule, one.subject) for one in node_findings(topology)}
    assert ("nic-down", "mlx5_3") in found


def test_a_nic_that_is_down_alone_needs_no_variable() -> None:
    """NCCL skips a port that is down by itself."""
    nics = tuple(nic for nic in dgx_h100().nics if nic.role is NicRole.COMPUTE)
    topology = dataclasses.replace(dgx_h100(), nics=nics)
    assert needs(with_nic_down(topology, "mlx5_3")) == {}


def test_a_device_with_several_ports_is_named_with_those_that_are_up() -> None:
    """NCCL_IB_HCA takes device:port."""
    first, *rest = dgx_h100().nics
    ports = (NicPort(index=1, state="ACTIVE"), NicPort(index=2, state="DOWN"))
    nics = (dataclasses.replace(first, ports=ports), *rest)
    assert seen_node(dataclasses.replace(dgx_h100(), nics=nics)).hcas[0] == "mlx5_0:1"


def test_a_tray_whose_domain_is_not_ready_fails_loudly() -> None:
    """GB200 without its NVLink domain: the job is to end, not to go on over the NICs."""
    topology = gb200_tray()
    assert "NCCL_MNNVL_ENABLE" not in needs(topology)
    fabric = GpuFabric(state="NOT_STARTED")
    gpus = tuple(dataclasses.replace(gpu, fabric=fabric) for gpu in topology.gpus)
    assert needs(dataclasses.replace(topology, gpus=gpus))["NCCL_MNNVL_ENABLE"] == "1"


def test_an_hgx_board_has_no_domain_between_nodes() -> None:
    """An NVSwitch that is not ready inside an H100 node asks for no MNNVL."""
    fabric = GpuFabric(state="IN_PROGRESS")
    gpus = tuple(dataclasses.replace(gpu, fabric=fabric) for gpu in dgx_h100().gpus)
    assert "NCCL_MNNVL_ENABLE" not in needs(dataclasses.replace(dgx_h100(), gpus=gpus))


def test_amd_gpus_with_xgmi_need_no_pcie_peers() -> None:
    """Eight MI300X that are linked are RCCL's, and not peers by PCIe."""
    seen = seen_node(mi300x())
    assert seen.library is CommLibrary.RCCL
    assert Trait.PCIE_PEERS not in seen.traits


def test_amd_gpus_without_a_link_are_pcie_peers() -> None:
    """The same without links reach each other by PCIe alone."""
    assert Trait.PCIE_PEERS in seen_node(dataclasses.replace(mi300x(), gpu_links=())).traits


SAME = (
    ("NCCL_CROSS_NIC", "1", "01"),
    ("NCCL_CROSS_NIC", "1", " 1 "),
    ("NCCL_NET_GDR_LEVEL", "PHB", "3"),
    ("NCCL_NET", "AWS Libfabric", "aws libfabric"),
    ("NCCL_SOCKET_IFNAME", "hsn", "hsn0,hsn1"),
    ("NCCL_SOCKET_IFNAME", "hsn", "=hsn0"),
    ("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "=mlx5_1,mlx5_0"),
)
OTHER = (
    ("NCCL_CROSS_NIC", "1", "2"),
    ("NCCL_NET_GDR_LEVEL", "PHB", "4"),
    ("NCCL_NET_GDR_LEVEL", "PHB", "phb"),
    ("NCCL_NET", "AWS Libfabric", "Socket"),
    ("NCCL_SOCKET_IFNAME", "hsn", "hsn0,eth0"),
    ("NCCL_SOCKET_IFNAME", "^docker,lo,veth", "eth0"),
    ("NCCL_SOCKET_IFNAME", "hsn", ""),
    ("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "mlx5_0,mlx5_1"),
    ("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "=mlx5_0"),
    ("NCCL_ALGO", "Ring", "ring"),
)


@pytest.mark.parametrize(("name", "derived", "value"), [*SAME, *OTHER])
def test_values_are_compared_by_what_they_mean(name: str, derived: str, value: str) -> None:
    """A number, level, name or list may be written otherwise; one more or less is another value."""
    assert says_the_same(name, value, derived) is ((name, derived, value) in SAME)


def fabric(*, spine: bool, rails: int = 2) -> ClusterTopology:
    """Four nodes with a NIC on each rail's leaf, the leaves under one spine or under none."""
    leaves = tuple(f"leaf{rail}" for rail in range(rails))
    ports = tuple(
        HostPort(node=f"n{node}", switch=leaf, nic=f"mlx5_{rail}")
        for node in range(4)
        for rail, leaf in enumerate(leaves)
    )
    tops = ("spine",) if spine else ()
    return with_rails(
        ClusterTopology(
            source=FabricSource.IBNETDISCOVER,
            switches=tuple(Switch(name=name) for name in (*leaves, *tops)),
            links=tuple(SwitchLink(lower=leaf, upper=top) for leaf in leaves for top in tops),
            ports=ports,
        )
    )


@pytest.mark.parametrize(("spine", "rails", "isolated"), [(False, 2, True), (True, 2, False)])
def test_rails_that_no_cable_joins_are_isolated(spine: bool, rails: int, isolated: bool) -> None:
    """Below one spine they reach each other; nodes with one NIC have no rails to isolate."""
    assert are_rails_isolated(fabric(spine=spine, rails=rails)) is isolated
    assert are_rails_isolated(fabric(spine=spine, rails=1)) is None
