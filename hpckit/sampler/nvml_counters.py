"""NVIDIA GPUs' figures, read again and again: one batch of fields a GPU and a few calls.

Each GPU's batch is prepared once, and its values are unpacked from the raw buffer. What changes
slowly is asked ten times a second at most, memory and processes once; in the records between, the
last answer stands. Fields: nvml.h, NVML_FI_DEV_*.
"""

from __future__ import annotations

import ctypes
import struct
import time

from hpckit.account.sample_format import GPU_RECORD, MISSING
from hpckit.sampler.gpus import NvmlRefused
from hpckit.sampler.nvml import THERMAL, Direct, NvmlSlow, direct
from hpckit.sampler.nvml_calls import LOST, check, reason_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hpckit.sampler.guard import Beat
    from hpckit.sampler.nvml_calls import NvmlCalls, NvmlHandle


ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that is to be the sum over all NVLinks."""
# nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value.
_FIELD = struct.Struct("<IIqqii8s")


class NvmlFields:
    """Some fields of one GPU in one prepared call: nvml.h, nvmlDeviceGetFieldValues."""

    def __init__(self, gpu: NvmlHandle, wanted: Sequence[tuple[int, int]]) -> None:
        self._function = gpu.nvml.function("nvmlDeviceGetFieldValues")
        self._handle = gpu.handle
        self._count = ctypes.c_int(len(wanted))
        self._wanted = b"".join(
            _FIELD.pack(field_id, scope, 0, 0, 0, 0, b"") for field_id, scope in wanted
        )
        self._buffer = ctypes.create_string_buffer(self._wanted, len(self._wanted))

    def read(self) -> None:
        """Ask once; `buffer` has the result. Raises NvmlRefused."""
        check(self._function(self._handle, self._count, self._buffer))

    @property
    def buffer(self) -> ctypes.Array[ctypes.c_char]:
        """nvmlFieldValue_t after nvmlFieldValue_t, 40 bytes each."""
        return self._buffer


INSTANT_FROM_HZ = 10.0
PCIE_FROM_HZ = 20.0
"""64 GB/s turn a counter of 32 bits over 15 times a second."""
ENERGY, POWER_AVERAGE, POWER_INSTANT = 83, 185, 186
_POWER_CAP, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 74, 269, 270, 271
_ANY_THERMAL = 75
"""Of drivers without the two before: both in one, NVML_FI_DEV_PERF_POLICY_THERMAL."""
_NVLINK = ((138, 139, 10), (202, 204, 20))  # KiB of NVLink up to 4, bytes of 5: shift to MiB
_PCIE = (197, 198)
_FIELD_BYTES = 40
# nvmlFieldValue_t: valueType and nvmlReturn, 24 bytes from its begin, read as one number.
_KIND = "24xq8x"
# nvmlValueType_t -> how the 8 bytes of the value are read.
_CODES = {1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x"}
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
_UNREADABLE = {1: "its counter has 32 bits and wraps between two samples"}
_U32, _U64 = MISSING[4], MISSING[8]
_HOLES = (_U64, *(_U32,) * 9)
_NS_PER_MS = 1_000_000
_MODULES = ("GH200", "GB200", "GB300", "GH100 480GB")
_LASTING = frozenset({"NotSupported", "NoPermission", "FunctionNotFound"})


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
        self._shift, wanted = self._wanted(POWER_INSTANT if instant else POWER_AVERAGE)
        self._fields: NvmlFields | None = None
        self._kinds_of = struct.Struct("<" + _KIND * len(wanted))
        self._kinds: tuple[int, ...] = ()
        self._values_of = struct.Struct("<" + f"{_FIELD_BYTES - 8}xQ" * len(wanted))
        self._holes: tuple[tuple[int, int], ...] = ()
        self._pcie_sent, self._pcie_got = Unwrapped(), Unwrapped()
        self._is_quick = hz >= PCIE_FROM_HZ
        self._direct: tuple[tuple[int, Direct], ...] = ()
        self.slow = NvmlSlow(handle, self.refused)
        self._first_look(wanted)

    def _wanted(self, power: int) -> tuple[int, list[tuple[int, int]]]:
        """The fields of `_COLUMNS`, and by how many bits NVLink's count is finer than MiB."""
        soft, hard, both = self._answers([(_SW_THERMAL, 0), (_HW_THERMAL, 0), (_ANY_THERMAL, 0)])
        thermal = _ANY_THERMAL if both and not soft and not hard else _SW_THERMAL
        throttle = (_POWER_CAP, thermal, _HW_THERMAL, _POWER_BRAKE)
        before = [(ENERGY, 0), (power, 0), *((field, 0) for field in throttle)]
        after = [(field, 0) for field in _PCIE]
        fields = [([(tx, ALL_LINKS), (rx, ALL_LINKS)], shift) for tx, rx, shift in _NVLINK]
        links, shift = next((each for each in fields if all(self._answers(each[0]))), fields[0])
        return shift, [*before, *links, *after]

    def _answers(self, wanted: list[tuple[int, int]]) -> list[bool]:
        """Which of these fields are told."""
        try:
            probe = NvmlFields(self.handle, wanted)
            probe.read()
        except NvmlRefused:
            return [False] * len(wanted)
        return [not kind >> 32 for kind in struct.unpack("<" + _KIND * len(wanted), probe.buffer)]

    def _first_look(self, wanted: list[tuple[int, int]]) -> None:
        try:
            self._fields = NvmlFields(self.handle, wanted)
            self._fields.read()
        except NvmlRefused as refused:
            # A GPU of which no field is told, as some virtual ones, still has gauges.
            if refused.reason in LOST:
                raise
            self.refused.update(dict.fromkeys(_COLUMNS, refused.reason))
            if refused.reason in _LASTING:
                self._fields = None
        else:
            self._learn(self._kinds_of.unpack_from(self._fields.buffer))
        self._direct = tuple(
            (_COLUMNS.index(figure.column), figure) for figure in direct(self.handle, self.refused)
        )
        asked_apart = {figure.column for _, figure in self._direct}
        if "power_mw" in asked_apart:
            self.power = "usage"
        elif "power_mw" in self.refused:
            self.power = ""
        if (_ANY_THERMAL, 0) in wanted or THERMAL in asked_apart:
            self.refused["hw_thermal_ms"] = f"told together with software's, in {THERMAL}"

    def _learn(self, kinds: tuple[int, ...]) -> None:
        """How the values are read, from the types and the reasons of one answer."""
        self._kinds = kinds
        asked_apart = {slot for slot, _ in self._direct}
        codes, holes = [], []
        for slot, packed in enumerate(kinds):
            kind, failed = packed & _U32, packed >> 32
            code = None if failed else _CODES.get(kind)
            codes.append(f"{_FIELD_BYTES - 8}x{code or 'Q'}")
            column = _COLUMNS[slot]
            if code == "I4x" and column.startswith("pcie") and not self._is_quick:
                code = None
            if code is None:
                why = reason_of(failed) if failed else _UNREADABLE.get(kind, f"type {kind}")
                if slot not in asked_apart:
                    self.refused.setdefault(column, why)
                holes.append((slot, _HOLES[slot]))
            else:
                self.refused.pop(column, None)
        self._values_of = struct.Struct("<" + "".join(codes))
        self._holes = tuple(holes)

    def pack(self, buffer: bytearray, at: int, begin_ns: int) -> None:
        """Read and pack one record. Raises NvmlRefused when the whole GPU does not answer."""
        now_ns = time.monotonic_ns()
        row = self._batch()
        for slot, figure in self._direct:
            row[slot] = figure.value()
        slow = self.slow
        slow.refresh(now_ns)
        util, mem_util, temp, used, sm, mem, reasons = slow.gauges
        GPU_RECORD.pack_into(
            buffer,
            at,
            ((now_ns - begin_ns) // 1000) & _U32,
            self.place,
            util,
            mem_util,
            temp,
            row[1],
            row[0],
            used,
            sm,
            mem,
            reasons,
            *row[2:],
            *slow.profile,
            slow.processes,
            0,
        )

    def _batch(self) -> list[int]:
        """What the fields say; all missing where they are refused this time, or always."""
        fields = self._fields
        if fields is None:
            return list(_HOLES)
        try:
            fields.read()
        except NvmlRefused as refused:
            if refused.reason in LOST:
                raise
            return list(_HOLES)
        kinds = self._kinds_of.unpack_from(fields.buffer)
        if kinds != self._kinds:
            self._learn(kinds)
        return self._row(fields)

    def _row(self, fields: NvmlFields) -> list[int]:
        """The columns of the fields, in their order, from what was read last."""
        energy, power, cap, thermal, hot, brake, sent, got, pcie_sent, pcie_got = (
            self._values_of.unpack_from(fields.buffer)
        )
        row = [
            energy & _U64,
            power & _U32,
            (cap // _NS_PER_MS) & _U32,
            (thermal // _NS_PER_MS) & _U32,
            (hot // _NS_PER_MS) & _U32,
            (brake // _NS_PER_MS) & _U32,
            (sent >> self._shift) & _U32,
            (got >> self._shift) & _U32,
            self._pcie_sent.mib(pcie_sent),
            self._pcie_got.mib(pcie_got),
        ]
        for slot, missing in self._holes:
            row[slot] = missing
        return row

    def describe(self) -> dict[str, Any]:
        """What META says of this GPU."""
        slow = self.slow
        name = _text(self.handle, "nvmlDeviceGetName")
        return {
            "uuid": _text(self.handle, "nvmlDeviceGetUUID"),
            "index": self.index,
            "name": name,
            "pci": slow.pci(),
            "vendor": "nvidia",
            "power_limit_w": slow.power_limit_w(),
            "memory_bytes": slow.memory_bytes,
            "max_sm_mhz": slow.max_sm_mhz(),
            "energy": None if "energy_mj" in self.refused else "counter",
            "power": self.power or None,
            # Beside a Grace a GPU's counters are those of the module (zeus#172).
            "scope": "module" if any(word in (name or "") for word in _MODULES) else "gpu",
            "mig": slow.is_mig(),
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


def _text(handle: NvmlHandle, name: str) -> str | None:
    try:
        return handle.text(name)
    except NvmlRefused:
        return None
