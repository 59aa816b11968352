"""The rules about a run of NCCL, as data: what slows one down, or spoils its result."""

from __future__ import annotations

from typing import Final

from hpckit.decide import nccl_rules_network as network
from hpckit.decide import nccl_rules_node as node
from hpckit.decide import nccl_rules_result as result
from hpckit.decide.nccl_rule import RunRule
from hpckit.model.node_finding import Severity

_ENV: Final = "NCCL user guide, Environment Variables"
_TROUBLE: Final = "NCCL user guide, Troubleshooting"
_TESTS: Final = "nccl-tests, README.md and doc/PERFORMANCE.md"
_DATE: Final = "2026-11"

RULES: Final[tuple[RunRule, ...]] = (
    RunRule(
        name="wrong-results",
        severity=Severity.ERROR,
        what="nccl-tests found wrong elements: the bandwidth says nothing.",
        fix="unset NCCL_PROTO and NCCL_ALGO; if it stays, tell your operator which nodes",
        source=f"{_TESTS}: #wrong",
        date=_DATE,
        check=result.wrong_results,
    ),
    RunRule(
        name="alone",
        severity=Severity.ERROR,
        what="Each rank ran without the others: nothing was measured between GPUs.",
        fix="nccl-tests built with MPI=1, and srun --mpi=pmix or mpirun; -g N for one process",
        source=f"{_TESTS}: bus bandwidth of one rank is 0",
        date=_DATE,
        check=result.alone,
    ),
    RunRule(
        name="network-socket",
        severity=Severity.ERROR,
        what="Traffic between nodes goes over TCP.",
        fix="hpckit inspect shows the RDMA NICs; a container needs /dev/infiniband or the plugin",
        source="NCCL, src/plugin/net.cc: Socket is what is left when no other network has a device",
        date=_DATE,
        check=network.network_socket,
    ),
    RunRule(
        name="provider-tcp",
        severity=Severity.ERROR,
        what="Traffic between nodes goes over TCP, by libfabric.",
        fix="unset FI_PROVIDER; a container needs the NICs' devices and the host's libfabric",
        source="aws-ofi-nccl, README.md; libfabric, fi_tcp(7)",
        date=_DATE,
        check=network.provider_tcp,
    ),
    RunRule(
        name="ib-disabled",
        severity=Severity.ERROR,
        what="A variable keeps NCCL off its RDMA NICs.",
        fix="unset NCCL_IB_DISABLE",
        source=f"{_ENV}: NCCL_IB_DISABLE",
        date=_DATE,
        check=node.ib_disabled,
    ),
    RunRule(
        name="plugin-not-loaded",
        severity=Severity.ERROR,
        what="A network plugin that was asked for is not what NCCL used.",
        fix="its folder belongs in LD_LIBRARY_PATH; with NCCL_NET=<its network> NCCL fails without",
        source=f"{_ENV}: NCCL_NET_PLUGIN, NCCL_NET",
        date=_DATE,
        check=network.plugin_not_loaded,
    ),
    RunRule(
        name="no-rdma-device",
        severity=Severity.WARNING,
        what="NCCL's verbs network found no NIC.",
        fix="hpckit inspect shows the RDMA NICs; ibv_devinfo in the same container shows its view",
        source="NCCL, src/transport/net_ib/init.cc",
        date=_DATE,
        check=network.no_rdma_device,
    ),
    RunRule(
        name="nics-fewer",
        severity=Severity.WARNING,
        what="NCCL uses fewer NICs than there are.",
        fix="correct or unset NCCL_IB_HCA; hpckit inspect shows NICs that are down",
        source=f"{_ENV}: NCCL_IB_HCA",
        date=_DATE,
        check=network.nics_fewer,
    ),
    RunRule(
        name="nics-unexpected",
        severity=Severity.WARNING,
        what="NCCL uses NICs that are not for jobs.",
        fix="NCCL_IB_HCA==name,… with those for jobs alone; hpckit tune writes it",
        source=f"{_ENV}: NCCL_IB_HCA, = for an exact match",
        date=_DATE,
        check=network.nics_unexpected,
    ),
    RunRule(
        name="nic-twice",
        severity=Severity.WARNING,
        what="One port is there twice, so channels that should have two NICs share one.",
        fix="unset NCCL_IB_HCA and NCCL_TOPO_FILE; hpckit inspect shows the NICs",
        source="NCCL, src/transport/net_ib/init.cc: one entry a port",
        date=_DATE,
        check=network.nic_twice,
    ),
    RunRule(
        name="nic-slower",
        severity=Severity.WARNING,
        what="A NIC is slower than the others, and the channels on it hold up all.",
        fix="ibstat or ethtool on that node shows the rate; a cable or port is the usual cause",
        source="NCCL, src/transport/net_ib/init.cc: speed of a virtual device",
        date=_DATE,
        check=network.nic_slower,
    ),
    RunRule(
        name="gpu-direct-off",
        severity=Severity.WARNING,
        what="Data goes through host memory on its way to a NIC.",
        fix="nvidia_peermem loaded, or DMA-BUF (Linux 5.12); hpckit tune writes NCCL_NET_GDR_LEVEL",
        source=f"{_ENV}: NCCL_NET_GDR_LEVEL; {_TROUBLE}: GPU Direct RDMA",
        date=_DATE,
        check=network.gpu_direct_off,
    ),
    RunRule(
        name="shm-between-gpus",
        severity=Severity.WARNING,
        what="GPUs of one node talk through host memory and not directly.",
        fix="--gpus-per-node, not --gpus-per-task: each rank needs to see all GPUs of its node",
        source=f"{_TROUBLE}: GPU-to-GPU communication; NCCL issue 1066",
        date=_DATE,
        check=node.shm_between_gpus,
    ),
    RunRule(
        name="gpu-path-far",
        severity=Severity.WARNING,
        what="NCCL found no ring over NVLink between GPUs that have it.",
        fix="nvidia-smi nvlink -s, and nvidia-smi topo -p2p r; fabric manager runs on NVSwitch",
        source="NCCL, src/graph/search.cc; src/graph/topo.h, path types",
        date=_DATE,
        check=node.gpu_path_far,
    ),
    RunRule(
        name="nic-path-far",
        severity=Severity.WARNING,
        what="NCCL's nearest NIC lies across the CPU.",
        fix="hpckit inspect shows which NIC is close to which GPU; in a VM NCCL_TOPO_FILE may lack",
        source="NCCL, src/graph/topo.h: PHB crosses the CPU, SYS the link between CPUs",
        date=_DATE,
        check=node.nic_path_far,
    ),
    RunRule(
        name="p2p-indirect",
        severity=Severity.WARNING,
        what="A GPU reaches another through a third one's NVLinks.",
        fix="hpckit inspect shows missing NVLinks; hpckit place orders ranks by them",
        source="NCCL, src/transport/p2p.cc: P2P_INTERMEDIATE",
        date=_DATE,
        check=node.p2p_indirect,
    ),
    RunRule(
        name="p2p-refused",
        severity=Severity.WARNING,
        what="The driver lets connected GPUs not access each other.",
        fix="ACS off or iommu=pt (operator); nvidia-smi topo -p2p r shows the pairs",
        source=f"{_TROUBLE}: PCI Access Control Services",
        date=_DATE,
        check=node.p2p_refused,
    ),
    RunRule(
        name="p2p-disabled",
        severity=Severity.WARNING,
        what="A variable keeps GPUs from accessing each other.",
        fix="unset it; where P2P hangs, PCI ACS is the cause to mend",
        source=f"{_ENV}: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL",
        date=_DATE,
        check=node.p2p_disabled,
    ),
    RunRule(
        name="nvls-disabled",
        severity=Severity.WARNING,
        what="A variable turns NVLink SHARP off: AllReduce sends each byte twice.",
        fix="unset NCCL_NVLS_ENABLE (2, the default, uses it where it works)",
        source=f"{_ENV}: NCCL_NVLS_ENABLE",
        date=_DATE,
        check=node.nvls_disabled,
    ),
    RunRule(
        name="nvls-unavailable",
        severity=Severity.WARNING,
        what="GPUs and switch have NVLink SHARP, and NCCL could not get it.",
        fix="nvidia-fabricmanager runs on the node; a VM needs multicast passed on by its host",
        source="NCCL, src/transport/nvls.cc; nccl_busbw: 8 H200 AllReduce 480, without 367 GB/s",
        date=_DATE,
        check=node.nvls_unavailable,
    ),
    RunRule(
        name="nics-uneven",
        severity=Severity.WARNING,
        what="Channels do not use all NICs alike.",
        fix="unset NCCL_CROSS_NIC, NCCL_MAX_NCHANNELS; all GPUs of a node in one job use all NICs",
        source="NCCL, src/graph/search.cc: a channel enters and leaves a node by one NIC each",
        date=_DATE,
        check=node.nics_uneven,
    ),
    RunRule(
        name="channels-limited",
        severity=Severity.WARNING,
        what="There are fewer channels than the machine could use.",
        fix="unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS",
        source=f"{_ENV}: NCCL_MAX_CTAS",
        date=_DATE,
        check=node.channels_limited,
    ),
    RunRule(
        name="versions-differ",
        severity=Severity.WARNING,
        what="Ranks loaded different releases: collectives may hang or choose another algorithm.",
        fix="one container or one LD_LIBRARY_PATH for all ranks",
        source="NCCL, src/init.cc: mismatched NCCL version detected",
        date=_DATE,
        check=result.versions_differ,
    ),
    RunRule(
        name="warned",
        severity=Severity.WARNING,
        what="NCCL warned.",
        fix="the first warning is mostly the cause of those after it",
        source=f"{_TROUBLE}: Errors",
        date=_DATE,
        check=result.warned,
    ),
    RunRule(
        name="bootstrap-differs",
        severity=Severity.WARNING,
        what="A node meets the others on another interface: it may be the slow or wrong network.",
        fix="NCCL_SOCKET_IFNAME with an interface that all nodes have",
        source=f"{_ENV}: NCCL_SOCKET_IFNAME",
        date=_DATE,
        check=network.bootstrap_differs,
    ),
    RunRule(
        name="unfinished",
        severity=Severity.WARNING,
        what="The output of nccl-tests ends before its summary.",
        fix="look at the end of the file for why the test ended",
        source=f"{_TESTS}: Avg bus bandwidth",
        date=_DATE,
        check=result.unfinished,
    ),
    RunRule(
        name="algorithm-forced",
        severity=Severity.NOTE,
        what="A variable decides what NCCL would choose by size.",
        fix="unset NCCL_ALGO and NCCL_PROTO, and compare",
        source=f"{_ENV}: NCCL_ALGO, NCCL_PROTO",
        date=_DATE,
        check=node.algorithm_forced,
    ),
    RunRule(
        name="pxn-disabled",
        severity=Severity.NOTE,
        what="A GPU sends by its own NIC only, so what is for other rails crosses the spine.",
        fix="unset NCCL_PXN_DISABLE, and compare",
        source=f"{_ENV}: NCCL_PXN_DISABLE",
        date=_DATE,
        check=node.pxn_disabled,
    ),
    RunRule(
        name="below-predicted",
        severity=Severity.WARNING,
        what="The run is far below what its machine should give.",
        fix="what else is found here; without that NCCL_DEBUG=INFO with"
        " NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING shows links and NICs, node by node",
        source="hpckit's prediction by NCCL's tuning model; the share of 85 % is hpckit's",
        date=_DATE,
        check=result.below_predicted,
    ),
    RunRule(
        name="still-rising",
        severity=Severity.NOTE,
        what="The largest message is too small to show the full bandwidth.",
        fix="-e 8G (or 16G): to where bus bandwidth rises no more",
        source=f"{_TESTS}: bus bandwidth; the factor of 1.1 is hpckit's",
        date=_DATE,
        check=result.still_rising,
    ),
)
"""In the order in which those of one severity are told."""

_PAGE: Final = """\
<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->
# What explains that a run of NCCL is slow

`hpckit tune --compare LOG` reads the output of nccl-tests and NCCL's log, and says which of these
it shows. What a log does not tell is no finding: with `NCCL_DEBUG=INFO` and
`NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING` it tells all. A severity is that of the usual case;
where the machine may have it by design, the finding is a note.

| Rule | Severity | What | What to do | Source |
|---|---|---|---|---|
{rows}
"""


def run_rules_page() -> str:
    """The reference page docs/reference/run-rules.md."""
    ordered = sorted(RULES, key=lambda rule: -rule.severity.rank)
    return _PAGE.format(rows="\n".join(map(_row, ordered)))


def _row(rule: RunRule) -> str:
    cells = (f"`{rule.name}`", rule.severity.value, rule.what, rule.fix,
             f"{rule.source} ({rule.date})")  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
