"""Jobs on nodes, and the variables that they need: where each rule applies, and where it just
does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.comm.facts import CommFacts, Trait
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommLibrary, NcclVersion, NetPlugin

V = NcclVersion.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Facts, and the variables that they need, each with the rule that says so."""

    facts: CommFacts
    needs: dict[str, tuple[str | None, str]]


IB = CommFacts(
    nodes=2, library=CommLibrary.NCCL, version=V("2.27"), interconnect=NicKind.INFINIBAND
)
TWO_KINDS = CommFacts(
    nodes=2, library=CommLibrary.NCCL, version=V("2.27"), interconnect=NicKind.INFINIBAND,
    traits=(Trait.OTHER_HCAS,), hcas=("mlx5_0", "mlx5_3"), other_hcas="mlx5_1: 100 Gb/s",
)  # fmt: skip
GRACE = (Trait.DOMAIN_DOWN, Trait.GRACE)
TCPX = (
    *("NET", "SOCKET_IFNAME", "GPUDIRECTTCPX_CTRL_DEV", "GPUDIRECTTCPX_SOCKET_IFNAME"),
    *("GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "GPUDIRECTTCPX_TX_BINDINGS"),
    *("GPUDIRECTTCPX_RX_BINDINGS", "CROSS_NIC", "ALGO", "PROTO", "NSOCKS_PERTHREAD"),
    *("SOCKET_NTHREADS", "DYNAMIC_CHUNK_SIZE", "BUFFSIZE", "NET_GDR_LEVEL", "P2P_PXN_LEVEL"),
)
TCPXO = ("FASTRAK_CTRL_DEV", "FASTRAK_IFNAME", "FASTRAK_LLCM_DEVICE_DIRECTORY", "SOCKET_IFNAME")


def by(plugin: str, *names: str) -> dict[str, tuple[str | None, str]]:
    """What a plugin of Google's needs; its values are those of the goldens."""
    return {f"NCCL_{one}": (None, f"{plugin}-{one.lower().replace('_', '-')}") for one in names}


SLINGSHOT: dict[str, tuple[str | None, str]] = {
    "NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname"),
    "NCCL_NET_GDR_LEVEL": ("PHB", "slingshot-gdr"),
}
OVER_OFI = {
    **SLINGSHOT,
    "NCCL_NET": ("AWS Libfabric", "slingshot-net"),
    "NCCL_CROSS_NIC": ("1", "slingshot-cross-nic"),
}

