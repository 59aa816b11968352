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
from hpckit.sampler.amd_energy import may_open
from hpckit.sampler.gpus import ShownGpu
from hpckit.sampler.host import number_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_VENDOR = b"0x1002"
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
_NEVER = (_U32,) * 9, (_U16,) * 3


class AmdGpu:
    """The files of one GPU's device folder."""

    def __init__(self, device: str, index: int, place: int) -> None:
        self.device = device
        self.index = index
        self.place = place
        self.refused = dict.fromkeys(_ABSENT, _NO_SUCH)
        sensors = next(iter(sorted(glob.glob(f"{device}/hwmon/hwmon*"))), f"{device}/hwmon/none")
        self._busy = self._held("util_pct", f"{device}/gpu_busy_percent")
        self._memory_busy = self._held("mem_util_pct", f"{device}/mem_busy_percent")
        self._used = self._held("mem_used_mib", f"{device}/mem_info_vram_used")
        self._temp = self._held("temp_c", f"{sensors}/temp1_input", f"{sensors}/temp2_input")
        average, instant = f"{sensors}/power1_average", f"{sensors}/power1_input"
        self._power = self._held("power_mw", average, instant)
        self.power = None
        if self._power is not None:
            self.power = "average" if self._power.path == average else "instant"
        self._energy = self._held("energy_mj", f"{sensors}/energy1_input")
        self._sm = self._held("sm_mhz", f"{sensors}/freq1_input")
        self._memory_clock = self._held("mem_mhz", f"{sensors}/freq2_input")
        self._limit = hold(f"{sensors}/power1_cap")

    def _held(self, column: str, *paths: str) -> HeldFile | None:
        for path in paths:
            held = hold(path)
            if held is not None and number_of(held.read()) is not None:
                return held
        self.refused[column] = f"no {os.path.basename(paths[0])} that can be read"
        return None

    def pack(self, buffer: bytearray, at: int, begin_ns: int) -> None:
        """Read and pack one record."""
        now_ns = time.monotonic_ns()
        GPU_RECORD.pack_into(
            buffer,
            at,
            ((now_ns - begin_ns) // 1000) & _U32,
            self.place,
            _asked(self._busy, 1, _U8),
            _asked(self._memory_busy, 1, _U8),
            _asked(self._temp, _M_PER_C, _U8),
            _asked(self._power, _UW_PER_MW, _U32),
            _asked(self._energy, _UJ_PER_MJ, _U64),
            _asked(self._used, 1 << 20, _U32),
            _asked(self._sm, _HZ_PER_MHZ, _U16),
            _asked(self._memory_clock, _HZ_PER_MHZ, _U16),
            *_NEVER[0],
            *_NEVER[1],
            _U8,
            0,
        )

    def describe(self) -> dict[str, Any]:
        """What META says of this GPU."""
        limit_uw = number_of(self._limit.read()) if self._limit else None
        pci = os.path.basename(os.path.realpath(self.device))
        return {
            "uuid": uuid_of(self.device),
            "index": self.index,
            "name": _text(f"{self.device}/product_name") or "AMD GPU",
            "pci": pci if pci.count(":") == 2 else None,  # noqa: PLR2004  domain:bus:device
            "vendor": "amd",
            "power_limit_w": None if limit_uw is None else limit_uw / _UW_PER_W,
            "memory_bytes": _number(f"{self.device}/mem_info_vram_total"),
            "max_sm_mhz": None,
            "energy": None if self._energy is None else "counter",
            "power": self.power,
            "scope": "gpu",
            "mig": False,
            "refused": self.refused,
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


def amd_devices(sysroot: str = "") -> list[str]:
    """The device folders of AMD's GPUs, in the order of their addresses, as ROCm counts them."""
    found = {}
    for card in glob.glob(f"{sysroot}/sys/class/drm/card*"):
        device = f"{card}/device"
        # A connector, card0-DP-1, leads to a card.
        if "-" not in os.path.basename(card) and _bytes(f"{device}/vendor").startswith(_VENDOR):
            found[os.path.realpath(device)] = device
    return [found[address] for address in sorted(found)]


def shown_amd(devices: Sequence[str]) -> list[ShownGpu]:
    """The same as a choice sees them; ROCm too can only open what the control group allows."""
    shown = []
    for index, device in enumerate(devices):
        shown.append(ShownGpu(index, uuid_of(device), index, may_open(device)))
    return shown


def uuid_of(device: str) -> str:
    """The GPU's name as rocm-smi has it; its address where it has no unique_id."""
    unique = _bytes(f"{device}/unique_id").decode("ascii", "replace").strip()
    return f"GPU-{unique}" if unique else f"GPU-{os.path.basename(os.path.realpath(device))}"


def _asked(held: HeldFile | None, divisor: int, missing: int) -> int:
    number = number_of(held.read()) if held else None
    return missing if number is None else min(number // divisor, missing)


def _bytes(path: str) -> bytes:
    held = hold(path)
    if held is None:
        return b""
    data = held.read()
    held.close()
    return data


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace").strip()


def _number(path: str) -> int | None:
    return number_of(_bytes(path))
