"""What of an NVIDIA GPU changes slowly or costs much: asked at most ten times a second, or once.

Utilization is a mean of 1/6 to 1 s anyway (nvml.h, nvmlUtilization_t), and the list of processes
is one of the dearest calls.
"""

from __future__ import annotations

import ctypes
import struct
import time
from itertools import islice

from hpckit.account.sample_format import MISSING
from hpckit.sampler.gpus import NvmlRefused
from hpckit.sampler.nvml_calls import LOST, reason_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hpckit.sampler.nvml_calls import NvmlHandle


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
_LASTING = frozenset({1, 2, 3, 4, 13})


class NvmlGpm:
    """What the units of one GPU really did, from Hopper on; `refused` says why it is not told.

    Two samples at least 100 ms apart make a mean of the time between. Sources: nvml.h,
    nvmlGpmSampleGet, nvmlGpmMetricsGet_t, NVML_GPM_METRIC_*.
    """

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
            # A value that is no number fails this comparison too.
            found.append(round(value * 100) if not failed and 0 <= value <= 100 else _U16)  # noqa: PLR2004  percent
        return tuple(found)


_NS = 1_000_000_000
_QUICK_NS = _NS // 10
# A tick that comes a little early, as they do when they are jittered, still counts.
_SLACK_NS = _NS // 1000
_U8, _U32 = MISSING[1], MISSING[4]
_MEMORY = struct.Struct("<I4xQQQQ")  # nvmlMemory_v2_t: version, total, reserved, free, used
_MEMORY_VERSION = _MEMORY.size | 2 << 24
_OLD_MEMORY = struct.Struct("<QQQ")  # nvmlMemory_t: total, free, used with what is reserved
_MIB = 20
_MOST_PROCESSES = 128
_PROCESS = struct.Struct("<I4xQII")  # nvmlProcessInfo_v2_t: pid, usedGpuMemory, two instances
_OLD_PROCESS = struct.Struct("<I4xQ")  # nvmlProcessInfo_v1_t
_LISTS = (("_v3", _PROCESS), ("_v2", _PROCESS), ("", _OLD_PROCESS))
"""Versions of nvmlDeviceGetComputeRunningProcesses, the newest first."""
_INSUFFICIENT_SIZE = 7
_FOREVER = frozenset({3, 4, 13, 25, 26})
"""Codes that will not change: NotSupported, NoPermission, FunctionNotFound, versions."""
_SM, _MEM = 1, 2  # nvmlClockType_t
_MW_PER_W = 1000


class Call:
    """A prepared call with one output; after a refusal that lasts it is not made again."""

    def __init__(self, handle: NvmlHandle, name: str, *middle: object, out: Any) -> None:
        self.out = out
        self.refused: str | None = None
        self._arguments = (handle.handle, *middle, ctypes.byref(out))
        self._function: Any = None
        try:
            self._function = handle.nvml.function(name)
        except NvmlRefused as refused:
            self.refused = refused.reason

    def __call__(self) -> bool:
        """Make the call; whether `out` holds an answer."""
        if self._function is None:
            return False
        code = self._function(*self._arguments)
        if not code:
            return True
        self.refused = reason_of(code)
        if code in _FOREVER:
            self._function = None
        return False


