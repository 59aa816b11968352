"""Rules of HPE Slingshot, which NCCL and RCCL use through libfabric and a plugin."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_rule import ENV_RST, CommAdvice, CommRule, When
from hpckit.model.comm import CommLibrary, NetPlugin
from hpckit.model.comm_facts import Trait
from hpckit.model.nic_kind import NicKind

_SLINGSHOT: Final = (NicKind.SLINGSHOT,)
_OFI: Final = (NetPlugin.AWS_OFI,)
_CSCS: Final = (
    "CSCS, Communication libraries, NCCL, https://docs.cscs.ch/software/communication/nccl/"
)
_LUMI: Final = "LUMI, PyTorch, https://docs.lumi-supercomputer.eu/software/packages/pytorch/"

SLINGSHOT_RULES: Final = (
    CommRule(
        name="slingshot-socket-ifname", variable="NCCL_SOCKET_IFNAME", value="{interfaces}",
        when=When(interconnects=_SLINGSHOT, min_nodes=2),
        because="ranks meet over Slingshot, not over the nodes' Ethernet",
        source=_LUMI,
        date="2024-10",
    ),
    CommRule(
        name="slingshot-gdr", variable="NCCL_NET_GDR_LEVEL", value="PHB",
        when=When(interconnects=_SLINGSHOT, plugins=(None, NetPlugin.AWS_OFI), min_nodes=2),
        because="NCCL and RCCL see these NICs at PHB from their GPUs, and by default use GPUDirect"
        " RDMA up to PXB alone",
        source=f"{_LUMI} (as the number 3); {_CSCS}",
        date="2026-11",
    ),
    CommRule(
        name="slingshot-net", variable="NCCL_NET", value="AWS Libfabric",
        when=When(interconnects=_SLINGSHOT, plugins=_OFI, min_nodes=2),
        because="a plugin that is not found ends the job, instead of TCP at a fraction of the"
        " speed",
        source=_CSCS,
        date="2026-11",
    ),
    CommRule(
        name="slingshot-cross-nic", variable="NCCL_CROSS_NIC", value="1",
        when=When(interconnects=_SLINGSHOT, plugins=_OFI, min_nodes=2),
        because="a dragonfly has no rails: rings may leave by one NIC and come back by another",
        source=f"{ENV_RST.format(variable='NCCL_CROSS_NIC')}; {_CSCS}",
        date="2026-11",
    ),
    CommRule(
        name="slingshot-ll128", variable="NCCL_PROTO", value="^LL128",
        when=When(interconnects=_SLINGSHOT, plugins=_OFI, library=CommLibrary.NCCL, since="2.27",
                  min_nodes=2, traits=(Trait.GRACE,)),
        because="LL128 between nodes, which NCCL turned on in 2.27, was seen to give wrong sums"
        " here: NICs write to these GPUs through the CPU",
        source="NVIDIA/nccl, issue 2001, https://github.com/NVIDIA/nccl/issues/2001, and pull"
        f" request 2053; {_CSCS}",
        date="2026-11",
    ),
)  # fmt: skip

SLINGSHOT_ADVICE: Final = (
    CommAdvice(
        name="slingshot-without-plugin", severity=Severity.WARNING, subject="plugin",
        when=When(interconnects=_SLINGSHOT, plugins=(NetPlugin.NONE,), min_nodes=2),
        because="NCCL and RCCL reach Slingshot's RDMA through aws-ofi-nccl alone: without it they"
        " go by TCP",
        source=_CSCS,
        remedy="load the plugin of your centre (a module, a container hook), then"
        " --plugin aws-ofi-nccl",
    ),
    CommAdvice(
        name="slingshot-plugin-unknown", severity=Severity.NOTE, subject="plugin",
        when=When(interconnects=_SLINGSHOT, plugins=(None,), min_nodes=2),
        because="whether the job loads aws-ofi-nccl is not known; with it NCCL_NET and"
        " NCCL_CROSS_NIC are set as well",
        source=_CSCS,
        remedy="--plugin aws-ofi-nccl, or [tune] plugin in the job file",
    ),
)  # fmt: skip
