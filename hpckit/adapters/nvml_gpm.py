"""GPM, what the units of a GPU really did: from Hopper on, also without privileges.

Two samples at least 100 ms apart make a mean of the time between. Sources: nvml.h,
nvmlGpmSampleGet, nvmlGpmMetricsGet_t, NVML_GPM_METRIC_*.
"""

from __future__ import annotations

import ctypes
import struct

from hpckit.adapters.nvml_calls import NvmlRefused, reason_of
from hpckit.model.samples import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.nvml_calls import NvmlHandle

METRICS = (2, 5, 10)
"""SM_UTIL, ANY_TENSOR_UTIL, DRAM_BW_UTIL, each in percent."""
COLUMNS = ("sm_active_pct100", "tensor_active_pct100", "dram_active_pct100")
LEAST_NS = 100_000_000
_U16 = MISSING[2]
_NOTHING: tuple[int, ...] = (_U16,) * len(METRICS)
# nvmlGpmMetricsGet_t: version, numMetrics, sample1, sample2, metrics[]; and of each metric
# metricId, nvmlReturn, value, then shortName, longName and unit as pointers.
_HEAD = struct.Struct("<IIQQ")
_METRIC = struct.Struct("<Iid24x")
_VERSION = 1
_MOST_METRICS = 477  # NVML_GPM_METRIC_MAX of nvidia-ml-py 13.615
GET_BYTES = _HEAD.size + _METRIC.size * _MOST_METRICS
"""The whole structure: that a library writes no more than the metrics asked for is nowhere said."""
_MOST_PCT = 100.0


class NvmlGpm:
    """The profile of one GPU; `refused` says why there is none."""

    def __init__(self, handle: NvmlHandle) -> None:
        self._handle = handle
        self.refused: str | None = None
        self._last_ns: int | None = None
        self.profile = _NOTHING
        try:
            self._begin()
        except NvmlRefused as refused:
            self.refused = refused.reason

    def _begin(self) -> None:
        nvml, handle = self._handle.nvml, self._handle.handle
        support = (ctypes.c_uint * 2)(_VERSION, 0)  # nvmlGpmSupport_t
        nvml.call("nvmlGpmQueryDeviceSupport", handle, ctypes.byref(support))
        if not support[1]:
            raise NvmlRefused("NotSupported")
        self._get = nvml.function("nvmlGpmSampleGet")
        self._metrics = nvml.function("nvmlGpmMetricsGet")
        self._old, self._new = self._sample(), self._sample()
        self._buffer = ctypes.create_string_buffer(GET_BYTES)
        for at, metric in enumerate(METRICS):
            _METRIC.pack_into(self._buffer, _HEAD.size + at * _METRIC.size, metric, 0, 0.0)

    def _sample(self) -> ctypes.c_void_p:
        sample = ctypes.c_void_p()
        self._handle.nvml.call("nvmlGpmSampleAlloc", ctypes.byref(sample))
        return sample

    def refresh(self, now_ns: int) -> None:
        """Take a sample and compare it with the last; nothing if that is too young."""
        if self.refused is not None:
            return
        if self._last_ns is not None and now_ns - self._last_ns < LEAST_NS:
            return
        failed = self._get(self._handle.handle, self._new)
        if failed:
            self.profile, self._last_ns = _NOTHING, None
            self.refused = reason_of(failed) if failed in _LASTING else None
            return
        if self._last_ns is not None:
            self.profile = self._compared()
        self._last_ns = now_ns
        self._old, self._new = self._new, self._old

    def _compared(self) -> tuple[int, ...]:
        _HEAD.pack_into(
            self._buffer, 0, _VERSION, len(METRICS), self._old.value or 0, self._new.value or 0
        )
        if self._metrics(self._buffer):
            return _NOTHING
        found = []
        for at in range(len(METRICS)):
            _, failed, value = _METRIC.unpack_from(self._buffer, _HEAD.size + at * _METRIC.size)
            found.append(_hundredths(value, failed))
        return tuple(found)


_LASTING = frozenset({1, 2, 3, 4, 13})


def _hundredths(percent: float, failed: int) -> int:
    # A value that is no number fails this comparison too.
    if failed or not 0 <= percent <= _MOST_PCT:
        return _U16
    return round(percent * 100)
