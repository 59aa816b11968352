"""Rules of NCCL's IB transport, which carries InfiniBand and RoCE."""

from __future__ import annotations

from typing import Final

from hpckit.decide.comm_rule import ENV_RST, CommRule, When
from hpckit.decide.comm_rules_nccl import OWN_TRANSPORTS
from hpckit.model.comm_facts import Trait
from hpckit.model.nic_kind import NicKind

_VERBS: Final = (NicKind.INFINIBAND, NicKind.ROCE)
_LARGE_NODES: Final = 128
"""From so many nodes on hpckit calls a fabric large; NCCL's reference gives no number."""

IB_RULES: Final = (
    CommRule(
        name="ib-hca-subset", variable="NCCL_IB_HCA", value="={hcas}",
        when=When(interconnects=_VERBS, plugins=OWN_TRANSPORTS, min_nodes=2,
                  traits=(Trait.OTHER_HCAS,)),
        because="exactly the devices for jobs (= is no prefix); not {others}",
        source=ENV_RST.format(variable="NCCL_IB_HCA"),
        date="2026-11",
    ),
    CommRule(
        name="ib-hca-listed", variable="NCCL_IB_HCA", value="={hcas}",
        when=When(interconnects=_VERBS, plugins=OWN_TRANSPORTS, min_nodes=2,
                  traits=(Trait.LISTED_HCAS,)),
        because="exactly the devices that the site lists for jobs (= is no prefix)",
        source=ENV_RST.format(variable="NCCL_IB_HCA"),
        date="2026-11",
    ),
    CommRule(
        name="ib-gid-index", variable="NCCL_IB_GID_INDEX", value="3",
        when=When(interconnects=(NicKind.ROCE,), plugins=OWN_TRANSPORTS, min_nodes=2,
                  before="2.21"),
        because="NCCL {version} takes GID 0, mostly RoCE v1; 3 is the first IPv4 address by"
        " RoCE v2 (2.21 and later find it)",
        source=ENV_RST.format(variable="NCCL_IB_GID_INDEX") + "; net_ib.cc of v2.20.5 and v2.21.5",
        date="2026-11",
    ),
    CommRule(
        name="ib-timeout", variable="NCCL_IB_TIMEOUT", value="22",
        when=When(interconnects=_VERBS, plugins=OWN_TRANSPORTS, min_nodes=_LARGE_NODES,
                  before="2.23"),
        because="{nodes} nodes: before 2.23 NCCL waits 1.1 s at most for each answer, too short on"
        " large fabrics (2.23 and later: 4.3 s)",
        source=ENV_RST.format(variable="NCCL_IB_TIMEOUT") + "; net_ib.cc of v2.22.3 and v2.23.4",
        date="2026-11",
    ),
)  # fmt: skip
