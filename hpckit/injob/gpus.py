"""The GPUs that this process may open, of NVIDIA through NVML, else of AMD through sysfs."""

from __future__ import annotations

from hpckit.injob.gpu_watch import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.nvml_calls import NvmlCalls, NvmlHandle
    from hpckit.injob.gpu_watch import Gpu


class _NvidiaGpu:
    __slots__ = ("_handle", "uuid")

    def __init__(self, handle: NvmlHandle) -> None:
        self._handle = handle
        self.uuid = handle.text("nvmlDeviceGetUUID")

    def energy_mj(self) -> int:
        from hpckit.adapters.nvml_calls import NvmlRefused

        try:
            return self._handle.energy_mj()
        except NvmlRefused as error:
            raise Refused(error.reason) from error


def find_gpus() -> list[Gpu]:
    """The GPUs in the driver's order, which is that of their PCI addresses.

    Raises Refused where NVML does not answer, and no GPU of AMD is there either.
    """
    try:
        from hpckit.adapters.nvml_calls import NvmlCalls, NvmlRefused
    except ImportError as error:
        raise Refused("this Python has no ctypes") from error
    try:
        nvml = NvmlCalls()
        return [*_openable(nvml, nvml.count())]
    except NvmlRefused as error:
        if error.reason == "LibraryNotFound":
            from hpckit.adapters.amd_energy import amd_gpus

            found: list[Gpu] = [*amd_gpus()]
            if found:
                return found
        raise Refused(error.reason) from error


def _openable(nvml: NvmlCalls, count: int) -> list[_NvidiaGpu]:
    # The count includes GPUs that a job without them may not open: nvml.h.
    from hpckit.adapters.nvml_calls import NvmlRefused

    found = []
    for index in range(count):
        try:
            found.append(_NvidiaGpu(nvml.gpu(index)))
        except NvmlRefused as error:
            if error.reason != "NoPermission":
                raise
    return found
