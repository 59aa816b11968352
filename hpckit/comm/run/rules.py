"""The rules about a run of NCCL, as data: what slows one down, or spoils its result."""

from __future__ import annotations

from typing import Final

from hpckit.comm.run import rules_checks as checks
from hpckit.comm.run import rules_result as result
from hpckit.comm.run.result import NcclRun
from hpckit.comm.run.rules_result import ExpectedRun, RunFacts
from hpckit.core.findings import Check, Rule, Severity, SourcedFinding, judge

_ENV: Final = "NCCL user guide, Environment Variables"
_TROUBLE: Final = "NCCL user guide, Troubleshooting"
_TESTS: Final = "nccl-tests, README.md and doc/PERFORMANCE.md"

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


_ROWS: Final[tuple[tuple[Severity, str, Check[RunFacts], str, str, str], ...]] = (
    (_ERROR, "wrong-results", result.wrong_results,
     "nccl-tests found wrong elements: the bandwidth says nothing.",
     "unset NCCL_PROTO and NCCL_ALGO; if it stays, tell your operator which nodes",
     f"{_TESTS}: #wrong"),
    (_ERROR, "alone", result.alone,
     "Each rank ran without the others: nothing was measured between GPUs.",
     "nccl-tests built with MPI=1, and srun --mpi=pmix or mpirun; -g N for one process",
     f"{_TESTS}: bus bandwidth of one rank is 0"),
    (_ERROR, "network-socket", checks.network_socket, "Traffic between nodes goes over TCP.",
     "hpckit inspect shows the RDMA NICs; a container needs /dev/infiniband or the plugin",
     "NCCL, src/plugin/net.cc: Socket is what is left when no other network has a device"),
    (_ERROR, "provider-tcp", checks.provider_tcp,
     "Traffic between nodes goes over TCP, by libfabric.",
     "unset FI_PROVIDER; a container needs the NICs' devices and the host's libfabric",
     "aws-ofi-nccl, README.md; libfabric, fi_tcp(7)"),
    (_ERROR, "ib-disabled", checks.ib_disabled, "A variable keeps NCCL off its RDMA NICs.",
     "unset NCCL_IB_DISABLE", f"{_ENV}: NCCL_IB_DISABLE"),
    (_ERROR, "plugin-not-loaded", checks.plugin_not_loaded,
     "A network plugin that was asked for is not what NCCL used.",
     "its folder belongs in LD_LIBRARY_PATH; with NCCL_NET=<its network> NCCL fails without",
     f"{_ENV}: NCCL_NET_PLUGIN, NCCL_NET"),
    (_WARNING, "no-rdma-device", checks.no_rdma_device, "NCCL's verbs network found no NIC.",
     "hpckit inspect shows the RDMA NICs; ibv_devinfo in the same container shows its view",
     "NCCL, src/transport/net_ib/init.cc"),
    (_WARNING, "nics-fewer", checks.nics_fewer, "NCCL uses fewer NICs than there are.",
     "correct or unset NCCL_IB_HCA; hpckit inspect shows NICs that are down",
     f"{_ENV}: NCCL_IB_HCA"),
    (_WARNING, "nics-unexpected", checks.nics_unexpected, "NCCL uses NICs that are not for jobs.",
     "NCCL_IB_HCA==name,… with those for jobs alone; hpckit tune writes it",
     f"{_ENV}: NCCL_IB_HCA, = for an exact match"),
    (_WARNING, "nic-twice", checks.nic_twice,
     "One port is there twice, so channels that should have two NICs share one.",
     "unset NCCL_IB_HCA and NCCL_TOPO_FILE; hpckit inspect shows the NICs",
     "NCCL, src/transport/net_ib/init.cc: one entry a port"),
    (_WARNING, "nic-slower", checks.nic_slower,
     "A NIC is slower than the others, and the channels on it hold up all.",
     "ibstat or ethtool on that node shows the rate; a cable or port is the usual cause",
     "NCCL, src/transport/net_ib/init.cc: speed of a virtual device"),
    (_WARNING, "gpu-direct-off", checks.gpu_direct_off,
     "Data goes through host memory on its way to a NIC.",
     "nvidia_peermem loaded, or DMA-BUF (Linux 5.12); hpckit tune writes NCCL_NET_GDR_LEVEL",
     f"{_ENV}: NCCL_NET_GDR_LEVEL; {_TROUBLE}: GPU Direct RDMA"),
    (_WARNING, "shm-between-gpus", checks.shm_between_gpus,
     "GPUs of one node talk through host memory and not directly.",
     "--gpus-per-node, not --gpus-per-task: each rank needs to see all GPUs of its node",
     f"{_TROUBLE}: GPU-to-GPU communication; NCCL issue 1066"),
    (_WARNING, "gpu-path-far", checks.gpu_path_far,
     "NCCL found no ring over NVLink between GPUs that have it.",
     "nvidia-smi nvlink -s, and nvidia-smi topo -p2p r; fabric manager runs on NVSwitch",
     "NCCL, src/graph/search.cc; src/graph/topo.h, path types"),
    (_WARNING, "nic-path-far", checks.nic_path_far, "NCCL's nearest NIC lies across the CPU.",
     "hpckit inspect shows which NIC is close to which GPU; in a VM NCCL_TOPO_FILE may lack",
     "NCCL, src/graph/topo.h: PHB crosses the CPU, SYS the link between CPUs"),
    (_WARNING, "p2p-indirect", checks.p2p_indirect,
     "A GPU reaches another through a third one's NVLinks.",
     "hpckit inspect shows missing NVLinks; hpckit place orders ranks by them",
     "NCCL, src/transport/p2p.cc: P2P_INTERMEDIATE"),
    (_WARNING, "p2p-refused", checks.p2p_refused,
     "The driver lets connected GPUs not access each other.",
     "ACS off or iommu=pt (operator); nvidia-smi topo -p2p r shows the pairs",
     f"{_TROUBLE}: PCI Access Control Services"),
    (_WARNING, "p2p-disabled", checks.p2p_disabled,
     "A variable keeps GPUs from accessing each other.",
     "unset it; where P2P hangs, PCI ACS is the cause to mend",
     f"{_ENV}: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL"),
    (_WARNING, "nvls-disabled", checks.nvls_disabled,
     "A variable turns NVLink SHARP off: AllReduce sends each byte twice.",
     "unset NCCL_NVLS_ENABLE (2, the default, uses it where it works)",
     f"{_ENV}: NCCL_NVLS_ENABLE"),
    (_WARNING, "nvls-unavailable", checks.nvls_unavailable,
     "GPUs and switch have NVLink SHARP, and NCCL could not get it.",
     "nvidia-fabricmanager runs on the node; a VM needs multicast passed on by its host",
     "NCCL, src/transport/nvls.cc; nccl_busbw: 8 H200 AllReduce 480, without 367 GB/s"),
    (_WARNING, "nics-uneven", checks.nics_uneven, "Channels do not use all NICs alike.",
     "unset NCCL_CROSS_NIC, NCCL_MAX_NCHANNELS; all GPUs of a node in one job use all NICs",
     "NCCL, src/graph/search.cc: a channel enters and leaves a node by one NIC each"),
    (_WARNING, "channels-limited", checks.channels_limited,
     "There are fewer channels than the machine could use.",
     "unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS", f"{_ENV}: NCCL_MAX_CTAS"),
    (_WARNING, "versions-differ", result.versions_differ,
     "Ranks loaded different releases: collectives may hang or choose another algorithm.",
     "one container or one LD_LIBRARY_PATH for all ranks",
     "NCCL, src/init.cc: mismatched NCCL version detected"),
    (_WARNING, "warned", result.warned, "NCCL warned.",
     "the first warning is mostly the cause of those after it", f"{_TROUBLE}: Errors"),
    (_WARNING, "bootstrap-differs", checks.bootstrap_differs,
     "A node meets the others on another interface: it may be the slow or wrong network.",
     "NCCL_SOCKET_IFNAME with an interface that all nodes have", f"{_ENV}: NCCL_SOCKET_IFNAME"),
    (_WARNING, "unfinished", result.unfinished, "The output of nccl-tests ends before its summary.",
     "look at the end of the file for why the test ended", f"{_TESTS}: Avg bus bandwidth"),
    (_NOTE, "algorithm-forced", checks.algorithm_forced,
     "A variable decides what NCCL would choose by size.",
     "unset NCCL_ALGO and NCCL_PROTO, and compare", f"{_ENV}: NCCL_ALGO, NCCL_PROTO"),
    (_NOTE, "pxn-disabled", checks.pxn_disabled,
     "A GPU sends by its own NIC only, so what is for other rails crosses the spine.",
     "unset NCCL_PXN_DISABLE, and compare", f"{_ENV}: NCCL_PXN_DISABLE"),
    (_WARNING, "below-predicted", result.below_predicted,
     "The run is far below what its machine should give.",
     "what else is found here; without that NCCL_DEBUG=INFO with"
     " NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING shows links and NICs, node by node",
     "hpckit's prediction by NCCL's tuning model; the share of 85 % is hpckit's"),
    (_NOTE, "still-rising", result.still_rising,
     "The largest message is too small to show the full bandwidth.",
     "-e 8G (or 16G): to where bus bandwidth rises no more",
     f"{_TESTS}: bus bandwidth; the factor of 1.1 is hpckit's"),
)  # fmt: skip
"""In the order in which those of one severity are told."""

RULES: Final = tuple(
    Rule(
        name=name,
        severity=severity,
        when=when,
        because=because,
        remedy=remedy,
        source=source,
        date="2026-11",
    )
    for severity, name, when, because, remedy, source in _ROWS
)


def shortfall_findings(
    run: NcclRun, expected: ExpectedRun | None = None
) -> tuple[SourcedFinding, ...]:
    """Return what is odd about a run, the gravest first, then in the order of the rules.

    Without `expected` the log alone speaks: what the machine has is then not known.
    """
    return tuple(judge(RULES, RunFacts(run, expected or ExpectedRun())))
