"""The rules about a run of NCCL, as data: what slows one down, or spoils its result."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hpckit.comm.run import rules_checks as checks
from hpckit.comm.run import rules_result as result
from hpckit.comm.run.result import NcclRun
from hpckit.comm.run.rules_result import ExpectedRun, RunFacts
from hpckit.core.findings import Check, Rule, Severity, SourcedFinding, judge
from hpckit.core.late import regex
from hpckit.spec.platform import CommLibrary

_ENV: Final = "NCCL user guide, Environment Variables"
_TROUBLE: Final = "NCCL user guide, Troubleshooting"
_TESTS: Final = "nccl-tests, README.md and doc/PERFORMANCE.md"

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


_ROWS: Final[tuple[tuple[Severity, str, Check[RunFacts], str, str, str], ...]] = (
    (_ERROR, "wrong-results", result.wrong_results,
     "nccl-tests found wrong results: its bandwidth means nothing.",
     "unset NCCL_PROTO and NCCL_ALGO; run again; if it persists, report the nodes to your admins",
     f"{_TESTS}: #wrong"),
    (_ERROR, "alone", result.alone,
     "Each rank ran alone: no traffic between GPUs was measured.",
     "build nccl-tests with MPI=1 and use srun --mpi=pmix or mpirun; -g N for one process",
     f"{_TESTS}: bus bandwidth of one rank is 0"),
    (_ERROR, "network-socket", checks.network_socket, "Traffic between nodes goes over TCP.",
     "check the RDMA NICs (hpckit inspect); a container needs /dev/infiniband or the plugin",
     "NCCL, src/plugin/net.cc: Socket is the fallback when no other network has a device"),
    (_ERROR, "provider-tcp", checks.provider_tcp,
     "Traffic between nodes goes over TCP, through libfabric.",
     "unset FI_PROVIDER; a container needs the NICs' devices and the host's libfabric",
     "aws-ofi-nccl, README.md; libfabric, fi_tcp(7)"),
    (_ERROR, "ib-disabled", checks.ib_disabled, "A variable turns the RDMA NICs off.",
     "unset NCCL_IB_DISABLE", f"{_ENV}: NCCL_IB_DISABLE"),
    (_ERROR, "plugin-not-loaded", checks.plugin_not_loaded,
     "NCCL did not use the requested network plugin.",
     "put its folder on LD_LIBRARY_PATH; NCCL_NET=<its network> makes NCCL fail without it",
     f"{_ENV}: NCCL_NET_PLUGIN, NCCL_NET"),
    (_WARNING, "no-rdma-device", checks.no_rdma_device,
     "NCCL's RDMA transport (NET/IB) found no NIC.",
     "compare hpckit inspect on the node with ibv_devinfo in the same container",
     "NCCL, src/transport/net_ib/init.cc"),
    (_WARNING, "nics-fewer", checks.nics_fewer, "NCCL uses fewer NICs than the node has.",
     "unset NCCL_IB_HCA or correct it; hpckit inspect shows NICs that are down",
     f"{_ENV}: NCCL_IB_HCA"),
    (_WARNING, "nics-unexpected", checks.nics_unexpected, "NCCL uses NICs that are not for jobs.",
     "NCCL_IB_HCA==NAME,… with only the NICs for jobs; hpckit tune sets it",
     f"{_ENV}: NCCL_IB_HCA, = for an exact match"),
    (_WARNING, "nic-twice", checks.nic_twice,
     "NCCL lists one port twice, so channels that should use two NICs share one.",
     "unset NCCL_IB_HCA and NCCL_TOPO_FILE; hpckit inspect shows the NICs",
     "NCCL, src/transport/net_ib/init.cc: one entry per port"),
    (_WARNING, "nic-slower", checks.nic_slower,
     "A NIC is slower than the others, and its channels slow down all.",
     "check the rate with ibstat or ethtool; the usual cause is a cable or a port",
     "NCCL, src/transport/net_ib/init.cc: speed of a virtual device"),
    (_WARNING, "gpu-direct-off", checks.gpu_direct_off,
     "Data goes through host memory on its way to a NIC.",
     "unset NCCL_NET_GDR_LEVEL; load nvidia_peermem or use DMA-BUF (Linux 5.12)",
     f"{_ENV}: NCCL_NET_GDR_LEVEL; {_TROUBLE}: GPU Direct RDMA"),
    (_WARNING, "shm-between-gpus", checks.shm_between_gpus,
     "GPUs of one node communicate through host memory instead of directly.",
     "use --gpus-per-node, not --gpus-per-task: each rank must see all GPUs of its node",
     f"{_TROUBLE}: GPU-to-GPU communication; NCCL issue 1066"),
    (_WARNING, "gpu-path-far", checks.gpu_path_far,
     "NCCL found no NVLink ring between GPUs with NVLink.",
     "check nvidia-smi nvlink -s, nvidia-smi topo -p2p r; NVSwitch needs the fabric manager",
     "NCCL, src/graph/search.cc; src/graph/topo.h, path types"),
    (_WARNING, "nic-path-far", checks.nic_path_far,
     "NCCL reaches its nearest NIC only through the CPU.",
     "hpckit inspect shows the NICs near each GPU; in a VM NCCL_TOPO_FILE may be missing",
     "NCCL, src/graph/topo.h: PHB crosses the CPU, SYS the link between CPUs"),
    (_WARNING, "p2p-indirect", checks.p2p_indirect,
     "A GPU reaches another through a third GPU's NVLinks.",
     "hpckit inspect shows missing NVLinks; hpckit place orders ranks by them",
     "NCCL, src/transport/p2p.cc: P2P_INTERMEDIATE"),
    (_WARNING, "p2p-refused", checks.p2p_refused,
     "The driver refuses P2P between connected GPUs.",
     "admins: turn ACS off or set iommu=pt; nvidia-smi topo -p2p r shows the pairs",
     f"{_TROUBLE}: PCI Access Control Services"),
    (_WARNING, "p2p-disabled", checks.p2p_disabled,
     "A variable turns off P2P between GPUs.",
     "unset it; if P2P hangs, the usual cause is PCI ACS",
     f"{_ENV}: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL"),
    (_NOTE, "nvls-disabled", checks.nvls_disabled,
     "A variable turns off NVLink SHARP: AllReduce sends each byte twice.",
     "unset NCCL_NVLS_ENABLE (the default, 2, uses it where it works)",
     f"{_ENV}: NCCL_NVLS_ENABLE"),
    (_WARNING, "nvls-unavailable", checks.nvls_unavailable,
     "NCCL could not use NVLink SHARP, which GPUs and switch have.",
     "admins: run nvidia-fabricmanager; a VM needs multicast passed through by its host",
     "NCCL, src/transport/nvls.cc; nccl_busbw: 8 H200 AllReduce 480, without 367 GB/s"),
    (_WARNING, "nics-uneven", checks.nics_uneven, "Channels use the NICs unevenly.",
     "unset NCCL_CROSS_NIC and NCCL_MAX_NCHANNELS; only a job on all GPUs uses all NICs",
     "NCCL, src/graph/search.cc: a channel enters and leaves a node by one NIC each"),
    (_WARNING, "channels-limited", checks.channels_limited,
     "NCCL uses fewer channels than the machine allows.",
     "unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS; NCCL_MIN_CTAS gives more: measure both",
     f"{_ENV}: NCCL_MAX_CTAS"),
    (_WARNING, "versions-differ", result.versions_differ,
     "Ranks loaded different releases: collectives may hang, or algorithms may differ.",
     "use one container or one LD_LIBRARY_PATH for all ranks",
     "NCCL, src/init.cc: mismatched NCCL version detected"),
    (_WARNING, "warned", result.warned, "NCCL logged warnings.",
     "start with the first: it usually causes the others", f"{_TROUBLE}: Errors"),
    (_WARNING, "bootstrap-differs", checks.bootstrap_differs,
     "A node bootstraps over another interface than the rest, maybe the wrong network.",
     "set NCCL_SOCKET_IFNAME to an interface that all nodes have", f"{_ENV}: NCCL_SOCKET_IFNAME"),
    (_WARNING, "unfinished", result.unfinished, "The output of nccl-tests ends before its summary.",
     "the end of the file may show why the test stopped", f"{_TESTS}: Avg bus bandwidth"),
    (_NOTE, "algorithm-forced", checks.algorithm_forced,
     "A variable overrides NCCL's choice by message size.",
     "unset NCCL_ALGO and NCCL_PROTO, and compare", f"{_ENV}: NCCL_ALGO, NCCL_PROTO"),
    (_NOTE, "pxn-disabled", checks.pxn_disabled,
     "A GPU sends only on its own NIC, so traffic for other rails crosses the spine.",
     "unset NCCL_PXN_DISABLE, and compare", f"{_ENV}: NCCL_PXN_DISABLE"),
    (_WARNING, "below-predicted", result.below_predicted,
     "Bandwidth is far below what this machine should reach.",
     "fix the other findings first; if there are none, NCCL_DEBUG=INFO with"
     " NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING shows links and NICs of each node",
     "hpckit's prediction by NCCL's tuning model; the share of 85 % is hpckit's"),
    (_NOTE, "still-rising", result.still_rising,
     "The largest message is too small to show the full bandwidth.",
     "-e 8G or 16G: raise it until bus bandwidth stops rising",
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
    facts = RunFacts(run, expected or ExpectedRun())
    return tuple(_advised(one, facts) for one in judge(RULES, facts))


_UNSET: Final = regex(r"unset (NCCL_[A-Z0-9_]+(?: and NCCL_[A-Z0-9_]+)*)(.*)")
_ON_AMD: Final = {
    "gpu-direct-off": "unset NCCL_NET_GDR_LEVEL; NCCL_DMABUF_ENABLE=1 (Linux 5.12), or admins:"
    " load ib_peer_mem",
    "p2p-refused": "admins: turn ACS off or set iommu=pt; rocm-smi --showtopoaccess shows pairs",
}
_ON_OMNI_PATH: Final = {
    "gpu-direct-off": "load a plugin: aws-ofi-nccl over libfabric's psm2 or opx has GPU Direct;"
    " Omni-Path's verbs do not",
}
_BETWEEN_SOME: Final = {
    "shm-between-gpus": "nothing to fix where a CPU is between them; else each rank must see all"
    " GPUs of its node: --gpus-per-node, not --gpus-per-task",
}
_P2P_LIMITED: Final = {
    "shm-between-gpus": "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL, and compare",
}
_REFUSED: Final = {"shm-between-gpus": "see p2p-refused"}
_ON_EFA: Final = {
    "gpu-direct-off": "unset NCCL_NET_GDR_LEVEL; nothing to fix on instances without GPU Direct"
    " RDMA, such as G5; on others update EFA's installer; before libfabric 1.18 set"
    " FI_EFA_USE_DEVICE_RDMA=1",
}


def _advised(finding: SourcedFinding, facts: RunFacts) -> SourcedFinding:
    """Return it with advice for the run's GPUs, to unset only what the log shows as set."""
    is_amd = any(one.what.library is CommLibrary.RCCL for one in facts.log.versions)
    special = {
        **(_ON_AMD if is_amd else {}),
        **(_ON_OMNI_PATH if facts.is_omni_path else {}),
        **(_ON_EFA if facts.is_efa else {}),
        **(_BETWEEN_SOME if facts.has_p2p and not facts.is_nvlink else {}),
        **(_REFUSED if facts.log.p2p_disabled else {}),
        **(_P2P_LIMITED if facts.limits_p2p else {}),
    }
    remedy = special.get(finding.rule, finding.remedy)
    if facts.run.log is not None:
        clauses = (_set_only(clause, facts) for clause in remedy.split("; "))
        remedy = "; ".join(filter(None, clauses))
    return replace(finding, remedy=remedy)


def _set_only(clause: str, facts: RunFacts) -> str:
    match = _UNSET.fullmatch(clause)
    if match is None:
        return clause
    names = [one.what.name for one, _ in facts.settings(*match[1].split(" and "))]
    return f"unset {' and '.join(dict.fromkeys(names))}{match[2]}" if names else ""