class NvmlSlow:
    """The slow figures of one GPU; `refused` is told why a column has none."""

    def __init__(self, handle: NvmlHandle, refused: dict[str, str]) -> None:
        self._handle = handle
        self._refused = refused
        self.gauges = (_U8, _U8, _U8, _U32, _U16, _U16, _U32)
        """util_pct, mem_util_pct, temp_c, mem_used_mib, sm_mhz, mem_mhz, event_reasons."""
        self.profile = _NOTHING
        """sm_active, tensor_active, dram_active, in hundredths of a percent."""
        self.processes = _U8
        self.memory_bytes: int | None = None
        self._gpm = NvmlGpm(handle)
        self._used_mib = _U32
        self._pids: tuple[int, ...] | None = None
        self._told_pids: tuple[int, ...] = ()
        self._quick_at = self._once_at = 0
        self._prepare()
        self.refresh(time.monotonic_ns())

    def _prepare(self) -> None:
        handle = self._handle
        self._util = Call(handle, "nvmlDeviceGetUtilizationRates", out=(ctypes.c_uint * 2)())
        self._temp = Call(handle, "nvmlDeviceGetTemperature", ctypes.c_uint(0), out=ctypes.c_uint())
        self._sm = Call(handle, "nvmlDeviceGetClockInfo", ctypes.c_uint(_SM), out=ctypes.c_uint())
        self._mem = Call(handle, "nvmlDeviceGetClockInfo", ctypes.c_uint(_MEM), out=ctypes.c_uint())
        name = "nvmlDeviceGetCurrentClocksEventReasons"
        self._reasons = Call(handle, name, out=ctypes.c_ulonglong())
        if self._reasons.refused:  # drivers before 535 call it so
            name = "nvmlDeviceGetCurrentClocksThrottleReasons"
            self._reasons = Call(handle, name, out=ctypes.c_ulonglong())
        self._prepare_memory()
        self._list = ctypes.create_string_buffer(_PROCESS.size * _MOST_PROCESSES)
        self._listed = ctypes.c_uint()
        self._processes: Any = None
        for version, self._process in _LISTS:
            try:
                name = f"nvmlDeviceGetComputeRunningProcesses{version}"
                self._processes = handle.nvml.function(name)
            except NvmlRefused as refused:
                self._refused["processes"] = refused.reason
            else:
                break

    def _prepare_memory(self) -> None:
        """The call, of its versions the one that answers."""
        memory = ctypes.create_string_buffer(_MEMORY.pack(_MEMORY_VERSION, 0, 0, 0, 0))
        self._memory = Call(self._handle, "nvmlDeviceGetMemoryInfo_v2", out=memory)
        self._is_old_memory = False
        if self._memory():
            return
        memory = ctypes.create_string_buffer(_OLD_MEMORY.size)
        older = Call(self._handle, "nvmlDeviceGetMemoryInfo", out=memory)
        if older():
            self._memory, self._is_old_memory = older, True

    def refresh(self, now_ns: int) -> None:
        """Ask again what is due."""
        if now_ns + _SLACK_NS < self._quick_at:
            return
        self._quick_at = now_ns + _QUICK_NS
        if now_ns + _SLACK_NS >= self._once_at:
            self._once_at = now_ns + _NS
            self._ask_memory()
            self._ask_processes()
        self._ask_profile(now_ns)
        util = self._util
        rates = util.out if self._got(util, "util_pct", "mem_util_pct") else (_U8, _U8)
        self.gauges = (
            min(rates[0], _U8),
            min(rates[1], _U8),
            self._number(self._temp, "temp_c", _U8),
            self._used_mib,
            self._number(self._sm, "sm_mhz", _U16),
            self._number(self._mem, "mem_mhz", _U16),
            self._number(self._reasons, "event_reasons", _U32),
        )

    def _number(self, call: Call, column: str, most: int) -> int:
        """The answer, which is "not measured" where it has none or more digits than the column."""
        return min(call.out.value, most) if self._got(call, column) else most

    def _got(self, call: Call, *columns: str) -> bool:
        is_told = call()
        for column in columns:
            if not is_told:
                self._refused[column] = call.refused or "Unknown"
            elif column in self._refused:
                del self._refused[column]
        return is_told

    def _ask_profile(self, now_ns: int) -> None:
        gpm = self._gpm
        gpm.refresh(now_ns)
        self.profile = gpm.profile
        if gpm.refused is not None:
            self._refused.update(dict.fromkeys(COLUMNS, gpm.refused))

    def _ask_memory(self) -> None:
        self._used_mib = _U32
        if self._got(self._memory, "mem_used_mib"):
            if self._is_old_memory:
                total, _, used = _OLD_MEMORY.unpack_from(self._memory.out)
            else:
                _, total, _, _, used = _MEMORY.unpack_from(self._memory.out)
            self.memory_bytes = total
            self._used_mib = min(used >> _MIB, _U32)

    def _ask_processes(self) -> None:
        self.processes, self._pids = _U8, None
        if self._processes is None:
            return
        self._listed.value = _MOST_PROCESSES
        handle = self._handle.handle
        code = self._processes(handle, ctypes.byref(self._listed), self._list)
        if code == _INSUFFICIENT_SIZE:
            self.processes = _U8 - 1
            return
        if code:
            self._refused["processes"] = reason_of(code)
            if code in _FOREVER:
                self._processes = None
            return
        self._refused.pop("processes", None)
        count = self._listed.value
        self.processes = min(count, _U8 - 1)
        self._pids = tuple(
            sorted(pid for pid, *_ in islice(self._process.iter_unpack(self._list), count))
        )

    def changed_pids(self) -> list[int] | None:
        """The processes on this GPU where they are others than were told last."""
        if self._pids is None or self._pids == self._told_pids:
            return None
        self._told_pids = self._pids
        return list(self._pids)

    def pci(self) -> str | None:
        """The address as sysfs writes it, such as 0000:18:00.0."""
        info = ctypes.create_string_buffer(68)  # nvmlPciInfo_t; busId is its last member
        call = Call(self._handle, "nvmlDeviceGetPciInfo_v3", out=info)
        if not call():
            return None
        bus_id = info.raw[36:].partition(b"\0")[0].decode("ascii", "replace").lower()
        return bus_id[4:] if bus_id.startswith("0000") else bus_id

    def power_limit_w(self) -> float | None:
        """The limit that is in force."""
        call = Call(self._handle, "nvmlDeviceGetEnforcedPowerLimit", out=ctypes.c_uint())
        return call.out.value / _MW_PER_W if call() else None

    def max_sm_mhz(self) -> int | None:
        """The highest clock of the multiprocessors."""
        call = Call(
            self._handle, "nvmlDeviceGetMaxClockInfo", ctypes.c_uint(_SM), out=ctypes.c_uint()
        )
        return call.out.value if call() else None

    def is_mig(self) -> bool:
        """Whether the GPU is split."""
        mode, pending = ctypes.c_uint(), ctypes.c_uint()
        call = Call(self._handle, "nvmlDeviceGetMigMode", ctypes.byref(mode), out=pending)
        return call() and mode.value == 1


THERMAL = "sw_thermal_ms"
"""Where software's and hardware's are not told apart this column is both."""
_POWER, _THERMAL = ctypes.c_uint(0), ctypes.c_uint(1)  # nvmlPerfPolicyType_t
_NS_PER_MS = 1_000_000


class Direct:
    """One figure in the place of a field that a GPU or its driver does not answer.

    Made and asked it raises NvmlRefused where the GPU is lost.
    """

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
        figure = Direct(column, bytes_, call)
        if figure.value() != MISSING[bytes_]:
            refused.pop(column)
            found.append(figure)
    return found
