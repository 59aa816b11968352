"""libnvidia-ml.so.1: the few calls that ranks make, and samplers too.

`pynvml` would cost each rank 20 ms to load, and builds its arguments anew at each call
(docs/adr/0010); what is asked once a node goes through `hpckit.node.capture.nvml`.
Signatures and structures: nvml.h. Reasons are nvml.h's errors in pynvml's spelling.
"""

from __future__ import annotations

import ctypes
import errno
import os

from hpckit.sampler.gpus import NvmlRefused, ShownGpu

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from hpckit.sampler.gpus import ParentOf


_DEVICE = "nvidia"
LIBRARY = "libnvidia-ml.so.1"
_REASONS = {
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    6: "NotFound",
    7: "InsufficientSize",
    9: "DriverNotLoaded",
    10: "Timeout",
    12: "LibraryNotFound",
    13: "FunctionNotFound",
    15: "GpuIsLost",
    16: "ResetRequired",
    17: "OperatingSystem",
    18: "LibRmVersionMismatch",
    20: "Memory",
    21: "NoData",
    25: "ArgumentVersionMismatch",
    26: "Deprecated",
    27: "NotReady",
    28: "GpuNotFound",
    29: "InvalidState",
    999: "Unknown",
}
LOST = frozenset({"GpuIsLost", "GpuNotFound", "ResetRequired"})
"""Reasons for which a GPU will not answer any more."""
LASTING = frozenset(
    {"NotSupported", "NoPermission", "FunctionNotFound", "ArgumentVersionMismatch", "Deprecated"}
)
"""Reasons for which a call need not be made again."""


class NvmlCalls:
    """NVML, initialized. The calls of one instance are for one thread at a time."""

    def __init__(self, name: str = LIBRARY) -> None:
        """Load the library and initialize it. Raises NvmlRefused."""
        try:
            self._library = ctypes.CDLL(name)
        except OSError as error:
            raise NvmlRefused("LibraryNotFound") from error
        self.call("nvmlInit_v2")

    def function(self, *names: str) -> Any:
        """The first of these functions that the library has. Raises NvmlRefused."""
        found = next((name for name in names if hasattr(self._library, name)), None)
        if found is None:
            raise NvmlRefused("FunctionNotFound")
        return getattr(self._library, found)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises NvmlRefused."""
        check(self.function(name)(*arguments))

    def driver_version(self) -> str:
        """Such as 570.86.15. Raises NvmlRefused."""
        buffer = ctypes.create_string_buffer(80)
        self.call("nvmlSystemGetDriverVersion", buffer, ctypes.c_uint(80))
        return buffer.value.decode("ascii", "replace")

    def count(self) -> int:
        """How many GPUs this process may see. Raises NvmlRefused."""
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def gpu(self, index: int) -> NvmlHandle:
        """A GPU by the driver's index. Raises NvmlRefused."""
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return NvmlHandle(self, handle)

    def gpu_of_slice(self, uuid: str) -> NvmlHandle:
        """The GPU that a MIG device is of. Raises NvmlRefused."""
        mig, handle = ctypes.c_void_p(), ctypes.c_void_p()
        name = ctypes.c_char_p(uuid.encode("utf-8", "surrogateescape"))
        self.call("nvmlDeviceGetHandleByUUID", name, ctypes.byref(mig))
        whole = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"
        self.call(whole, mig, ctypes.byref(handle))
        return NvmlHandle(self, handle)


