"""Calls for one figure each, in the place of fields that a GPU or its driver does not answer."""

from __future__ import annotations

import ctypes

from hpckit.adapters.nvml_calls import LOST, NvmlRefused
from hpckit.adapters.nvml_slow import Call
from hpckit.model.samples import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.nvml_calls import NvmlHandle

THERMAL = "sw_thermal_ms"
"""Where software's and hardware's are not told apart this column is both."""
_POWER, _THERMAL = ctypes.c_uint(0), ctypes.c_uint(1)  # nvmlPerfPolicyType_t
_NS_PER_MS = 1_000_000


class Direct:
    """One figure; raises NvmlRefused, made and asked, where the GPU is lost."""

    def __init__(self, column: str, bytes_: int, call: Call) -> None:
        """`bytes_` is how many the column has; of an `out` of two the second is a time in ns."""
        self.column = column
        self._missing = MISSING[bytes_]
        self._call = call

    def value(self) -> int:
        """The figure now, or "not measured"."""
        call = self._call
        if call():
            if isinstance(call.out, ctypes.Array):
                return int(call.out[1]) // _NS_PER_MS & self._missing
            return min(int(call.out.value), self._missing)
        if call.refused in LOST:
            raise NvmlRefused(call.refused)
        return self._missing


def direct(handle: NvmlHandle, refused: dict[str, str]) -> list[Direct]:
    """What answers of the columns in `refused`, from which it is taken. Raises NvmlRefused."""
    energy, held = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetViolationStatus"
    calls: tuple[tuple[str, int, Call], ...] = (
        ("energy_mj", 8, Call(handle, energy, out=ctypes.c_ulonglong())),
        ("power_mw", 4, Call(handle, "nvmlDeviceGetPowerUsage", out=ctypes.c_uint())),
        ("sw_power_cap_ms", 4, Call(handle, held, _POWER, out=(ctypes.c_ulonglong * 2)())),
        (THERMAL, 4, Call(handle, held, _THERMAL, out=(ctypes.c_ulonglong * 2)())),
    )
    found = []
    for column, bytes_, call in calls:
        # The policy of heat is of both causes, and stands in where neither is told.
        if column not in refused or (column == THERMAL and "hw_thermal_ms" not in refused):
            continue
        one = Direct(column, bytes_, call)
        if one.value() != MISSING[bytes_]:
            refused.pop(column)
            found.append(one)
    return found
