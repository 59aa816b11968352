"""The enums of nvml.h in words, and what NVML does not say with the reason.

Source of every number here: nvml.h as nvidia-ml-py 13.615 declares it.
"""

from __future__ import annotations

from collections import Counter
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

    def because(self, what: str) -> str | None:
        """The reason for one of them, if it is not known."""
        return self._found.get(what)

    @property
    def is_silent(self) -> bool:
        """Whether the GPU answers nothing, or nothing more."""
        return self._silence() is not None

    def _silence(self) -> str | None:
        for reason in self._found.values():
            word = reason.removeprefix("NVML: ")
            if word in LOST or word.startswith("no answer within"):
                return reason
        reasons = {self._found.get(what) for what in ("name", "uuid", "pci")}
        return reasons.pop() if len(reasons) == 1 else None

    def found(self) -> tuple[Unknown, ...]:
        """All of it; of a GPU that is silent one entry, not one for each question."""
        silence = self._silence()
        found = {what: because for what, because in self._found.items() if because != silence}
        if silence is not None:
            found = {EVERYTHING: silence, **found}
        return tuple(
            Unknown(subject=self.subject, what=what, because=because)
            for what, because in found.items()
        )


def shared(doubts: Iterable[Doubts]) -> tuple[Unknown, ...]:
    """What is not known of GPUs; what holds of each of several that answer is said of `GPUs`."""
    everyone = list(doubts)
    answering = [one for one in everyone if not one.is_silent]
    counts = Counter((entry.what, entry.because) for one in answering for entry in one.found())
    of_all = {
        key for key, count in counts.items() if len(answering) > 1 and count == len(answering)
    }
    entries: dict[Unknown, None] = {}
    for one in everyone:
        for entry in one.found():
            is_of_all = not one.is_silent and (entry.what, entry.because) in of_all
            entries[replace(entry, subject=ALL_GPUS) if is_of_all else entry] = None
    return tuple(entries)