class NvmlHandle:
    """A GPU; every method raises NvmlRefused for what it does not tell."""

    def __init__(self, nvml: NvmlCalls, handle: ctypes.c_void_p) -> None:
        self.nvml = nvml
        self.handle = handle

    def text(self, name: str, most_bytes: int = 96) -> str:
        """What a function such as nvmlDeviceGetUUID writes into a buffer."""
        text = ctypes.create_string_buffer(most_bytes)
        self.nvml.call(name, self.handle, text, ctypes.c_uint(most_bytes))
        return text.value.decode("ascii", "replace")

    def number(self, name: str, *middle: object) -> int:
        """The one unsigned int of a function such as nvmlDeviceGetPowerUsage."""
        value = ctypes.c_uint()
        self.nvml.call(name, self.handle, *middle, ctypes.byref(value))
        return value.value

    def pci(self) -> str:
        """The address as sysfs writes it, such as 0000:18:00.0."""
        info = ctypes.create_string_buffer(68)  # nvmlPciInfo_t; busId is its last member
        self.nvml.call("nvmlDeviceGetPciInfo_v3", self.handle, info)
        bus_id = info.raw[36:].partition(b"\0")[0].decode("ascii", "replace").lower()
        return bus_id[4:] if bus_id.startswith("0000") else bus_id

    def is_mig(self) -> bool:
        """Whether the GPU is split."""
        mode, pending = ctypes.c_uint(), ctypes.c_uint()
        self.nvml.call(
            "nvmlDeviceGetMigMode", self.handle, ctypes.byref(mode), ctypes.byref(pending)
        )
        return mode.value == 1

    def energy_mj(self) -> int:
        """Millijoules since the driver was loaded: nvmlDeviceGetTotalEnergyConsumption."""
        value = ctypes.c_ulonglong()
        self.nvml.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value


def check(code: int) -> None:
    """Raise NvmlRefused for a return value that is not NVML_SUCCESS."""
    if code:
        raise NvmlRefused(reason_of(code))


def reason_of(code: int) -> str:
    """The name of a return value."""
    return _REASONS.get(code, f"NVML error {code}")


def shown_gpus(nvml: NvmlCalls, dev: str = "/dev") -> list[ShownGpu]:
    """Return the GPUs that the driver shows. Raises NvmlRefused.

    One that the driver has lost keeps its place where its device file may be opened: CUDA's numbers
    count it.
    """
    shown = [_shown(nvml, index, dev) for index in range(nvml.count())]
    lost = [gpu for gpu in shown if gpu.opens and not gpu.uuid]
    if lost and not _opens_others({gpu.minor for gpu in shown if gpu.minor is not None}, dev):
        for gpu in lost:
            gpu.opens = False
    return shown


def _shown(nvml: NvmlCalls, index: int, dev: str) -> ShownGpu:
    try:
        gpu = nvml.gpu(index)
        uuid = gpu.text("nvmlDeviceGetUUID")
    except NvmlRefused as refused:
        why = refused.reason
        return ShownGpu(index, "", None, opens=why != "NoPermission", why=why)
    try:
        minor = gpu.number("nvmlDeviceGetMinorNumber")
    except NvmlRefused:
        return ShownGpu(index, uuid, None, opens=True, read_mj=gpu.energy_mj)
    return ShownGpu(
        index, uuid, minor, opens=_opens(f"{dev}/{_DEVICE}{minor}"), read_mj=gpu.energy_mj
    )


def _opens(path: str) -> bool:
    """Whether the control group lets this process open a device; another fault is no answer."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES)
    return True


def _opens_others(known: Collection[int], dev: str) -> bool:
    """Whether this process may open a GPU beside those with the minor numbers `known`.

    A GPU that is lost to its driver does not tell its own number. Where there are no files, nothing
    keeps a process from any GPU.
    """
    try:
        names = [name.removeprefix(_DEVICE) for name in os.listdir(dev) if name.startswith(_DEVICE)]
    except OSError:
        names = []
    minors = [int(name) for name in names if name.isascii() and name.isdigit()]
    others = [minor for minor in minors if minor not in known]
    return not minors or any(_opens(f"{dev}/{_DEVICE}{minor}") for minor in others)


def parent_in(nvml: NvmlCalls) -> ParentOf:
    """What asks the driver for the uuid of the GPU that a MIG device is a part of."""

    def parent_of(mig_uuid: str) -> str | None:
        try:
            return nvml.gpu_of_slice(mig_uuid).text("nvmlDeviceGetUUID")
        except NvmlRefused:
            return None

    return parent_of
