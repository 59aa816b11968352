"""What of an NVIDIA GPU changes slowly or costs much: asked at most ten times a second, or once.

Utilization is a mean of 1/6 to 1 s anyway (nvml.h, nvmlUtilization_t), and the list of processes
is one of the dearest calls.
"""

from __future__ import annotations

import ctypes
import struct
import time
from functools import partial
from itertools import islice

from hpckit.account.sample_format import MISSING
from hpckit.sampler.gpus import NvmlRefused
from hpckit.sampler.nvml_calls import LASTING, reason_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hpckit.sampler.nvml_calls import NvmlHandle


METRICS = (2, 5, 10)
"""SM_UTIL, ANY_TENSOR_UTIL, DRAM_BW_UTIL, each in percent."""
COLUMNS = ("sm_active_pct100", "tensor_active_pct100", "dram_active_pct100")
LEAST_NS = 100_000_000
_U8, _U16, _U32 = MISSING[1], MISSING[2], MISSING[4]
_NOTHING: tuple[int, ...] = (_U16,) * len(METRICS)
# nvmlGpmMetricsGet_t: version, numMetrics, sample1, sample2, metrics[]; and of each metric
# metricId, nvmlReturn, value, then shortName, longName and unit as pointers.
_HEAD = struct.Struct("<IIQQ")
_METRIC = struct.Struct("<Iid24x")
_TOLD = struct.Struct("<4xid24x")
_VERSION = 1
_MOST_METRICS = 477  # NVML_GPM_METRIC_MAX of nvidia-ml-py 13.615
GET_BYTES = _HEAD.size + _METRIC.size * _MOST_METRICS
"""The whole structure: that a library writes no more than the metrics asked for is nowhere said."""


class NvmlGpm:
    """What the units of one GPU really did, from Hopper on; `refused` says why it is not told.

    Two samples at least 100 ms apart make a mean of the time between. Sources: nvml.h,
    nvmlGpmSampleGet, nvmlGpmMetricsGet_t, NVML_GPM_METRIC_*.
    """

    def __init__(self, handle: NvmlHandle, refused: dict[str, str]) -> None:
        self._handle = handle
        self._refused = refused
        self._is_told = True
        self._last_ns: int | None = None
        self.profile = _NOTHING
        """sm_active, tensor_active, dram_active, in hundredths of a percent."""
        try:
            self._begin()
        except NvmlRefused as error:
            self._give_up(error.reason)

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
        self._told = memoryview(self._buffer)[_HEAD.size :][: _METRIC.size * len(METRICS)]
        for place, metric in enumerate(METRICS):
            _METRIC.pack_into(self._buffer, _HEAD.size + place * _METRIC.size, metric, 0, 0.0)

    def _sample(self) -> ctypes.c_void_p:
        sample = ctypes.c_void_p()
        self._handle.nvml.call("nvmlGpmSampleAlloc", ctypes.byref(sample))
        return sample

    def _give_up(self, reason: str) -> None:
        self._is_told = False
        self._refused.update(dict.fromkeys(COLUMNS, reason))

    def refresh(self, now_ns: int) -> None:
        """Take a sample and compare it with the last; nothing if that is too young."""
        is_young = self._last_ns is not None and now_ns - self._last_ns < LEAST_NS
        if not self._is_told or is_young:
            return
        failed = self._get(self._handle.handle, self._new)
        if failed:
            self.profile, self._last_ns = _NOTHING, None
            if reason_of(failed) in LASTING | {"Uninitialized", "InvalidArgument"}:
                self._give_up(reason_of(failed))
            return
        if self._last_ns is not None:
            self.profile = self._compared()
        self._last_ns = now_ns
        self._old, self._new = self._new, self._old

    def _compared(self) -> tuple[int, ...]:
        samples = (self._old.value or 0, self._new.value or 0)
        _HEAD.pack_into(self._buffer, 0, _VERSION, len(METRICS), *samples)
        if self._metrics(self._buffer):
            return _NOTHING
        # A value that is no number fails this comparison too.
        pct100 = [
            round(value * 100) if not failed and 0 <= value <= 100 else _U16  # noqa: PLR2004  percent
            for failed, value in _TOLD.iter_unpack(self._told)
        ]
        return tuple(pct100)


