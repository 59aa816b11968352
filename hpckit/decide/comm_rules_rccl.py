"""Rules of RCCL beyond those that it shares with NCCL."""

from __future__ import annotations

from typing import Final

from hpckit.decide.comm_rule import CommRule, When
from hpckit.model.comm import CommLibrary
from hpckit.model.comm_facts import Trait

_TIPS: Final = (
    "RCCL usage tips, ROCm 7.14,"
    " https://rocm.docs.amd.com/projects/rccl/en/docs-7.14.0/how-to/rccl-usage-tips.html"
)

RCCL_RULES: Final = (
    CommRule(
        name="rccl-pcie-peers", variable="HSA_FORCE_FINE_GRAIN_PCIE", value="1",
        when=When(library=CommLibrary.RCCL, traits=(Trait.PCIE_PEERS,)),
        because="these GPUs reach each other by PCIe alone, which RCCL uses for peers with it only",
        source=_TIPS,
        date="2026-11",
    ),
)  # fmt: skip
