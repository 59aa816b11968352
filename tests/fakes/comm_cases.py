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
    needs: dict[str, tuple[str, str]]


IB = CommFacts(
    nodes=2, library=CommLibrary.NCCL, version=V("2.27"), interconnect=NicKind.INFINIBAND
)
TWO_KINDS = CommFacts(
    nodes=2, library=CommLibrary.NCCL, version=V("2.27"), interconnect=NicKind.INFINIBAND,
    traits=(Trait.OTHER_HCAS,), hcas=("mlx5_0", "mlx5_3"), other_hcas="mlx5_1: 100 Gb/s",
)  # fmt: skip
GRACE = (Trait.DOMAIN_DOWN, Trait.GRACE)
TCPX = {
    "NCCL_NET": ("GPUDirectTCPX_v7", "tcpx-net"),
    "NCCL_SOCKET_IFNAME": ("enp0s12", "tcpx-socket-ifname"),
    "NCCL_GPUDIRECTTCPX_CTRL_DEV": ("enp0s12", "tcpx-gpudirecttcpx-ctrl-dev"),
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": (
        "enp6s0,enp12s0,enp134s0,enp140s0", "tcpx-gpudirecttcpx-socket-ifname",
    ),
    "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": (
        "/run/tcpx-${SLURM_JOB_ID}", "tcpx-gpudirecttcpx-unix-client-prefix",
    ),
    "NCCL_GPUDIRECTTCPX_TX_BINDINGS": (
        "enp6s0:8-21,112-125;enp12s0:8-21,112-125;enp134s0:60-73,164-177;enp140s0:60-73,164-177",
        "tcpx-gpudirecttcpx-tx-bindings",
    ),
    "NCCL_GPUDIRECTTCPX_RX_BINDINGS": (
        "enp6s0:22-35,126-139;enp12s0:22-35,126-139;enp134s0:74-87,178-191;enp140s0:74-87,178-191",
        "tcpx-gpudirecttcpx-rx-bindings",
    ),
    "NCCL_CROSS_NIC": ("0", "tcpx-cross-nic"),
    "NCCL_ALGO": ("Ring", "tcpx-algo"),
    "NCCL_PROTO": ("Simple", "tcpx-proto"),
    "NCCL_NSOCKS_PERTHREAD": ("4", "tcpx-nsocks-perthread"),
    "NCCL_SOCKET_NTHREADS": ("1", "tcpx-socket-nthreads"),
    "NCCL_DYNAMIC_CHUNK_SIZE": ("524288", "tcpx-dynamic-chunk-size"),
    "NCCL_BUFFSIZE": ("4194304", "tcpx-buffsize"),
    "NCCL_NET_GDR_LEVEL": ("PIX", "tcpx-net-gdr-level"),
    "NCCL_P2P_PXN_LEVEL": ("0", "tcpx-p2p-pxn-level"),
}  # fmt: skip

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
        needs={
            "NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname"),
            "NCCL_NET_GDR_LEVEL": ("PHB", "slingshot-gdr"),
        },
    ),
    "slingshot-plugin": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.SLINGSHOT, plugin=NetPlugin.AWS_OFI,
                        interfaces="hsn"),
        needs={
            "NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname"),
            "NCCL_NET_GDR_LEVEL": ("PHB", "slingshot-gdr"),
            "NCCL_NET": ("AWS Libfabric", "slingshot-net"),
            "NCCL_CROSS_NIC": ("1", "slingshot-cross-nic"),
        },
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
        needs={
            "NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname"),
            "NCCL_NET_GDR_LEVEL": ("PHB", "slingshot-gdr"),
            "NCCL_NET": ("AWS Libfabric", "slingshot-net"),
            "NCCL_CROSS_NIC": ("1", "slingshot-cross-nic"),
            "NCCL_PROTO": ("^LL128", "slingshot-ll128"),
        },
    ),
    "slingshot-gh200-2.26": Case(
        facts=CommFacts(nodes=2, library=CommLibrary.NCCL, version=V("2.25"),
                        interconnect=NicKind.SLINGSHOT, traits=(Trait.GRACE,), interfaces="hsn"),
        needs={
            "NCCL_SOCKET_IFNAME": ("hsn", "slingshot-socket-ifname"),
            "NCCL_NET_GDR_LEVEL": ("PHB", "slingshot-gdr"),
        },
    ),
    "tcpx": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPX), needs=TCPX
    ),
    "tcpx-one-node": Case(
        facts=CommFacts(nodes=1, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPX), needs={}
    ),
    "tcpxo": Case(
        facts=CommFacts(nodes=2, interconnect=NicKind.GVNIC, plugin=NetPlugin.TCPXO),
        needs={
            "NCCL_FASTRAK_CTRL_DEV": ("enp0s12", "tcpxo-fastrak-ctrl-dev"),
            "NCCL_FASTRAK_IFNAME": (
                "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0",
                "tcpxo-fastrak-ifname",
            ),
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": (
                "/dev/aperture_devices", "tcpxo-fastrak-llcm-device-directory",
            ),
            "NCCL_SOCKET_IFNAME": ("enp0s12", "tcpxo-socket-ifname"),
        },
    ),
    "amd-pcie": Case(
        facts=CommFacts(nodes=1, library=CommLibrary.RCCL, traits=(Trait.PCIE_PEERS,)),
        needs={"HSA_FORCE_FINE_GRAIN_PCIE": ("1", "rccl-pcie-peers")},
    ),
    "amd-xgmi": Case(facts=CommFacts(nodes=2, library=CommLibrary.RCCL), needs={}),
}  # fmt: skip
