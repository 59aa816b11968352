"""NVIDIA GPUs' figures, read again and again: one batch of fields a GPU and a few calls.

Each GPU's batch is prepared once, and its values are unpacked from the raw buffer. What changes
slowly is asked ten times a second at most, temperature, memory and processes once; in the records
between, the last answer stands. Fields: nvml.h, NVML_FI_DEV_*.
"""

from __future__ import annotations

import ctypes
import struct
import time

from hpckit.account.sample_format import GPU_RECORD, MISSING
from hpckit.sampler.gpus import NvmlRefused
from hpckit.sampler.nvml import SM_CLOCK, Number, NvmlSlow
from hpckit.sampler.nvml_calls import LASTING, LOST, reason_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hpckit.sampler.guard import Beat
    from hpckit.sampler.nvml_calls import NvmlCalls, NvmlHandle


ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that is to be the sum over all NVLinks."""
# nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value.
_FIELD = struct.Struct("<IIqqii8s")
_KIND = "24xq8x"
"""The same, of which valueType and nvmlReturn are read as one number."""
_BEFORE_VALUE = "32x"


class NvmlFields:
    """Some fields of one GPU in one prepared call: nvml.h, nvmlDeviceGetFieldValues."""

    def __init__(self, gpu: NvmlHandle, wanted: Sequence[tuple[int, int]]) -> None:
        """`wanted` are the fields, and the scope of each."""
        self._function = gpu.nvml.function("nvmlDeviceGetFieldValues")
        self._handle = gpu.handle
        self._count = ctypes.c_int(len(wanted))
        fields = b"".join(_FIELD.pack(field, scope, 0, 0, 0, 0, b"") for field, scope in wanted)
        self._kinds = struct.Struct("<" + _KIND * len(wanted))
        self.buffer = ctypes.create_string_buffer(fields, len(fields))
        """nvmlFieldValue_t after nvmlFieldValue_t, 40 bytes each."""

    def read(self) -> tuple[int, ...]:
        """Ask; return each field's type below the reason that it fails. Raises NvmlRefused."""
        if code := self._function(self._handle, self._count, self.buffer):
            raise NvmlRefused(reason_of(code))
        return self._kinds.unpack(self.buffer)


INSTANT_FROM_HZ = 10.0
PCIE_FROM_HZ = 20.0
"""64 GB/s turn a counter of 32 bits over 15 times a second."""
ENERGY, POWER_AVERAGE, POWER_INSTANT = 83, 185, 186
_POWER_CAP, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 74, 269, 270, 271
_NS_PER_MS = 1_000_000
_ANY_THERMAL = 75
"""Of drivers without the two before: both in one, NVML_FI_DEV_PERF_POLICY_THERMAL."""
_NVLINK = ((138, 139, 10), (202, 204, 20))  # KiB of NVLink up to 4, bytes of 5: shift to MiB
_PCIE = (197, 198)
_U16, _U32, _U64 = MISSING[2], MISSING[4], MISSING[8]
# nvmlValueType_t -> how the 8 bytes of a value are read.
_CODES = {1: "I4x", 2: "Q", 3: "Q", 4: "Q", 5: "I4x", 6: "H6x"}
_UNSIGNED_INT = 1
_WRAPS = "its 32-bit counter wraps between two samples"
_COLUMNS = (
    "energy_mj",
    "power_mw",
    "sw_power_cap_ms",
    "sw_thermal_ms",
    "hw_thermal_ms",
    "hw_power_brake_ms",
    "nvlink_tx_mib",
    "nvlink_rx_mib",
    "pcie_tx_mib",
    "pcie_rx_mib",
)
_HOLES = (_U64, *(_U32,) * 9)
_MODULES = ("GH200", "GB200", "GB300", "GH100 480GB")
# What stands in for a field that a GPU or its driver does not answer.
_DIRECT = (
    ("energy_mj", 8, "nvmlDeviceGetTotalEnergyConsumption"),
    ("power_mw", 4, "nvmlDeviceGetPowerUsage"),
)


class Unwrapped:
    """A counter of bytes that may begin again from 0 at 2³², made one that goes on."""

    def __init__(self) -> None:
        self._last = 0
        self._wraps_bytes = 0

    def mib(self, count: int) -> int:
        """What was counted, in MiB modulo 2³²."""
        # One that was beyond 2^32 has more bits: it was reset, which is the reader's to see.
        if count < self._last <= _U32:
            self._wraps_bytes += _U32 + 1
        self._last = count
        return (count + self._wraps_bytes >> 20) & _U32