CASES = {
    "ib-current": Case(facts=IB, needs={}),
    "ib-with-storage": Case(
        facts=TWO_KINDS, needs={"NCCL_IB_HCA": ("=mlx5_0,mlx5_3", "ib-hca-subset")}
    ),
    "storage-one-node": Case(
        facts=CommFacts(nodes=1, interconnect=NicKind.INFINIBAND, traits=TWO_KINDS.traits,
                        hcas=TWO_KINDS.hcas),
        needs={},
    ),
    "storage-mpi": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.INFINIBAND,
                        traits=(Trait.OTHER_HCAS, Trait.MPI), hcas=("mlx5_0", "mlx5_3:2")),
        needs={
            "NCCL_IB_HCA": ("=mlx5_0,mlx5_3:2", "ib-hca-subset"),
            "UCX_NET_DEVICES": ("mlx5_0:1,mlx5_3:2", "ucx-net-devices"),
        },
    ),
    "storage-under-gib": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.ROCE, plugin=NetPlugin.GIB,
                        traits=TWO_KINDS.traits, hcas=TWO_KINDS.hcas),
        needs={"NCCL_NET": ("gIB", "gib-net")},
    ),
    "listed": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.ROCE, traits=(Trait.LISTED_HCAS,),
                        hcas=("mlx5_1", "mlx5_10")),
        needs={"NCCL_IB_HCA": ("=mlx5_1,mlx5_10", "ib-hca-listed")},
    ),
    "roce-2.20": Case(
        facts=CommFacts(nodes=2, version=V("2.20.5"), interconnect=NicKind.ROCE),
        needs={"NCCL_IB_GID_INDEX": ("3", "ib-gid-index")},
    ),
    "roce-2.21": Case(
        facts=CommFacts(nodes=2, version=V("2.21"), interconnect=NicKind.ROCE), needs={}
    ),
    "roce-unknown": Case(facts=CommFacts(nodes=2, interconnect=NicKind.ROCE), needs={}),
    "ib-2.20": Case(
        facts=CommFacts(nodes=2, version=V("2.20.5"), interconnect=NicKind.INFINIBAND), needs={}
    ),
    "large-2.22": Case(
        facts=CommFacts(nodes=128, version=V("2.22.3"), interconnect=NicKind.INFINIBAND),
        needs={"NCCL_IB_TIMEOUT": ("22", "ib-timeout")},
    ),
    "large-2.23": Case(
        facts=CommFacts(nodes=128, version=V("2.23"), interconnect=NicKind.INFINIBAND), needs={}
    ),
    "less-large": Case(
        facts=CommFacts(nodes=127, version=V("2.22.3"), interconnect=NicKind.INFINIBAND), needs={}
    ),
    "isolated": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.ROCE, traits=(Trait.ISOLATED_RAILS,)),
        needs={"NCCL_CROSS_NIC": ("0", "cross-nic-isolated-rails")},
    ),
    "isolated-efa": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.EFA, plugin=NetPlugin.AWS_OFI,
                        traits=(Trait.ISOLATED_RAILS,)),
        needs={"NCCL_SOCKET_IFNAME": ("^docker,lo,veth", "efa-socket-ifname")},
    ),
    "gb200-down": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.27"),
                        interconnect=NicKind.INFINIBAND, traits=GRACE, domain="GPU0"),
        needs={"NCCL_MNNVL_ENABLE": ("1", "mnnvl-loud")},
    ),
    "gb200-down-2.20": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.20"), traits=GRACE),
        needs={},
    ),
    "grace-2.26": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.26.2"),
                        traits=(Trait.GRACE,)),
        needs={"NCCL_NET_GDR_C2C": ("1", "gdr-c2c")},
    ),
    "grace-2.25": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.25.1"),
                        traits=(Trait.GRACE,)),
        needs={},
    ),
    "efa": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.EFA),
        needs={"NCCL_SOCKET_IFNAME": ("^docker,lo,veth", "efa-socket-ifname")},
    ),
    "efa-one-node": Case(facts=CommFacts(nodes=1, interconnect=NicKind.EFA), needs={}),
    "slingshot": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.SLINGSHOT, interfaces="hsn"),
        needs=SLINGSHOT,
    ),
    "slingshot-plugin": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI,
                        interfaces="hsn"),
        needs=OVER_OFI,
    ),
    "slingshot-none": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.NONE,
                        interfaces="hsn"),
        needs={"NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname")},
    ),
    "slingshot-one-node": Case(
        facts=CommFacts(nodes=1, interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI),
        needs={},
    ),
    "slingshot-gh200": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.27"),
                        interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI,
                        traits=(Trait.GRACE,), interfaces="hsn"),
        needs={**OVER_OFI, "NCCL_PROTO": ("^LL128", "slingshot-ll128")},
    ),
    "slingshot-gh200-2.26": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.25"),
                        interconnect=NicKind.SLINGSHOT, traits=(Trait.GRACE,), interfaces="hsn"),
        needs=SLINGSHOT,
    ),
    "tcpx": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPX),
        needs=by("tcpx", *TCPX),
    ),
    "tcpx-one-node": Case(
        facts=CommFacts(nodes=1, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPX), needs={}
    ),
    "tcpxo": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPXO),
        needs=by("tcpxo", *TCPXO),
    ),
    "amd-pcie": Case(
        facts=CommFacts(nodes=1, library=CommLibrary.RCCL, traits=(Trait.PCIE_PEERS,)),
        needs={"HSA_FORCE_FINE_GRAIN_PCIE": ("1", "rccl-pcie-peers")},
    ),
    "amd-xgmi": Case(facts=CommFacts(nodes=2, library=CommLibrary.RCCL), needs={}),
}  # fmt: skip
