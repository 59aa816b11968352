"""Fields of a GPU, asked many times a second in one call that was prepared once.

Source: nvml.h, nvmlDeviceGetFieldValues.
"""

from __future__ import annotations

import ctypes
import struct

from hpckit.adapters.nvml_calls import check, reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.adapters.nvml_calls import NvmlHandle

ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that is to be the sum over all NVLinks."""
# nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value.
_FIELD = struct.Struct("<IIqqii8s")
# nvmlValueType_t: double, unsigned int, unsigned long, unsigned long long, signed long long,
# signed int, unsigned short.
_VALUES = {0: "d", 1: "I", 2: "Q", 3: "Q", 4: "q", 5: "i", 6: "H"}


class NvmlFields:
    """Some fields of one GPU in one prepared call: nvmlDeviceGetFieldValues."""

    def __init__(self, gpu: NvmlHandle, wanted: Sequence[tuple[int, int]]) -> None:
        self._function = gpu.nvml.function("nvmlDeviceGetFieldValues")
        self._handle = gpu.handle
        self._count = ctypes.c_int(len(wanted))
        self._wanted = b"".join(
            _FIELD.pack(field_id, scope, 0, 0, 0, 0, b"") for field_id, scope in wanted
        )
        self._buffer = ctypes.create_string_buffer(self._wanted, len(self._wanted))

    def read(self) -> None:
        """Ask once; `answers` and `buffer` have the result. Raises NvmlRefused."""
        check(self._function(self._handle, self._count, self._buffer))

    @property
    def buffer(self) -> ctypes.Array[ctypes.c_char]:
        """nvmlFieldValue_t after nvmlFieldValue_t, 40 bytes each."""
        return self._buffer

    def answers(self) -> list[int | float | str]:
        """Each field's number, or the reason for which it has none."""
        found: list[int | float | str] = []
        for *_, kind, code, raw in _FIELD.iter_unpack(self._buffer):
            if code:
                found.append(reason_of(code))
            elif kind in _VALUES:
                found.append(struct.unpack_from("<" + _VALUES[kind], raw)[0])
            else:
                found.append(f"a value of type {kind}")
        return found
