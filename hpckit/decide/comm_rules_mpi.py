"""Rules of UCX, which carries most MPIs over InfiniBand and RoCE."""

from __future__ import annotations

from typing import Final

from hpckit.decide.comm_rule import CommRule, When
from hpckit.model.comm_facts import Trait
from hpckit.model.nic_kind import NicKind

_UCX: Final = (
    "OpenUCX, Frequently Asked Questions, Which network devices does UCX use?,"
    " https://openucx.readthedocs.io/en/master/faq.html"
)

MPI_RULES: Final = (
    CommRule(
        name="ucx-net-devices", variable="UCX_NET_DEVICES", value="{ucx_devices}",
        when=When(interconnects=(NicKind.INFINIBAND, NicKind.ROCE), min_nodes=2,
                  traits=(Trait.MPI, Trait.OTHER_HCAS)),
        because="MPI messages keep to the devices for jobs; not {others}",
        source=_UCX,
        date="2026-11",
    ),
)  # fmt: skip
