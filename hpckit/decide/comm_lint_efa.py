"""Rules about libfabric: EFA and its plugin, Slingshot."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_rule import LintRule
from hpckit.model.comm import NetPlugin

_SHEET: Final = "aws-ofi-nccl doc/efa-env-var.md"
_OFI: Final = (NetPlugin.AWS_OFI,)
_ANY: Final = "(1|y|yes|true|on)"
_OUT: Final = "leave it out"

EFA_RULES: Final = (
    LintRule(
        name="efa-fork-safe", names=("FI_EFA_FORK_SAFE",), severity=Severity.NOTE,
        because="the plugin sets it where the kernel (before 5.15) needs it, since release 1.2",
        remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="efa-rdmav-fork", names=("RDMAV_FORK_SAFE", "IBV_FORK_SAFE"),
        severity=Severity.WARNING, value=_ANY,
        because="a setting of rdma-core, not of EFA; on newer kernels it can break what works",
        remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="efa-device-rdma", names=("FI_EFA_USE_DEVICE_RDMA",), severity=Severity.NOTE,
        value=_ANY, because="the default from libfabric 1.18 and aws-ofi-nccl 1.7 on", remedy=_OUT,
        source=_SHEET,
    ),
    LintRule(
        name="efa-device-rdma-off", names=("FI_EFA_USE_DEVICE_RDMA",), severity=Severity.WARNING,
        value="(0|n|no|false|off)",
        because="EFA then does without RDMA, and GPUs go through host memory", remedy=_OUT,
        source=_SHEET,
    ),
    LintRule(
        name="efa-shm", names=("FI_EFA_ENABLE_SHM_TRANSFER",), severity=Severity.NOTE,
        because="the plugin has libfabric do without it in any case", remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="efa-provider", names=("FI_PROVIDER",), severity=Severity.NOTE, value="efa",
        because="needed by aws-ofi-nccl up to 1.5.0 alone", remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="fi-provider-tcp", names=("FI_PROVIDER",), severity=Severity.WARNING,
        value=r"(tcp|sockets|udp)(;.*)?", nodes="not one",
        because="libfabric then goes over TCP or UDP, and not over the fabric", remedy=_OUT,
        source="fabric(7)",
    ),
    LintRule(
        name="efa-huge-page", names=("FI_EFA_USE_HUGE_PAGE",), severity=Severity.NOTE, value="0",
        because="costs some speed; it is the cure where fork fails with `Cannot allocate memory`",
        remedy=f"{_OUT} unless data loaders fail so", source=_SHEET,
    ),
    LintRule(
        name="efa-proto", names=("NCCL_PROTO",), severity=Severity.WARNING, value="simple",
        plugins=_OFI,
        because="needed by aws-ofi-nccl up to 1.5.0 alone; later ones choose the protocol",
        remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="efa-channels", names=("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"),
        severity=Severity.NOTE, plugins=_OFI,
        because="more channels cut messages smaller, and EFA starves", remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="efa-buffsize", names=("NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE"),
        severity=Severity.NOTE, plugins=_OFI,
        because="the plugin sets it by the type of the instance", remedy=_OUT, source=_SHEET,
    ),
    LintRule(
        name="fi-memhooks", names=("FI_MR_CACHE_MONITOR",), severity=Severity.ERROR,
        value="memhooks",
        because="it intercepts allocation calls, and NCCL and RCCL on libfabric can hang with it",
        remedy="FI_MR_CACHE_MONITOR=userfaultfd, or kdreg2 where the site has it",
        source="site guides for Slingshot; fi_mr(3)",
    ),
    LintRule(
        name="ofi-net-without-plugin", names=("NCCL_NET",), severity=Severity.ERROR,
        value="(aws )?libfabric", plugins=(NetPlugin.NONE,),
        because="no aws-ofi-nccl is here, and NCCL stops where the named network is missing",
        remedy="install or load the plugin, or leave it out", source="NCCL user guide, env.rst",
    ),
)  # fmt: skip
