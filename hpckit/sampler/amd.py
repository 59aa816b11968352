"""AMD GPUs' figures through sysfs, from files that stay open.

Files: Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst of the kernel; energy1_input of
hwmon in µJ is there on a few kernels only, otherwise power is all there is.
"""

from __future__ import annotations

import glob
import os
import time

from hpckit.account.sample_format import GPU_RECORD, MISSING
from hpckit.core.files_in_job import HeldFile, hold
from hpckit.sampler.amd_energy import uuid_of
from hpckit.sampler.cgroups_and_node import number_of
from hpckit.sampler.job_processes import read_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_U8, _U16, _U32, _U64 = (MISSING[size] for size in (1, 2, 4, 8))
_UW_PER_MW = _UJ_PER_MJ = _M_PER_C = 1000
_HZ_PER_MHZ = 1_000_000
_UW_PER_W = 1_000_000
_NO_SUCH = "amdgpu's sysfs has no such counter"
# Columns that sysfs never has.
_ABSENT = (
    "event_reasons",
    "sw_power_cap_ms",
    "sw_thermal_ms",
    "hw_thermal_ms",
    "hw_power_brake_ms",
    "nvlink_tx_mib",
    "nvlink_rx_mib",
    "pcie_tx_mib",
    "pcie_rx_mib",
    "sm_active_pct100",
    "tensor_active_pct100",
    "dram_active_pct100",
    "processes",
)
_NEVER = (*(_U32,) * 9, *(_U16,) * 3)
_NAME_BYTES = 4096


class AmdGpu:
    """The files of one GPU's device folder."""

    def __init__(self, device: str, index: int, place: int) -> None:
        self._device = device
        self._index = index
        self._place = place
        self._refused = dict.fromkeys(_ABSENT, _NO_SUCH)
        sensors = next(iter(sorted(glob.glob(f"{device}/hwmon/hwmon*"))), f"{device}/hwmon/none")
        self._busy = self._held("util_pct", f"{device}/gpu_busy_percent")
        self._memory_busy = self._held("mem_util_pct", f"{device}/mem_busy_percent")
        self._used = self._held("mem_used_mib", f"{device}/mem_info_vram_used")
        self._temp = self._held("temp_c", f"{sensors}/temp1_input", f"{sensors}/temp2_input")
        average, instant = f"{sensors}/power1_average", f"{sensors}/power1_input"
        self._power = self._held("power_mw", average, instant)
        self._energy = self._held("energy_mj", f"{sensors}/energy1_input")
        self._sm = self._held("sm_mhz", f"{sensors}/freq1_input")
        self._memory_clock = self._held("mem_mhz", f"{sensors}/freq2_input")
        self._limit = hold(f"{sensors}/power1_cap")

    def _held(self, column: str, *paths: str) -> HeldFile | None:
        for path in paths:
            held = hold(path)
            if held is not None and number_of(held.read()) is not None:
                return held
        self._refused[column] = f"no {os.path.basename(paths[0])} that can be read"
        return None

    def pack(self, buffer: bytearray, at: int, begin_ns: int) -> None:
        """Read and pack one record."""
        now_ns = time.monotonic_ns()
        GPU_RECORD.pack_into(
            buffer,
            at,
            ((now_ns - begin_ns) // 1000) & _U32,
            self._place,
            _asked(self._busy, 1, _U8),
            _asked(self._memory_busy, 1, _U8),
            _asked(self._temp, _M_PER_C, _U8),
            _asked(self._power, _UW_PER_MW, _U32),
            _asked(self._energy, _UJ_PER_MJ, _U64),
            _asked(self._used, 1 << 20, _U32),
            _asked(self._sm, _HZ_PER_MHZ, _U16),
            _asked(self._memory_clock, _HZ_PER_MHZ, _U16),
            *_NEVER,
            _U8,
            0,
        )

    def describe(self) -> dict[str, Any]:
        """What META says of this GPU."""
        power = None
        if self._power is not None:
            power = "average" if self._power.path.endswith("_average") else "instant"
        limit_uw = number_of(self._limit.read()) if self._limit else None
        pci = os.path.basename(os.path.realpath(self._device))
        name = read_bytes(f"{self._device}/product_name", _NAME_BYTES).decode("utf-8", "replace")
        return {
            "uuid": uuid_of(self._device),
            "index": self._index,
            "name": name.strip() or "AMD GPU",
            "pci": pci if pci.count(":") == 2 else None,  # noqa: PLR2004  domain:bus:device
            "vendor": "amd",
            "power_limit_w": None if limit_uw is None else limit_uw / _UW_PER_W,
            "memory_bytes": number_of(
                read_bytes(f"{self._device}/mem_info_vram_total", _NAME_BYTES)
            ),
            "max_sm_mhz": None,
            "energy": None if self._energy is None else "counter",
            "power": power,
            "scope": "gpu",
            "mig": False,
            "refused": self._refused,
        }


class AmdCounters:
    """The GPUs that are sampled; `place` is that of the first."""

    def __init__(self, devices: Sequence[tuple[int, str]], place: int = 0) -> None:
        """`devices` are indices and folders."""
        self._gpus = [
            AmdGpu(device, index, place + at) for at, (index, device) in enumerate(devices)
        ]
        self._described = [gpu.describe() for gpu in self._gpus]

    def describe(self) -> Sequence[dict[str, Any]]:
        """The GPUs as META has them."""
        return self._described

    def read_into(self, buffer: bytearray, at: int, begin_ns: int) -> int:
        """Pack a record for each GPU."""
        for gpu in self._gpus:
            gpu.pack(buffer, at, begin_ns)
            at += GPU_RECORD.size
        return at

    def events(self) -> Sequence[dict[str, Any]]:
        """There are none."""
        return ()


def _asked(held: HeldFile | None, divisor: int, missing: int) -> int:
    number = number_of(held.read()) if held else None
    return missing if number is None else min(number // divisor, missing)
