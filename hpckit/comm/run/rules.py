"""The rules about a run of NCCL, as data: what slows one down, or spoils its result."""

from __future__ import annotations

from typing import Final

from hpckit.comm.run import rules_checks as network
from hpckit.comm.run import rules_checks as node
from hpckit.comm.run import rules_result as result
from hpckit.comm.run.result import NcclRun
from hpckit.comm.run.rules_result import ExpectedRun, RunFacts
from hpckit.core.findings import Check, Rule, Severity, SourcedFinding, judge

_ENV: Final = "NCCL user guide, Environment Variables"
_TROUBLE: Final = "NCCL user guide, Troubleshooting"
_TESTS: Final = "nccl-tests, README.md and doc/PERFORMANCE.md"
_DATE: Final = "2026-11"

RULES: Final[tuple[Rule[Check[RunFacts]], ...]] = (
    Rule(
        name="wrong-results", severity=Severity.ERROR, when=result.wrong_results,
        because="nccl-tests found wrong elements: the bandwidth says nothing.",
        remedy="unset NCCL_PROTO and NCCL_ALGO; if it stays, tell your operator which nodes",
        source=f"{_TESTS}: #wrong", date=_DATE,
    ),
    Rule(
        name="alone", severity=Severity.ERROR, when=result.alone,
        because="Each rank ran without the others: nothing was measured between GPUs.",
        remedy="nccl-tests built with MPI=1, and srun --mpi=pmix or mpirun; -g N for one process",
        source=f"{_TESTS}: bus bandwidth of one rank is 0", date=_DATE,
    ),
    Rule(
        name="network-socket", severity=Severity.ERROR, when=network.network_socket,
        because="Traffic between nodes goes over TCP.",
        remedy="hpckit inspect shows the RDMA NICs; a container needs /dev/infiniband or the"
            " plugin",
        source="NCCL, src/plugin/net.cc: Socket is what is left when no other network has a device",
        date=_DATE,
    ),
    Rule(
        name="provider-tcp", severity=Severity.ERROR, when=network.provider_tcp,
        because="Traffic between nodes goes over TCP, by libfabric.",
        remedy="unset FI_PROVIDER; a container needs the NICs' devices and the host's libfabric",
        source="aws-ofi-nccl, README.md; libfabric, fi_tcp(7)", date=_DATE,
    ),
    Rule(
        name="ib-disabled", severity=Severity.ERROR, when=node.ib_disabled,
        because="A variable keeps NCCL off its RDMA NICs.", remedy="unset NCCL_IB_DISABLE",
        source=f"{_ENV}: NCCL_IB_DISABLE", date=_DATE,
    ),
    Rule(
        name="plugin-not-loaded", severity=Severity.ERROR, when=network.plugin_not_loaded,
        because="A network plugin that was asked for is not what NCCL used.",
        remedy="its folder belongs in LD_LIBRARY_PATH; with NCCL_NET=<its network> NCCL fails"
            " without",
        source=f"{_ENV}: NCCL_NET_PLUGIN, NCCL_NET", date=_DATE,
    ),
    Rule(
        name="no-rdma-device", severity=Severity.WARNING, when=network.no_rdma_device,
        because="NCCL's verbs network found no NIC.",
        remedy="hpckit inspect shows the RDMA NICs; ibv_devinfo in the same container shows its"
            " view",
        source="NCCL, src/transport/net_ib/init.cc", date=_DATE,
    ),
    Rule(
        name="nics-fewer", severity=Severity.WARNING, when=network.nics_fewer,
        because="NCCL uses fewer NICs than there are.",
        remedy="correct or unset NCCL_IB_HCA; hpckit inspect shows NICs that are down",
        source=f"{_ENV}: NCCL_IB_HCA", date=_DATE,
    ),
    Rule(
        name="nics-unexpected", severity=Severity.WARNING, when=network.nics_unexpected,
        because="NCCL uses NICs that are not for jobs.",
        remedy="NCCL_IB_HCA==name,… with those for jobs alone; hpckit tune writes it",
        source=f"{_ENV}: NCCL_IB_HCA, = for an exact match", date=_DATE,
    ),
    Rule(
        name="nic-twice", severity=Severity.WARNING, when=network.nic_twice,
        because="One port is there twice, so channels that should have two NICs share one.",
        remedy="unset NCCL_IB_HCA and NCCL_TOPO_FILE; hpckit inspect shows the NICs",
        source="NCCL, src/transport/net_ib/init.cc: one entry a port", date=_DATE,
    ),
    Rule(
        name="nic-slower", severity=Severity.WARNING, when=network.nic_slower,
        because="A NIC is slower than the others, and the channels on it hold up all.",
        remedy="ibstat or ethtool on that node shows the rate; a cable or port is the usual cause",
        source="NCCL, src/transport/net_ib/init.cc: speed of a virtual device", date=_DATE,
    ),
    Rule(
        name="gpu-direct-off", severity=Severity.WARNING, when=network.gpu_direct_off,
        because="Data goes through host memory on its way to a NIC.",
        remedy="nvidia_peermem loaded, or DMA-BUF (Linux 5.12); hpckit tune writes"
            " NCCL_NET_GDR_LEVEL",
        source=f"{_ENV}: NCCL_NET_GDR_LEVEL; {_TROUBLE}: GPU Direct RDMA", date=_DATE,
    ),
    Rule(
        name="shm-between-gpus", severity=Severity.WARNING, when=node.shm_between_gpus,
        because="GPUs of one node talk through host memory and not directly.",
        remedy="--gpus-per-node, not --gpus-per-task: each rank needs to see all GPUs of its node",
        source=f"{_TROUBLE}: GPU-to-GPU communication; NCCL issue 1066", date=_DATE,
    ),
    Rule(
        name="gpu-path-far", severity=Severity.WARNING, when=node.gpu_path_far,
        because="NCCL found no ring over NVLink between GPUs that have it.",
        remedy="nvidia-smi nvlink -s, and nvidia-smi topo -p2p r; fabric manager runs on NVSwitch",
        source="NCCL, src/graph/search.cc; src/graph/topo.h, path types", date=_DATE,
    ),
    Rule(
        name="nic-path-far", severity=Severity.WARNING, when=node.nic_path_far,
        because="NCCL's nearest NIC lies across the CPU.",
        remedy="hpckit inspect shows which NIC is close to which GPU; in a VM NCCL_TOPO_FILE may"
            " lack",
        source="NCCL, src/graph/topo.h: PHB crosses the CPU, SYS the link between CPUs", date=_DATE,
    ),
    Rule(
        name="p2p-indirect", severity=Severity.WARNING, when=node.p2p_indirect,
        because="A GPU reaches another through a third one's NVLinks.",
        remedy="hpckit inspect shows missing NVLinks; hpckit place orders ranks by them",
        source="NCCL, src/transport/p2p.cc: P2P_INTERMEDIATE", date=_DATE,
    ),
    Rule(
        name="p2p-refused", severity=Severity.WARNING, when=node.p2p_refused,
        because="The driver lets connected GPUs not access each other.",
        remedy="ACS off or iommu=pt (operator); nvidia-smi topo -p2p r shows the pairs",
        source=f"{_TROUBLE}: PCI Access Control Services", date=_DATE,
    ),
    Rule(
        name="p2p-disabled", severity=Severity.WARNING, when=node.p2p_disabled,
        because="A variable keeps GPUs from accessing each other.",
        remedy="unset it; where P2P hangs, PCI ACS is the cause to mend",
        source=f"{_ENV}: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL", date=_DATE,
    ),
    Rule(
        name="nvls-disabled", severity=Severity.WARNING, when=node.nvls_disabled,
        because="A variable turns NVLink SHARP off: AllReduce sends each byte twice.",
        remedy="unset NCCL_NVLS_ENABLE (2, the default, uses it where it works)",
        source=f"{_ENV}: NCCL_NVLS_ENABLE", date=_DATE,
    ),
    Rule(
        name="nvls-unavailable", severity=Severity.WARNING, when=node.nvls_unavailable,
        because="GPUs and switch have NVLink SHARP, and NCCL could not get it.",
        remedy="nvidia-fabricmanager runs on the node; a VM needs multicast passed on by its host",
        source="NCCL, src/transport/nvls.cc; nccl_busbw: 8 H200 AllReduce 480, without 367 GB/s",
        date=_DATE,
    ),
    Rule(
        name="nics-uneven", severity=Severity.WARNING, when=node.nics_uneven,
        because="Channels do not use all NICs alike.",
        remedy="unset NCCL_CROSS_NIC, NCCL_MAX_NCHANNELS; all GPUs of a node in one job use all"
            " NICs",
        source="NCCL, src/graph/search.cc: a channel enters and leaves a node by one NIC each",
        date=_DATE,
    ),
    Rule(
        name="channels-limited", severity=Severity.WARNING, when=node.channels_limited,
        because="There are fewer channels than the machine could use.",
        remedy="unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS", source=f"{_ENV}: NCCL_MAX_CTAS",
        date=_DATE,
    ),
    Rule(
        name="versions-differ", severity=Severity.WARNING, when=result.versions_differ,
        because="Ranks loaded different releases: collectives may hang or choose another"
            " algorithm.",
        remedy="one container or one LD_LIBRARY_PATH for all ranks",
        source="NCCL, src/init.cc: mismatched NCCL version detected", date=_DATE,
    ),
    Rule(
        name="warned", severity=Severity.WARNING, when=result.warned, because="NCCL warned.",
        remedy="the first warning is mostly the cause of those after it",
        source=f"{_TROUBLE}: Errors", date=_DATE,
    ),
    Rule(
        name="bootstrap-differs", severity=Severity.WARNING, when=network.bootstrap_differs,
        because="A node meets the others on another interface: it may be the slow or wrong"
            " network.",
        remedy="NCCL_SOCKET_IFNAME with an interface that all nodes have",
        source=f"{_ENV}: NCCL_SOCKET_IFNAME", date=_DATE,
    ),
    Rule(
        name="unfinished", severity=Severity.WARNING, when=result.unfinished,
        because="The output of nccl-tests ends before its summary.",
        remedy="look at the end of the file for why the test ended",
        source=f"{_TESTS}: Avg bus bandwidth", date=_DATE,
    ),
    Rule(
        name="algorithm-forced", severity=Severity.NOTE, when=node.algorithm_forced,
        because="A variable decides what NCCL would choose by size.",
        remedy="unset NCCL_ALGO and NCCL_PROTO, and compare",
        source=f"{_ENV}: NCCL_ALGO, NCCL_PROTO", date=_DATE,
    ),
    Rule(
        name="pxn-disabled", severity=Severity.NOTE, when=node.pxn_disabled,
        because="A GPU sends by its own NIC only, so what is for other rails crosses the spine.",
        remedy="unset NCCL_PXN_DISABLE, and compare", source=f"{_ENV}: NCCL_PXN_DISABLE",
        date=_DATE,
    ),
    Rule(
        name="below-predicted", severity=Severity.WARNING, when=result.below_predicted,
        because="The run is far below what its machine should give.",
        remedy="what else is found here; without that NCCL_DEBUG=INFO with"
            " NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING shows links and NICs, node by node",
        source="hpckit's prediction by NCCL's tuning model; the share of 85 % is hpckit's",
        date=_DATE,
    ),
    Rule(
        name="still-rising", severity=Severity.NOTE, when=result.still_rising,
        because="The largest message is too small to show the full bandwidth.",
        remedy="-e 8G (or 16G): to where bus bandwidth rises no more",
        source=f"{_TESTS}: bus bandwidth; the factor of 1.1 is hpckit's", date=_DATE,
    ),
)  # fmt: skip
"""In the order in which those of one severity are told."""


def shortfall_findings(
    run: NcclRun, expected: ExpectedRun | None = None
) -> tuple[SourcedFinding, ...]:
    """Return what is odd about a run, the gravest first, then in the order of the rules.

    Without `expected` the log alone speaks: what the machine has is then not known.
    """
    return tuple(judge(RULES, RunFacts(run, expected or ExpectedRun())))
