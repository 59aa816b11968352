"""Rules of EFA, whose plugin aws-ofi-nccl sets by itself what it needs of NCCL."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_rule import CommAdvice, CommRule, When
from hpckit.model.comm import NetPlugin
from hpckit.model.nic_kind import NicKind

_NEMO: Final = (
    "awsome-distributed-ai, 3.test_cases/megatron/nemo/Dockerfile,"
    " https://github.com/awslabs/awsome-distributed-ai"
)

EFA_RULES: Final = (
    CommRule(
        name="efa-socket-ifname", variable="NCCL_SOCKET_IFNAME", value="^docker,lo,veth",
        when=When(interconnects=(NicKind.EFA,), min_nodes=2),
        because="ranks meet over the instance's own interface, whatever it is called, and not over"
        " one of a container",
        source=_NEMO,
        date="2026-07",
    ),
)  # fmt: skip

EFA_ADVICE: Final = (
    CommAdvice(
        name="efa-without-plugin", severity=Severity.WARNING, subject="plugin",
        when=When(interconnects=(NicKind.EFA,), plugins=(NetPlugin.NONE,), min_nodes=2),
        because="NCCL itself cannot use EFA: without aws-ofi-nccl it goes by TCP",
        source="aws-ofi-nccl, README.md, https://github.com/aws/aws-ofi-nccl",
        remedy="load the plugin: its folder on LD_LIBRARY_PATH, before the image's own",
    ),
)  # fmt: skip
