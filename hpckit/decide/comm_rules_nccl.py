"""Rules of NCCL's core: rails, NVLink domains, C2C. Defaults as NCCL_PARAM in NCCL's source."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_rule import ENV_RST, CommAdvice, CommRule, When
from hpckit.model.comm import CommLibrary, NetPlugin
from hpckit.model.comm_facts import Trait

OWN_TRANSPORTS: Final = (None, NetPlugin.NONE, NetPlugin.HPCX)
"""Where no plugin owns the environment: NCCL's verbs and sockets, and NVIDIA's plugin of both."""

NCCL_RULES: Final = (
    CommRule(
        name="cross-nic-isolated-rails", variable="NCCL_CROSS_NIC", value="0",
        when=When(min_nodes=2, plugins=OWN_TRANSPORTS, traits=(Trait.ISOLATED_RAILS,)),
        because="no path leads from a rail to another, and 2, the default, may try to cross;"
        " ranks that are not on one rail still need PXN",
        source=ENV_RST.format(variable="NCCL_CROSS_NIC") + "; NVIDIA/nccl issues 836 and 2345",
        date="2026-11",
    ),
    CommRule(
        name="mnnvl-loud", variable="NCCL_MNNVL_ENABLE", value="1",
        when=When(min_nodes=2, library=CommLibrary.NCCL, since="2.21",
                  traits=(Trait.DOMAIN_DOWN, Trait.GRACE)),
        because="{domain}: by NVIDIA's reference 1 ends a job that lacks its NVLink domain; NCCL"
        " before 2.25 does so, a later one may still go on over the NICs",
        source=ENV_RST.format(variable="NCCL_MNNVL_ENABLE") + "; init.cc of v2.24.3, mnnvl.cc of"
        " v2.27.3",
        date="2026-11",
    ),
    CommRule(
        name="gdr-c2c", variable="NCCL_NET_GDR_C2C", value="1",
        when=When(min_nodes=2, library=CommLibrary.NCCL, since="2.26", before="2.27",
                  traits=(Trait.GRACE,)),
        because="NICs reach these GPUs through the CPU's C2C; off by default in 2.26 alone",
        source=ENV_RST.format(variable="NCCL_NET_GDR_C2C") + "; paths.cc of v2.26.2 and v2.27.3",
        date="2026-11",
    ),
)  # fmt: skip

NCCL_ADVICE: Final = (
    CommAdvice(
        name="nvlink-domain", severity=Severity.WARNING, subject="GPUs",
        when=When(min_nodes=2, traits=(Trait.DOMAIN_DOWN, Trait.GRACE)),
        because="{domain}; NVLink between nodes needs the fabric manager's domain and the IMEX"
        " daemon on each node",
        source=ENV_RST.format(variable="NCCL_MNNVL_ENABLE"),
        remedy="nvidia-smi -q -d FABRIC; nvidia-imex-ctl -N; Slurm hands out channels with"
        " SwitchType=switch/nvidia_imex",
    ),
)  # fmt: skip
