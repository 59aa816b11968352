"""AMD GPUs' figures through sysfs, from files that stay open.

Files: Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst of the kernel; energy1_input of
hwmon in µJ is there on a few kernels only, otherwise power is all there is.
"""

from __future__ import annotations

import glob
import os
import struct
import time

from hpckit.account.sample_format import GPU_COLUMNS, GPU_RECORD, MISSING
from hpckit.core.files_in_job import HeldFile, hold, read_bytes
from hpckit.sampler.cgroups_and_node import number_of
from hpckit.sampler.gpus import uuid_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


# Columns, what their files count for one of them, and the files, of which the first is read that
# can be: below the device, or below its sensors.
_FILES = {
    "util_pct": (1, ("{device}/gpu_busy_percent",)),
    "mem_util_pct": (1, ("{device}/mem_busy_percent",)),
    "temp_c": (1000, ("{sensors}/temp1_input", "{sensors}/temp2_input")),
    "power_mw": (1000, ("{sensors}/power1_average", "{sensors}/power1_input")),
    "energy_mj": (1000, ("{sensors}/energy1_input",)),
    "mem_used_mib": (1 << 20, ("{device}/mem_info_vram_used",)),
    "sm_mhz": (1_000_000, ("{sensors}/freq1_input",)),
    "mem_mhz": (1_000_000, ("{sensors}/freq2_input",)),
}
_MEASURED = ("gauge", "counter")
_HOLES = {
    column.name: MISSING[struct.calcsize(f"<{column.code}")] if column.kind in _MEASURED else 0
    for column in GPU_COLUMNS
}
"""Every column of a record, "not measured" where it is a figure."""
_NO_SUCH = "amdgpu's sysfs has no such counter"


class AmdGpu:
    """The files of one GPU's device folder."""

    def __init__(self, device: str, index: int, place: int) -> None:
        self._device = device
        self._index = index
        self._place = place
        figures = [column.name for column in GPU_COLUMNS if column.kind in _MEASURED]
        self._refused = {name: _NO_SUCH for name in figures if name not in _FILES}
        sensors = next(iter(sorted(glob.glob(f"{device}/hwmon/hwmon*"))), f"{device}/hwmon/none")
        self._files: dict[str, HeldFile] = {}
        for column, (_, names) in _FILES.items():
            paths = [name.format(device=device, sensors=sensors) for name in names]
            for path in paths:
                held = None if column in self._files else hold(path)
                if held is not None and number_of(held.read()) is not None:
                    self._files[column] = held
            if column not in self._files:
                self._refused[column] = f"no {os.path.basename(paths[0])} that is readable"
        self._limit = hold(f"{sensors}/power1_cap")

    def pack(self, buffer: bytearray, at: int, begin_ns: int) -> None:
        """Read and pack one record."""
        dt_us = (time.monotonic_ns() - begin_ns) // 1000 & MISSING[4]
        row = {**_HOLES, "dt_us": dt_us, "gpu": self._place}
        for column, held in self._files.items():
            count = number_of(held.read())
            if count is not None:
                row[column] = min(count // _FILES[column][0], row[column])
        GPU_RECORD.pack_into(buffer, at, *row.values())

    def describe(self) -> dict[str, Any]:
        """What META says of this GPU."""
        power = None
        if "power_mw" in self._files:
            is_average = self._files["power_mw"].path.endswith("_average")
            power = "average" if is_average else "instant"
        limit_uw = number_of(self._limit.read()) if self._limit else None
        pci = os.path.basename(os.path.realpath(self._device))
        name = read_bytes(f"{self._device}/product_name").decode("utf-8", "replace")
        return {
            "uuid": uuid_of(self._device),
            "index": self._index,
            "name": name.strip() or "AMD GPU",
            "pci": pci if pci.count(":") == 2 else None,  # noqa: PLR2004  domain:bus:device
            "vendor": "amd",
            "power_limit_w": None if limit_uw is None else limit_uw / 1e6,
            "memory_bytes": number_of(read_bytes(f"{self._device}/mem_info_vram_total")),
            "max_sm_mhz": None,
            "energy": "counter" if "energy_mj" in self._files else None,
            "power": power,
            "scope": "gpu",
            "mig": False,
            "refused": self._refused,
        }


class AmdCounters:
    """The GPUs that are sampled; `place` is that of the first."""

    def __init__(self, devices: Sequence[tuple[int, str]], place: int = 0) -> None:
        self._gpus = [
            AmdGpu(device, index, place + nth) for nth, (index, device) in enumerate(devices)
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
