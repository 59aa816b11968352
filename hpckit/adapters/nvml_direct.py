"""Calls for one figure each, in the place of fields that a GPU or its driver does not answer."""

from __future__ import annotations

import ctypes

from hpckit.adapters.nvml_calls import LOST, NvmlRefused
from hpckit.adapters.nvml_slow import Call
from hpckit.model.samples import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hpckit.adapters.nvml_calls import NvmlHandle


class Direct:
    """One figure; raises NvmlRefused, made and asked, where the GPU is lost."""

    def __init__(self, column: str, bytes_: int, call: Call) -> None:
        """`bytes_` is how many the column has."""
        self.column = column
        self._missing = MISSING[bytes_]
        self._call = call

    def value(self) -> int:
        """The figure now, or "not measured"."""
        call = self._call
        if call():
            return min(int(call.out.value), self._missing)
        if call.refused in LOST:
            raise NvmlRefused(call.refused)
        return self._missing


def direct(handle: NvmlHandle, refused: dict[str, str]) -> list[Direct]:
    """What answers of the columns in `refused`, from which it is taken. Raises NvmlRefused."""
    calls: tuple[tuple[str, str, int, Any], ...] = (
        ("energy_mj", "nvmlDeviceGetTotalEnergyConsumption", 8, ctypes.c_ulonglong()),
        ("power_mw", "nvmlDeviceGetPowerUsage", 4, ctypes.c_uint()),
    )
    found = []
    for column, name, bytes_, out in calls:
        if column not in refused:
            continue
        one = Direct(column, bytes_, Call(handle, name, out=out))
        if one.value() != MISSING[bytes_]:
            refused.pop(column)
            found.append(one)
    return found
