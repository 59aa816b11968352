"""The GPUs that NVML shows, as the choice among them needs them."""

from __future__ import annotations

import ctypes
import errno
import os

from hpckit.adapters.nvml_calls import NvmlHandle, NvmlRefused
from hpckit.decide.sampled_gpus import ShownGpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.nvml_calls import NvmlCalls

_DENIED = (errno.EPERM, errno.EACCES)


def shown_gpus(nvml: NvmlCalls, dev: str = "/dev") -> list[ShownGpu]:
    """All of them; one that refuses its name cannot be opened. Raises NvmlRefused."""
    shown = []
    for index in range(nvml.count()):
        try:
            gpu = nvml.gpu(index)
            uuid = gpu.text("nvmlDeviceGetUUID")
        except NvmlRefused:
            shown.append(ShownGpu(index, "", None, False))
            continue
        try:
            minor: int | None = gpu.number("nvmlDeviceGetMinorNumber")
        except NvmlRefused:
            minor = None
        shown.append(ShownGpu(index, uuid, minor, minor is None or _opens(f"{dev}/nvidia{minor}")))
    return shown


def parent_of(nvml: NvmlCalls, mig_uuid: str) -> str | None:
    """The uuid of the GPU that a MIG device is a part of."""
    if mig_uuid.startswith("MIG-GPU-"):  # drivers before 470: MIG-GPU-<uuid>/<instance>/<instance>
        return mig_uuid[len("MIG-") :].partition("/")[0]
    part, whole = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        nvml.call("nvmlDeviceGetHandleByUUID", mig_uuid.encode(), ctypes.byref(part))
        nvml.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part, ctypes.byref(whole))
        return NvmlHandle(nvml, whole).text("nvmlDeviceGetUUID")
    except NvmlRefused:
        return None


def _opens(path: str) -> bool:
    """Whether the control group lets this process open a device; another fault is no answer."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in _DENIED
    return True


def driver_version(nvml: NvmlCalls) -> str:
    """Such as 570.86.15. Raises NvmlRefused."""
    buffer = ctypes.create_string_buffer(80)
    nvml.call("nvmlSystemGetDriverVersion", buffer, ctypes.c_uint(80))
    return buffer.value.decode("ascii", "replace")