_NS = 1_000_000_000
# A tick that comes a little early, as they do when they are jittered, still counts.
_SLACK_NS = _NS // 1000
_MEMORY = struct.Struct("<I4xQQQQ")  # nvmlMemory_v2_t: version, total, reserved, free, used
_MEMORY_VERSION = _MEMORY.size | 2 << 24
_OLD_MEMORY = struct.Struct("<QQQ")  # nvmlMemory_t: total, free, used with what is reserved
_MIB = 20
_MOST_PROCESSES = 128
_PROCESS = struct.Struct("<I4xQII")  # nvmlProcessInfo_v2_t: pid, usedGpuMemory, two instances
SM_CLOCK, _MEM_CLOCK = ctypes.c_uint(1), ctypes.c_uint(2)  # nvmlClockType_t
_GPU_TEMPERATURE = ctypes.c_uint(0)  # nvmlTemperatureSensors_t


class Call:
    """A prepared call of the first of `names` that the library has.

    After a refusal that lasts it is not made again. `refused` is told why `columns` have no answer.
    """

    def __init__(
        self,
        handle: NvmlHandle,
        names: tuple[str, ...],
        *arguments: object,
        columns: tuple[str, ...],
        refused: dict[str, str],
    ) -> None:
        self.reason = ""
        """Why there was no answer the last time."""
        self._code: int | None = None
        self._columns, self._refused = columns, refused
        self._arguments = (handle.handle, *arguments)
        self._function: Any = None
        try:
            self._function = handle.nvml.function(*names)
        except NvmlRefused as error:
            self._note(error.reason)

    def __call__(self) -> bool:
        """Make the call; whether there is an answer."""
        if self._function is None:
            return False
        code = self._function(*self._arguments)
        if code != self._code:
            self._changed(code)
        return not code

    def _changed(self, code: int) -> None:
        self._code = code
        self._note(reason_of(code) if code else "")
        if self.reason in LASTING:
            self._function = None

    def _note(self, reason: str) -> None:
        self.reason = reason
        for column in self._columns:
            if reason:
                self._refused[column] = reason
            else:
                self._refused.pop(column, None)


class Number(Call):
    """A column whose number is asked by a call of its own."""

    def __init__(
        self,
        handle: NvmlHandle,
        refused: dict[str, str],
        column: str,
        size: int,
        *names: str,
        kind: object | None = None,
    ) -> None:
        """`size` is how many bytes the column has; `kind` is the call's second argument."""
        self.missing = MISSING[size]
        self._out = ctypes.c_ulonglong()
        middle = () if kind is None else (kind,)
        out = ctypes.byref(self._out)
        super().__init__(handle, names, *middle, out, columns=(column,), refused=refused)

    def value(self) -> int:
        """The number, "not measured" where there is none or it has more digits than the column."""
        if self._function is None:
            return self.missing
        code = self._function(*self._arguments)  # as in `__call__`, which would cost a third more
        if code != self._code:
            self._changed(code)
        return self.missing if code else min(self._out.value, self.missing)


