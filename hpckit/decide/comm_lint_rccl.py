"""Rules about RCCL and ROCm."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_rule import LintRule
from hpckit.model.comm import CommLibrary

_ROCM: Final = "ROCm documentation, environment variables"

RCCL_RULES: Final = (
    LintRule(
        name="rccl-on-nvidia",
        names=("RCCL_*", "HSA_*", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        severity=Severity.NOTE, library=CommLibrary.NCCL,
        because="for GPUs of AMD; NCCL and CUDA do not read it", remedy="leave it out",
        source="RCCL documentation, environment variables",
    ),
    LintRule(
        name="nvlink-on-amd", names=("NCCL_NVLS_*", "NCCL_MNNVL_*", "NCCL_NVB_*"),
        severity=Severity.NOTE, library=CommLibrary.RCCL,
        because="about NVLink; GPUs of AMD have none", remedy="leave it out",
        source="RCCL documentation, environment variables",
    ),
    LintRule(
        name="hsa-fine-grain", names=("HSA_FORCE_FINE_GRAIN_PCIE",), severity=Severity.NOTE,
        because="of old ROCm releases, where P2P over PCIe needed it",
        remedy="leave it out unless the site asks for it", source=_ROCM,
    ),
    LintRule(
        name="hsa-sdma-off", names=("HSA_ENABLE_SDMA",), severity=Severity.NOTE, value="0",
        because="copies take compute units in place of the copy engines",
        remedy="leave it out; it is a workaround", source=_ROCM,
    ),
)  # fmt: skip
