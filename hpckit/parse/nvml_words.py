"""The enums of nvml.h in words, and what NVML does not say with the reason.

Source of every number here: nvml.h as nvidia-ml-py 13.615 declares it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from hpckit.model.hardware import NvLinkRemote, Unknown
from hpckit.model.nvml_reading import LOST, NOT_ASKED, Answer, NvmlRefusal
from hpckit.model.path import PathKind

_Known = TypeVar("_Known")

ALL_GPUS: Final = "GPUs"
EVERYTHING: Final = "everything"

# NVML_VALUE_NOT_AVAILABLE is -1 as whatever integer the call has.
_NOT_AVAILABLE: Final = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})

CLOCKS_EVENT_REASONS: Final = (
    "GpuIdle",
    "ApplicationsClocksSetting",
    "SwPowerCap",
    "HwSlowdown",
    "SyncBoost",
    "SwThermalSlowdown",
    "HwThermalSlowdown",
    "HwPowerBrakeSlowdown",
    "DisplayClockSetting",
)
"""nvmlClocksEventReason* by their bit."""

# nvmlGpuTopologyLevel_t. INTERNAL is two GPUs of one board behind the board's own switch (K80).
ANCESTORS: Final = {
    0: PathKind.PIX,
    10: PathKind.PIX,
    20: PathKind.PXB,
    30: PathKind.PHB,
    40: PathKind.NODE,
    50: PathKind.SYS,
}

P2P_OK: Final = 0

# nvmlIntNvLinkDeviceType_t; 255 is "unknown".
REMOTES: Final = {0: NvLinkRemote.GPU, 1: NvLinkRemote.NPU, 2: NvLinkRemote.SWITCH}

# NVML_NVLINK_VERSION_*.
NVLINK_VERSIONS: Final = {
    1: "1.0",
    2: "2.0",
    3: "2.2",
    4: "3.0",
    5: "3.1",
    6: "4.0",
    7: "5.0",
    8: "6.0",
}

# One link in one direction: P100 80 GB/s over 4, V100 150 over 6, A100 300 over 12, A40 56.25 over
# 4, H100 450 over 18, B200 900 over 18 (NVIDIA's data sheets, halved where they add both ways).
NVLINK_BYTES_PER_S: Final = {
    "1.0": 20e9,
    "2.0": 25e9,
    "2.2": 25e9,
    "3.0": 25e9,
    "3.1": 14.0625e9,
    "4.0": 25e9,
    "5.0": 50e9,
}

# PCI Express Base Specification: GT/s of each lane.
PCIE_GT_PER_S: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

FABRIC_STATES: Final = {0: "NOT_SUPPORTED", 1: "NOT_STARTED", 2: "IN_PROGRESS", 3: "COMPLETED"}
FABRIC_SUMMARIES: Final = {1: "HEALTHY", 2: "UNHEALTHY", 3: "LIMITED_CAPACITY"}
# NVML_GPU_FABRIC_HEALTH_MASK_*: each two bits wide, 1 is true.
FABRIC_TROUBLES: Final = (
    ("DEGRADED_BW", 0),
    ("ROUTE_RECOVERY", 2),
    ("ROUTE_UNHEALTHY", 4),
    ("ACCESS_TIMEOUT_RECOVERY", 6),
)
# … and four bits wide at 8.
FABRIC_CONFIGURATIONS: Final = {
    2: "INCORRECT_SYSGUID",
    3: "INCORRECT_CHASSIS_SN",
    4: "NO_PARTITION",
    5: "INSUFFICIENT_NVLINKS",
    6: "INCOMPATIBLE_GPU_FW",
    7: "INVALID_LOCATION",
    8: "GPU_STATE_INVALID",
}

RETURNS: Final = {
    0: "Success",
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    6: "NotFound",
    9: "DriverNotLoaded",
    10: "Timeout",
    15: "GpuIsLost",
    16: "ResetRequired",
    27: "NotReady",
    29: "InvalidState",
    999: "Unknown",
}
"""nvmlReturn_t, those that a fabric's status can be."""


class Doubts:
    """Collects what is not known of one subject while its answers are read."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._found: dict[str, str] = {}

    def note(self, what: str, because: str) -> None:
        """Say that `what` is not known; the first reason stays."""
        self._found.setdefault(what, because)

    def known(self, what: str, answer: Answer[_Known]) -> _Known | None:
        """The answer; None for a refusal, which is noted unless nobody asked."""
        if isinstance(answer, NvmlRefusal):
            if answer is not NOT_ASKED and answer != NOT_ASKED:
                self.note(what, f"NVML: {answer.reason}")
            return None
        return answer

    def number(self, what: str, answer: Answer[int]) -> int | None:
        """A number; None also for the one that stands for none."""
        value = self.known(what, answer)
        if value in _NOT_AVAILABLE:
            self.note(what, "NVML: it has no value")
            return None
        return value

    def text(self, what: str, answer: Answer[str]) -> str | None:
        """A text; None also for an empty one."""
        value = self.known(what, answer)
        if value is not None and not value.strip():
            self.note(what, "NVML: an empty text")
            return None
        return value

    def found(self) -> tuple[Unknown, ...]:
        """All of it; of a GPU that is lost one entry, not one for each question."""
        entries = [
            Unknown(subject=self.subject, what=what, because=because)
            for what, because in self._found.items()
        ]
        for entry in entries:
            reason = entry.because.removeprefix("NVML: ")
            if reason in LOST or reason.startswith("no answer within"):
                rest = [one for one in entries if one.because != entry.because]
                return (replace(entry, what=EVERYTHING), *rest)
        return tuple(entries)


def shared(doubts: Iterable[Doubts]) -> tuple[Unknown, ...]:
    """What is not known of GPUs; what holds of each of several is said once, of `GPUs`."""
    everyone = list(doubts)
    found = [entry for one in everyone for entry in one.found()]
    alike: dict[tuple[str, str], int] = defaultdict(int)
    for entry in found:
        alike[entry.what, entry.because] += 1
    entries: dict[Unknown, None] = {}
    for entry in found:
        is_all = len(everyone) > 1 and alike[entry.what, entry.because] == len(everyone)
        entries[replace(entry, subject=ALL_GPUS) if is_all else entry] = None
    return tuple(entries)