class NvmlGpu:
    """One GPU: `index` is the driver's, `place` its place among the sampled."""

    def __init__(self, handle: NvmlHandle, index: int, place: int, hz: float) -> None:
        """Ask for everything once. Raises NvmlRefused where the GPU is lost."""
        self.handle = handle
        self.index = index
        self.place = place
        self.refused: dict[str, str] = {}
        self.lost: str | None = None
        instant = hz >= INSTANT_FROM_HZ
        self.power = "instant" if instant else "average"
        self._is_quick = hz >= PCIE_FROM_HZ
        self._shift, wanted = self._wanted(POWER_INSTANT if instant else POWER_AVERAGE)
        self._fields: NvmlFields | None = None
        self._kinds: tuple[int, ...] = ()
        self._values = struct.Struct("")
        self._holes: tuple[int, ...] = ()
        self._pcie = (Unwrapped(), Unwrapped())
        self._direct: dict[int, Number] = {}
        self.slow = NvmlSlow(handle, self.refused)
        self._first_look(wanted)

    def _wanted(self, power: int) -> tuple[int, list[tuple[int, int]]]:
        """The fields of `_COLUMNS`, and by how many bits NVLink's count is finer than MiB."""
        soft, hard, both = self._answers([(_SW_THERMAL, 0), (_HW_THERMAL, 0), (_ANY_THERMAL, 0)])
        thermal = _ANY_THERMAL if both and not soft and not hard else _SW_THERMAL
        before = (ENERGY, power, _POWER_CAP, thermal, _HW_THERMAL, _POWER_BRAKE)
        fields = [([(tx, ALL_LINKS), (rx, ALL_LINKS)], shift) for tx, rx, shift in _NVLINK]
        links, shift = next((each for each in fields if all(self._answers(each[0]))), fields[0])
        return shift, [*((field, 0) for field in before), *links, *((field, 0) for field in _PCIE)]

    def _answers(self, wanted: list[tuple[int, int]]) -> list[bool]:
        """Which of these fields are told."""
        try:
            return [not kind >> 32 for kind in NvmlFields(self.handle, wanted).read()]
        except NvmlRefused:
            return [False] * len(wanted)

    def _first_look(self, wanted: list[tuple[int, int]]) -> None:
        try:
            self._fields = NvmlFields(self.handle, wanted)
            self._learn(self._fields.read())
        except NvmlRefused as refused:
            # A GPU of which no field is told, as some virtual ones, still has gauges.
            if refused.reason in LOST:
                raise
            self.refused.update(dict.fromkeys(_COLUMNS, refused.reason))
            if refused.reason in LASTING:
                self._fields = None
        self._stand_in()
        if (_ANY_THERMAL, 0) in wanted:
            self.refused["hw_thermal_ms"] = "counted together with software's in sw_thermal_ms"

    def _stand_in(self) -> None:
        """Ask by calls of their own for energy and power that no field tells."""
        for column, size, name in _DIRECT:
            figure = Number(self.handle, {}, column, size, name)
            if column in self.refused and _value(figure) != figure.missing:
                del self.refused[column]
                self._direct[_COLUMNS.index(column)] = figure
        if _COLUMNS.index("power_mw") in self._direct:
            self.power = "usage"
        elif "power_mw" in self.refused:
            self.power = ""

    def _learn(self, kinds: tuple[int, ...]) -> None:
        """How the values are read, from the types and the reasons of one answer."""
        self._kinds = kinds
        codes = (_CODES.get(kind & _U32, "Q") for kind in kinds)
        self._values = struct.Struct("<" + "".join(_BEFORE_VALUE + code for code in codes))
        holes = []
        for slot, (column, packed) in enumerate(zip(_COLUMNS, kinds, strict=True)):
            kind, failed = packed & _U32, packed >> 32
            why = reason_of(failed) if failed else ""
            if not why and kind not in _CODES:
                why = f"type {kind}"
            is_short = kind == _UNSIGNED_INT and column.startswith("pcie")
            if not why and is_short and not self._is_quick:
                why = _WRAPS
            if why:
                holes.append(slot)
            if why and slot not in self._direct:
                self.refused.setdefault(column, why)
            elif not why:
                self.refused.pop(column, None)
        self._holes = tuple(holes)

    def pack(self, buffer: bytearray, at: int, begin_ns: int) -> None:
        """Read and pack one record. Raises NvmlRefused when the whole GPU does not answer."""
        now_ns = time.monotonic_ns()
        row = self._row()
        slow = self.slow
        slow.refresh(now_ns)
        util, mem_util, temp, used, sm, mem, reasons = slow.gauges
        GPU_RECORD.pack_into(
            buffer, at, ((now_ns - begin_ns) // 1000) & _U32, self.place,
            util, mem_util, temp, row[1], row[0], used, sm, mem, reasons,
            *row[2:], *slow.gpm.profile, slow.processes, 0,
        )  # fmt: skip

    def _row(self) -> list[int]:
        """The columns of the fields; missing where they are refused this time, or always."""
        try:
            row = list(_HOLES) if self._fields is None else self._converted(self._fields)
        except NvmlRefused as refused:
            if refused.reason in LOST:
                raise
            row = list(_HOLES)
        for slot, figure in self._direct.items():
            row[slot] = _value(figure)
        return row

    def _converted(self, fields: NvmlFields) -> list[int]:
        """Return the columns now; spelled out, as each sample comes by here. Raises NvmlRefused."""
        kinds = fields.read()
        if kinds != self._kinds:
            self._learn(kinds)
        values = self._values.unpack(fields.buffer)
        energy, power, cap, soft, hard, brake, sent, got, pcie_sent, pcie_got = values
        shift, (pcie_tx, pcie_rx) = self._shift, self._pcie
        row = [
            energy, power & _U32, cap // _NS_PER_MS & _U32, soft // _NS_PER_MS & _U32,
            hard // _NS_PER_MS & _U32, brake // _NS_PER_MS & _U32, (sent >> shift) & _U32,
            (got >> shift) & _U32, pcie_tx.mib(pcie_sent), pcie_rx.mib(pcie_got),
        ]  # fmt: skip
        for slot in self._holes:
            row[slot] = _HOLES[slot]
        return row

    def describe(self) -> dict[str, Any]:
        """What META says of this GPU."""
        handle = self.handle
        name = _told(handle.text, "nvmlDeviceGetName")
        limit_mw = _told(handle.number, "nvmlDeviceGetEnforcedPowerLimit")
        return {
            "uuid": _told(handle.text, "nvmlDeviceGetUUID"),
            "index": self.index,
            "name": name,
            "pci": _told(handle.pci),
            "vendor": "nvidia",
            "power_limit_w": None if limit_mw is None else limit_mw / 1000,
            "memory_bytes": self.slow.memory_bytes,
            "max_sm_mhz": _told(handle.number, "nvmlDeviceGetMaxClockInfo", SM_CLOCK),
            "energy": None if "energy_mj" in self.refused else "counter",
            "power": self.power or None,
            # Beside a Grace a GPU's counters are those of the module (zeus#172).
            "scope": "module" if any(word in (name or "") for word in _MODULES) else "gpu",
            "mig": bool(_told(handle.is_mig)),
            "refused": self.refused,
        }


class NvmlCounters:
    """All GPUs that are sampled; one that is lost is left out, and the others go on."""

    def __init__(self, nvml: NvmlCalls, indices: Sequence[int], hz: float, beat: Beat) -> None:
        """Prepare the GPUs of these indices; `beat` is told with which GPU a call is under way."""
        self._gpus: list[NvmlGpu] = []
        self._described: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._beat = beat
        for index in indices:
            try:
                handle = nvml.gpu(index)
                beat.gpu = handle.text("nvmlDeviceGetUUID")
                gpu = NvmlGpu(handle, index, len(self._gpus), hz)
                described = gpu.describe()
            except NvmlRefused as refused:
                self._events.append({"event": "gpu-lost", "index": index, "why": refused.reason})
                continue
            self._gpus.append(gpu)
            self._described.append(described)
        beat.gpu = None

    def say_lost(self, uuid: str, why: str) -> None:
        """Tell of a GPU that is not sampled."""
        self._events.append({"event": "gpu-lost", "uuid": uuid, "why": why})

    def describe(self) -> Sequence[dict[str, Any]]:
        """The GPUs as META has them, those that were lost since too."""
        return self._described

    def read_into(self, buffer: bytearray, at: int, begin_ns: int) -> int:
        """Pack a record for each GPU that answers."""
        for gpu, described in zip(self._gpus, self._described, strict=True):
            if gpu.lost is not None:
                continue
            self._beat.gpu = described["uuid"]
            try:
                gpu.pack(buffer, at, begin_ns)
            except NvmlRefused as refused:
                if refused.reason in LOST:
                    gpu.lost = refused.reason
                    lost = {"event": "gpu-lost", "gpu": gpu.place, "why": refused.reason}
                    self._events.append(lost)
                continue
            at += GPU_RECORD.size
        self._beat.gpu = None
        return at

    def events(self) -> Sequence[dict[str, Any]]:
        """Those of GPUs that were lost, and of processes that came or went."""
        found, self._events = self._events, []
        for gpu in self._gpus:
            pids = gpu.slow.changed_pids()
            if pids is not None:
                found.append({"event": "processes", "gpu": gpu.place, "pids": pids})
        return found


def _value(figure: Number) -> int:
    """The number. Raises NvmlRefused where the GPU is lost."""
    value = figure.value()
    if figure.reason in LOST:
        raise NvmlRefused(figure.reason)
    return value


def _told(ask: Callable[..., Any], *arguments: object) -> Any:
    """The answer, None where the driver refuses it."""
    try:
        return ask(*arguments)
    except NvmlRefused:
        return None
