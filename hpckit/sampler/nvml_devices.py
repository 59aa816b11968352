"""The device files of NVIDIA's GPUs: which of them a control group lets this process open."""

from __future__ import annotations

import ctypes
import errno
import os

from hpckit.sampler.gpus import ShownGpu
from hpckit.sampler.nvml_calls import NvmlRefused

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection

    from hpckit.sampler.nvml_calls import NvmlCalls


_DENIED = (errno.EPERM, errno.EACCES)
_NAME = "nvidia"


def opens(path: str) -> bool:
    """Whether the control group lets this process open a device; another fault is no answer."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in _DENIED
    return True


def opens_others(known: Collection[int], dev: str = "/dev") -> bool:
    """Whether this process may open a GPU beside those with the minor numbers `known`.

    A GPU that is lost to its driver does not tell its own number. Where there are no files, nothing
    keeps a process from any GPU.
    """
    try:
        names = [name.removeprefix(_NAME) for name in os.listdir(dev) if name.startswith(_NAME)]
    except OSError:
        names = []
    minors = [int(name) for name in names if name.isascii() and name.isdigit()]
    others = [minor for minor in minors if minor not in known]
    return not minors or any(opens(f"{dev}/{_NAME}{minor}") for minor in others)


def shown_gpus(nvml: NvmlCalls, dev: str = "/dev") -> list[ShownGpu]:
    """All of them. Raises NvmlRefused.

    One that the driver has lost has neither name nor minor number, and keeps its place where its
    device file may be opened: CUDA's numbers count it.
    """
    shown = [_shown(nvml, index, dev) for index in range(nvml.count())]
    if all(gpu.uuid or not gpu.opens for gpu in shown):
        return shown
    is_ours = opens_others({gpu.minor for gpu in shown if gpu.minor is not None}, dev)
    return [gpu if gpu.uuid else gpu._replace(opens=gpu.opens and is_ours) for gpu in shown]


def _shown(nvml: NvmlCalls, index: int, dev: str) -> ShownGpu:
    try:
        gpu = nvml.gpu(index)
        uuid = gpu.text("nvmlDeviceGetUUID")
    except NvmlRefused as refused:
        return ShownGpu(index, "", None, refused.reason != "NoPermission")
    try:
        minor = gpu.number("nvmlDeviceGetMinorNumber")
    except NvmlRefused:
        return ShownGpu(index, uuid, None, opens=True)
    return ShownGpu(index, uuid, minor, opens(f"{dev}/nvidia{minor}"))


def parent_of(nvml: NvmlCalls, mig_uuid: str) -> str | None:
    """The uuid of the GPU that a MIG device is a part of."""
    if mig_uuid.startswith("MIG-GPU-"):  # drivers before 470: MIG-GPU-<uuid>/<instance>/<instance>
        return mig_uuid[len("MIG-") :].partition("/")[0]
    try:
        return nvml.gpu_of_slice(mig_uuid).text("nvmlDeviceGetUUID")
    except NvmlRefused:
        return None


def driver_version(nvml: NvmlCalls) -> str:
    """Such as 570.86.15. Raises NvmlRefused."""
    buffer = ctypes.create_string_buffer(80)
    nvml.call("nvmlSystemGetDriverVersion", buffer, ctypes.c_uint(80))
    return buffer.value.decode("ascii", "replace")