class NvmlSlow:
    """The slow figures of one GPU; `refused` is told why a column has none."""

    def __init__(self, handle: NvmlHandle, refused: dict[str, str]) -> None:
        self._handle = handle
        self._refused = refused
        self.gauges: tuple[int, ...] = (_U8, _U8, _U8, _U32, _U16, _U16, _U32)
        """util_pct, mem_util_pct, temp_c, mem_used_mib, sm_mhz, mem_mhz, event_reasons."""
        self.processes = _U8
        self.memory_bytes: int | None = None
        self.gpm = NvmlGpm(handle, refused)
        self._used_mib = _U32
        self._temp_c, self._mem_mhz = _U8, _U16
        self._pids: tuple[int, ...] | None = None
        self._told_pids: tuple[int, ...] = ()
        self._quick_at = self._once_at = 0
        self._prepare()
        self.refresh(time.monotonic_ns())

    def _prepare(self) -> None:
        handle, refused = self._handle, self._refused
        call = partial(Call, handle, refused=refused)
        self._rates = (ctypes.c_uint * 2)()
        self._util = call(
            ("nvmlDeviceGetUtilizationRates",),
            ctypes.byref(self._rates),
            columns=("util_pct", "mem_util_pct"),
        )
        temperature, clock = "nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo"
        reasons = (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",  # of drivers before 535
        )
        self._temp = Number(handle, refused, "temp_c", 1, temperature, kind=_GPU_TEMPERATURE)
        self._sm = Number(handle, refused, "sm_mhz", 2, clock, kind=SM_CLOCK)
        self._mem = Number(handle, refused, "mem_mhz", 2, clock, kind=_MEM_CLOCK)
        self._reasons = Number(handle, refused, "event_reasons", 4, *reasons)
        memory, used = "nvmlDeviceGetMemoryInfo", ("mem_used_mib",)
        self._memory_out = ctypes.create_string_buffer(_MEMORY.pack(_MEMORY_VERSION, 0, 0, 0, 0))
        out = ctypes.byref(self._memory_out)
        self._memory = call((f"{memory}_v2",), out, columns=used)
        self._is_old_memory = not self._memory()
        if self._is_old_memory:
            self._memory = call((memory,), out, columns=used)
        self._list = ctypes.create_string_buffer(_PROCESS.size * _MOST_PROCESSES)
        self._listed = ctypes.c_uint()
        processes = "nvmlDeviceGetComputeRunningProcesses"
        listed = (ctypes.byref(self._listed), self._list)
        versions = (f"{processes}_v3", f"{processes}_v2")
        self._processes = call(versions, *listed, columns=("processes",))

    def refresh(self, now_ns: int) -> None:
        """Ask again what is due."""
        if now_ns + _SLACK_NS < self._quick_at:
            return
        self._quick_at = now_ns + _NS // 10
        if now_ns + _SLACK_NS >= self._once_at:
            self._once_at = now_ns + _NS
            self._ask_memory()
            self._ask_processes()
            self._temp_c, self._mem_mhz = self._temp.value(), self._mem.value()
        self.gpm.refresh(now_ns)
        util, mem_util = self._rates if self._util() else (_U8, _U8)
        self.gauges = (
            min(util, _U8),
            min(mem_util, _U8),
            self._temp_c,
            self._used_mib,
            self._sm.value(),
            self._mem_mhz,
            self._reasons.value(),
        )

    def _ask_memory(self) -> None:
        self._used_mib = _U32
        if self._memory():
            if self._is_old_memory:
                total, _, used = _OLD_MEMORY.unpack_from(self._memory_out)
            else:
                _, total, _, _, used = _MEMORY.unpack_from(self._memory_out)
            self.memory_bytes = total
            self._used_mib = min(used >> _MIB, _U32)

    def _ask_processes(self) -> None:
        self.processes, self._pids = _U8, None
        self._listed.value = _MOST_PROCESSES
        if self._processes():
            count = self._listed.value
            listed = islice(_PROCESS.iter_unpack(self._list), count)
            self.processes = min(count, _U8 - 1)
            self._pids = tuple(sorted(pid for pid, *_ in listed))
        elif self._processes.reason == "InsufficientSize":
            self.processes = _U8 - 1
            self._refused.pop("processes", None)

    def changed_pids(self) -> list[int] | None:
        """The processes on this GPU where they are others than were told last."""
        if self._pids is None or self._pids == self._told_pids:
            return None
        self._told_pids = self._pids
        return list(self._pids)
